"""The list of one table: keyset pages, a few named filters, search by whole identifiers.

Django's own change list counts all rows, skips by OFFSET, and lets the address filter by any column of the table
(so also by one that is never shown). This one has none of the three: a page costs the same at 10 and at 10,000 rows.
"""

from __future__ import annotations

import uuid
from collections.abc import Callable, Mapping
from contextlib import suppress
from dataclasses import dataclass
from typing import Any, ClassVar
from urllib.parse import urlencode

from django.contrib import admin
from django.core.exceptions import BadRequest, PermissionDenied, ValidationError
from django.core.paginator import Paginator
from django.db import models
from django.db.models import Q, QuerySet
from django.http import Http404, HttpRequest, HttpResponse, HttpResponseNotAllowed
from django.template.response import TemplateResponse

from ..models.fields import BytesField, JSONTextField
from .showing import Shown, address_of, show

PAGE = 50
READING = ("GET", "HEAD")
MAX_TERM = 200


@dataclass(frozen=True, slots=True)
class Search:
    """A column that is searched for the whole term, or for what begins with it. `path` may lead through a relation.

    `owned`: the related table is narrowed to the tenant as well, for its index begins with the tenant.
    """

    label: str
    path: str
    prefix: bool = False
    owned: bool = True

    def condition(self, term: str) -> Q:
        found = Q(**{f"{self.path}__startswith" if self.prefix else self.path: term})
        through, _, _ = self.path.rpartition("__")
        return found & Q(**{f"{through}__tenant": models.F("tenant")}) if through and self.owned else found


@dataclass(frozen=True, slots=True)
class Within:
    """A parent that a list can be narrowed to, and how its rows are found by an index.

    `order`: the column in which they are read from the first on; without one, the newest come first.
    """

    model: type[models.Model]
    rows: Callable[[Any], Q]
    order: str = ""


@dataclass(frozen=True, slots=True)
class Order:
    """What a page is sorted by: a column whose values are unique in the list, and its direction."""

    column: str
    rising: bool

    def beyond(self, value: Any, *, back: bool) -> Q:
        return Q(**{f"{self.column}__{'gt' if self.rising != back else 'lt'}": value})

    def by(self, *, back: bool) -> str:
        return self.column if self.rising != back else f"-{self.column}"


@dataclass(frozen=True, slots=True)
class Table:
    """Rows ready to be shown: the first cell of each links to its page."""

    heads: list[str]
    rows: list[tuple[str, list[Shown]]]


class ListedAdmin(admin.ModelAdmin):
    """A table whose list is read in keyset pages. `newest` is the column that grows with time, unique in the list.

    `choices` are the filters: a column and its few values. `within` are the parents by their name in the address.
    """

    newest: ClassVar[str] = "pk"
    searches: ClassVar[tuple[Search, ...]] = ()
    choices: ClassVar[Mapping[str, tuple[str, ...]]] = {}
    within: ClassVar[Mapping[str, Within]] = {}
    about: ClassVar[str] = ""
    actions = None

    def changelist_view(self, request: HttpRequest, extra_context: dict[str, Any] | None = None) -> HttpResponse:
        if request.method not in READING:
            return HttpResponseNotAllowed(READING)
        if not self.has_view_permission(request):
            raise PermissionDenied
        parents = self._parents(request)
        chosen = self._chosen(request)
        term = _term(request)
        rows = self.light(self.get_queryset(request)).filter(**chosen)
        for name, parent in parents.items():
            rows = rows.filter(self.within[name].rows(parent))
        found, links = self._page(request, rows, self.order_in(*parents), term)
        kept = {name: str(parent.pk) for name, parent in parents.items()}
        context = {
            **self.admin_site.each_context(request),
            "title": str(self.opts.verbose_name_plural).capitalize(),
            "opts": self.opts,
            "about": self.about,
            "table": self.table(found, without=tuple(parents)),
            "term": term,
            "kept": kept,
            "parents": [
                (self.within[name].model._meta.verbose_name, parent, address_of(self.admin_site, parent))
                for name, parent in parents.items()
            ],
            "choices": [(name, values, chosen.get(name, "")) for name, values in self.choices.items()],
            "narrowed": bool(term or chosen or parents),
            "search_help": self.search_help(),
            "has_add_permission": self.has_add_permission(request),
            **{name: _link({**kept, **chosen, **_named(term)}, link) for name, link in links.items()},
            **(extra_context or {}),
        }
        return TemplateResponse(request, "admin/audit/list.html", context)

    def search_help(self) -> str:
        """What the search looks at, in words."""
        ways = [f"{way.label} ({'its beginning' if way.prefix else 'whole'})" for way in self.searches]
        return ", ".join(["id (whole)", *ways])

    def order_in(self, *parents: str) -> Order:
        column = next((self.within[name].order for name in parents if self.within[name].order), "")
        return Order(column or self.newest, rising=bool(column))

    def light(self, rows: QuerySet[Any]) -> QuerySet[Any]:
        """The rows with what their cells need, and without the large columns that a list does not show."""
        fields = [self.opts.get_field(name) for name in self.columns()]
        heavy = [
            field.name
            for field in self.opts.concrete_fields
            if isinstance(field, (JSONTextField, BytesField, models.TextField)) and field not in fields
        ]
        return rows.select_related(*(field.name for field in fields if field.is_relation)).defer(*heavy)

    def columns(self) -> tuple[str, ...]:
        return tuple(str(name) for name in self.list_display)

    def table(self, rows: list[Any], without: tuple[str, ...] = ()) -> Table:
        names = [name for name in self.columns() if name not in without]
        heads = [str(getattr(self.opts.get_field(name), "verbose_name", name)) for name in names]
        site = self.admin_site
        return Table(heads, [(address_of(site, row), [show(site, row, name) for name in names]) for row in rows])

    def get_object(self, request: HttpRequest, object_id: str, from_field: str | None = None) -> Any:
        """The row, or 404: for one that is not there and for one of another tenant alike."""
        found = super().get_object(request, object_id, from_field) if "\0" not in object_id else None
        if found is None:
            raise Http404(f"There is no such {self.opts.verbose_name}.")
        return found

    def get_paginator(
        self,
        request: HttpRequest,
        queryset: Any,
        per_page: int,
        orphans: int = 0,
        allow_empty_first_page: bool = True,
    ) -> Paginator[Any]:
        """For Django's history page: its first page, which is all that is shown, without counting the rest."""
        return Paginator(list(queryset[:per_page]), per_page)

    def _parents(self, request: HttpRequest) -> dict[str, models.Model]:
        parents = {}
        for name in self.within:
            if given := request.GET.get(name):
                reader: Any = self.admin_site.get_model_admin(self.within[name].model)
                parents[name] = reader.get_object(request, given)
        return parents

    def _chosen(self, request: HttpRequest) -> dict[str, str]:
        chosen = {name: request.GET[name] for name in self.choices if request.GET.get(name)}
        for name, value in chosen.items():
            if value not in self.choices[name]:
                raise BadRequest(f"There is no such {name}. Choose one of: {', '.join(self.choices[name])}.")
        return chosen

    def _page(
        self, request: HttpRequest, rows: QuerySet[Any], order: Order, term: str
    ) -> tuple[list[Any], dict[str, dict[str, str] | None]]:
        """The rows of this page in their order, and what the links to other pages say, if there are any."""
        back = "before" in request.GET
        cursor = request.GET.get("before") or request.GET.get("after")
        if cursor:
            rows = rows.filter(order.beyond(self._key(order, cursor), back=back))
        by = order.by(back=back)
        if term:
            rows = rows.filter(pk__in=self._search(rows, by, term))
        found = list(rows.order_by(by)[: PAGE + 1])
        more, found = len(found) > PAGE, found[:PAGE]
        if back:
            found.reverse()
        return found, {
            "first": {} if cursor else None,
            "previous": {"before": _key_of(found[0], order)} if found and (more if back else cursor) else None,
            "next": {"after": _key_of(found[-1], order)} if found and (back or more) else None,
        }

    def _search(self, rows: QuerySet[Any], by: str, term: str) -> set[Any]:
        """The keys of a page of matches: one query for each column, so that each can use its index."""
        conditions = [way.condition(term) for way in self.searches]
        try:
            conditions.append(Q(pk=self.opts.pk.to_python(term)))
        except ValidationError:
            conditions.append(Q(pk__in=()))
        keys: set[Any] = set()
        for condition in conditions:
            with suppress(ValidationError):  # the term is no value of this column
                keys.update(rows.filter(condition).order_by(by).values_list("pk", flat=True)[: PAGE + 1])
        return keys

    def _key(self, order: Order, text: str) -> Any:
        field: Any = self.opts.pk if order.column == "pk" else self.opts.get_field(order.column)
        try:
            key = field.to_python(text)
        except ValidationError:
            key = None
        if not isinstance(key, uuid.UUID) and not (isinstance(key, int) and 0 <= key < 2**63):
            raise BadRequest("The address of this page is incomplete. Begin at the first page.")
        return key


def _term(request: HttpRequest) -> str:
    term = request.GET.get("q", "").strip()
    if len(term) > MAX_TERM or "\0" in term:
        raise BadRequest(f"Search for an identifier of at most {MAX_TERM} characters.")
    return term


def _named(term: str) -> dict[str, str]:
    return {"q": term} if term else {}


def _link(kept: dict[str, str], link: dict[str, str] | None) -> str:
    return "" if link is None else f"?{urlencode({**kept, **link})}"


def _key_of(row: models.Model, order: Order) -> str:
    return str(getattr(row, order.column))
