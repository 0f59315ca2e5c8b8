"""One row of one table: every column, and the rows that hang on it. To read, whoever asks."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, ClassVar

from django.contrib.admin.utils import unquote
from django.core.exceptions import PermissionDenied
from django.db import models
from django.db.models import Q, QuerySet
from django.http import HttpRequest, HttpResponse, HttpResponseNotAllowed
from django.template.response import TemplateResponse
from django.urls import URLPattern, path

from ..admin_site import AuditSite
from ..models import Tenant
from .listing import READING, ListedAdmin, Table
from .showing import list_address, show

BELOW = 20


@dataclass(frozen=True, slots=True)
class Below:
    """Rows of another table that hang on this one: those that its list shows within `parent`."""

    title: str
    model: type[models.Model]
    parent: str


@dataclass(frozen=True, slots=True)
class Hanging:
    """The first rows of a Below, and where the others are."""

    title: str
    table: Table
    address: str
    more: bool


class AuditAdmin(ListedAdmin):
    """A table of the runtime: its list and its rows, for who may read the tenant, by GET. There is nothing else.

    No permission, role or flag adds, changes or deletes here: the routes for it do not exist. `hidden` columns are
    not even read.
    """

    hidden: ClassVar[frozenset[str]] = frozenset()
    below: ClassVar[tuple[Below, ...]] = ()

    def get_urls(self) -> list[URLPattern]:
        view, route = self.admin_site.admin_view, f"{self.opts.app_label}_{self.opts.model_name}"
        return [
            path("", view(self.changelist_view), name=f"{route}_changelist"),
            path("<path:object_id>/change/", view(self.change_view), name=f"{route}_change"),
        ]

    def belongs(self, tenant: Tenant) -> Q:
        return Q(tenant=tenant)

    def get_queryset(self, request: HttpRequest) -> QuerySet[Any]:
        """The rows of the tenant that the person may read; none for who may read no tenant."""
        tenant = self._tenant(request)
        rows: QuerySet[Any] = super().get_queryset(request)
        return rows.none() if tenant is None else rows.filter(self.belongs(tenant)).defer(*self.hidden)

    def change_view(
        self,
        request: HttpRequest,
        object_id: str,
        form_url: str = "",
        extra_context: dict[str, Any] | None = None,
    ) -> HttpResponse:
        if request.method not in READING:
            return HttpResponseNotAllowed(READING)
        if not self.has_view_permission(request):
            raise PermissionDenied
        row = self.get_object(request, unquote(object_id))
        names = [field.name for field in self.opts.concrete_fields if field.name not in self.hidden]
        context = {
            **self.admin_site.each_context(request),
            "title": str(row),
            "opts": self.opts,
            "row": row,
            "about": self.about,
            "list_address": list_address(self.model),
            "lines": [show(self.admin_site, row, name) for name in names],
            "hanging": [self._hanging(request, row, below) for below in self.below],
        }
        return TemplateResponse(request, "admin/audit/row.html", context)

    def get_object(self, request: HttpRequest, object_id: str, from_field: str | None = None) -> Any:
        row = super().get_object(request, object_id, from_field)
        links = [field.name for field in self.opts.concrete_fields if field.is_relation]
        models.prefetch_related_objects([row], *links)
        return row

    def _hanging(self, request: HttpRequest, row: models.Model, below: Below) -> Hanging:
        reader: Any = self.admin_site.get_model_admin(below.model)
        order = reader.order_in(below.parent)
        rows = reader.light(reader.get_queryset(request)).filter(reader.within[below.parent].rows(row))
        found = list(rows.order_by(order.by(back=False))[: BELOW + 1])
        address = list_address(below.model, f"{below.parent}={row.pk}")
        table = reader.table(found[:BELOW], without=(below.parent,))
        return Hanging(below.title, table, address, len(found) > BELOW)

    def has_view_permission(self, request: HttpRequest, obj: Any = None) -> bool:
        return self._tenant(request) is not None

    def has_module_permission(self, request: HttpRequest) -> bool:
        return self.has_view_permission(request)

    def has_add_permission(self, request: HttpRequest) -> bool:
        return False

    def has_change_permission(self, request: HttpRequest, obj: Any = None) -> bool:
        return False

    def has_delete_permission(self, request: HttpRequest, obj: Any = None) -> bool:
        return False

    def _tenant(self, request: HttpRequest) -> Tenant | None:
        return self.admin_site.audited_tenant(request) if isinstance(self.admin_site, AuditSite) else None
