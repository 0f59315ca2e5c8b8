"""One value of one row, as the templates show it: nothing prettified, nothing left out, what is linked a link."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Literal

from django.contrib.admin import AdminSite
from django.db import models
from django.urls import reverse

from ..models.fields import BytesField, JSONTextField

Kind = Literal["unset", "empty", "moment", "bytes", "json", "text", "link", "plain"]


@dataclass(frozen=True, slots=True)
class Shown:
    """A value with the name of its column. `url` leads to the row that it names."""

    label: str
    kind: Kind
    value: Any = None
    url: str = ""


def show(site: AdminSite, row: models.Model, name: str) -> Shown:
    """The column `name` of `row`. A foreign key is the row it names, as a link if the site has a page for it."""
    field: Any = row._meta.get_field(name)
    label = field.verbose_name
    value = getattr(row, name)
    if value is None:
        return Shown(label, "unset")
    if isinstance(value, models.Model):
        return Shown(label, "link", str(value) or str(value.pk), address_of(site, value))
    if isinstance(field, JSONTextField):
        return Shown(label, "json", value)
    if isinstance(field, BytesField):
        return Shown(label, "bytes", value)
    if isinstance(field, models.DateTimeField):
        return Shown(label, "moment", value)
    if isinstance(value, str):
        return Shown(label, "text", value) if value else Shown(label, "empty")
    if isinstance(value, bool):
        return Shown(label, "plain", "yes" if value else "no")
    return Shown(label, "plain", str(value))


def address_of(site: AdminSite, row: models.Model) -> str:
    """The page of a row; empty if its table has none."""
    return reverse(f"admin:{_route(row)}_change", args=[row.pk]) if site.is_registered(type(row)) else ""


def list_address(model: type[models.Model], query: str = "") -> str:
    address = reverse(f"admin:{_route(model)}_changelist")
    return f"{address}?{query}" if query else address


def _route(model: models.Model | type[models.Model]) -> str:
    return f"{model._meta.app_label}_{model._meta.model_name}"
