from __future__ import annotations

from typing import Any

from django.contrib import admin
from django.http import HttpRequest

from .models import Membership


@admin.register(Membership)
class MembershipAdmin(admin.ModelAdmin):
    """Roles of people, over all tenants; so for superusers alone, whatever permissions a staff account has."""

    list_display = ("user", "tenant", "role", "created_at")
    list_select_related = ("user", "tenant")
    list_filter = ("role",)
    raw_id_fields = ("user",)
    show_full_result_count = False

    def has_module_permission(self, request: HttpRequest) -> bool:
        return _is_administrator(request)

    def has_view_permission(self, request: HttpRequest, obj: Any = None) -> bool:
        return _is_administrator(request)

    def has_add_permission(self, request: HttpRequest) -> bool:
        return _is_administrator(request)

    def has_change_permission(self, request: HttpRequest, obj: Any = None) -> bool:
        return _is_administrator(request)

    def has_delete_permission(self, request: HttpRequest, obj: Any = None) -> bool:
        return _is_administrator(request)


def _is_administrator(request: HttpRequest) -> bool:
    return bool(request.user.is_active and request.user.is_superuser)
