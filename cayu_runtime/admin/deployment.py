"""What belongs to a tenant or to the deployment as a whole, and to no session."""

from __future__ import annotations

from typing import Any

from django.contrib import admin
from django.db.models import Q, QuerySet
from django.http import HttpRequest

from ..admin_site import AuditSite
from ..models import AuditEntry, DispatchPause, IdempotencyKey, Quarantine, Tenant, Worker
from .listing import Within
from .reading import AuditAdmin

OF_TENANT = {"tenant": Within(Tenant, lambda tenant: Q(tenant=tenant))}


@admin.register(AuditEntry)
class AuditEntryAdmin(AuditAdmin):
    about = "What happened in the tenant outside of any session, in a chain of its own. Never changed."
    list_display = ("seq", "type", "actor", "at", "hash")
    newest = "seq"
    within = OF_TENANT


@admin.register(IdempotencyKey)
class IdempotencyKeyAdmin(AuditAdmin):
    about = "Requests of clients that were carried out under a key of theirs; the same key again does nothing anew."
    list_display = ("id", "owner", "key", "session", "position", "created_at", "expires_at")
    within = OF_TENANT


@admin.register(DispatchPause)
class DispatchPauseAdmin(AuditAdmin):
    about = (
        "What is not dispatched at present. A pause without a tenant holds for all of them; resuming removes the row."
    )
    list_display = ("id", "tenant", "tool", "agent", "quarantine", "reason", "created_by", "created_at")
    within = {"tenant": Within(Tenant, lambda tenant: Q(tenant=tenant) | Q(tenant=None))}

    def belongs(self, tenant: Tenant) -> Q:
        return Q(tenant=tenant) | Q(tenant=None)


@admin.register(Quarantine)
class QuarantineAdmin(AuditAdmin):
    about = "What was done after a backup had been restored, by whom, and who opened dispatch again."
    list_display = ("id", "tenant", "reason", "started_by", "started_at", "taken_at", "released_by", "released_at")
    within = {"tenant": Within(Tenant, lambda tenant: Q(tenant=tenant) | Q(tenant=None))}

    def belongs(self, tenant: Tenant) -> Q:
        return Q(tenant=tenant) | Q(tenant=None)


@admin.register(Worker)
class WorkerAdmin(AuditAdmin):
    """Workers belong to no tenant, and say which session each has: so for who runs the deployment alone."""

    about = "The worker processes, as their last heartbeats told."
    list_display = ("id", "host", "pid", "supervisor", "tasks", "busy_since", "leaving", "beat_at")

    def get_queryset(self, request: HttpRequest) -> QuerySet[Any]:
        return Worker.objects.all() if self.has_view_permission(request) else Worker.objects.none()

    def has_view_permission(self, request: HttpRequest, obj: Any = None) -> bool:
        return isinstance(self.admin_site, AuditSite) and self.admin_site.sees_deployment(request)
