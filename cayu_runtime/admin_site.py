"""The admin as a place to read: who reads which tenant's rows is asked of the site, and by default nobody does."""

from __future__ import annotations

from typing import Any

from django.contrib.admin import AdminSite
from django.http import Http404, HttpRequest, HttpResponse
from django.urls import URLPattern, URLResolver, path

from .models import Tenant

CLOSED = ("autocomplete", "view_on_site")


class AuditSite(AdminSite):
    """An admin site that knows tenants. A project's own subclass says who reads and who gets in.

    Two of Django's routes, the autocomplete and the redirect to an object's page, answer for every model at once and
    know no tenant; here they are 404.
    """

    enable_nav_sidebar = False

    def audited_tenant(self, request: HttpRequest) -> Tenant | None:
        """The one tenant whose rows this person may read here; None: no row at all."""
        return None

    def sees_deployment(self, request: HttpRequest) -> bool:
        """Whether this person sees what belongs to no tenant: the worker processes."""
        return False

    def has_permission(self, request: HttpRequest) -> bool:
        return self.audited_tenant(request) is not None or self.sees_deployment(request)

    def get_urls(self) -> list[URLResolver | URLPattern]:
        kept = [route for route in super().get_urls() if getattr(route, "name", None) not in CLOSED]
        closed: list[URLResolver | URLPattern] = [
            path("autocomplete/", self.admin_view(_closed), name="autocomplete"),
            path("r/<path:content_type_id>/<path:object_id>/", self.admin_view(_closed), name="view_on_site"),
        ]
        return closed + kept

    def get_app_list(self, request: HttpRequest, app_label: str | None = None) -> list[Any]:
        """Apps and tables in the order in which they were registered, which is the order they are read in."""
        apps: list[Any] = super().get_app_list(request, app_label)
        order = {model: place for place, model in enumerate(self._registry)}
        for app in apps:
            app["models"].sort(key=lambda entry: order[entry["model"]])
            for entry in app["models"]:
                entry["about"] = getattr(self._registry[entry["model"]], "about", "")
        return sorted(apps, key=lambda app: order[app["models"][0]["model"]])


def _closed(request: HttpRequest, **names: str) -> HttpResponse:
    raise Http404("This site has no such page.")
