"""People and their roles in the admin: an administrator's own tenant, every tenant for a superuser.

What is saved goes through the services, which ask the authority again.
"""

from __future__ import annotations

from typing import Any

from django.contrib import admin
from django.contrib.admin.utils import unquote
from django.contrib.auth import get_user_model
from django.contrib.auth.admin import UserAdmin
from django.core.exceptions import PermissionDenied
from django.db import transaction
from django.db.models import QuerySet
from django.http import HttpRequest, HttpResponse
from django.utils.html import format_html

from cayu_runtime import authority
from cayu_runtime.admin.listing import ListedAdmin, Search
from cayu_runtime.errors import NotPermitted

from .admin_site import permits, visitor_of
from .forms import MembershipForm, PersonForm
from .models import Membership
from .models.membership import ROLES
from .selectors.membership import people_of
from .services.membership import grant_role, record_account, revoke_role

User = get_user_model()


class PeopleAdmin(ListedAdmin):
    """What administrators see of their tenant and superusers of all. Nothing is deleted by lists or by formsets."""

    def has_module_permission(self, request: HttpRequest) -> bool:
        return visitor_of(request).manages_people

    def has_view_permission(self, request: HttpRequest, obj: Any = None) -> bool:
        return visitor_of(request).manages_people

    def has_add_permission(self, request: HttpRequest) -> bool:
        return visitor_of(request).manages_people


@admin.register(Membership)
class MembershipAdmin(PeopleAdmin):
    about = "One role of one person in one tenant. A role is given and taken; it is not changed into another."
    form = MembershipForm
    list_display = ("user", "tenant", "role", "created_at")
    searches = (Search("name", "user__username", prefix=True, owned=False),)
    choices = {"role": ROLES}
    newest = "pk"

    def get_queryset(self, request: HttpRequest) -> QuerySet[Any]:
        visitor, rows = visitor_of(request), super().get_queryset(request)
        return rows if visitor.superuser else rows.filter(tenant=visitor.administers)

    def get_form(self, request: HttpRequest, obj: Any = None, change: bool = False, **kwargs: Any) -> Any:
        form: Any = super().get_form(request, obj, change, **kwargs)
        visitor = visitor_of(request)
        return type(form.__name__, (form,), {"only_tenant": None if visitor.superuser else visitor.administers})

    def has_change_permission(self, request: HttpRequest, obj: Any = None) -> bool:
        return False

    def has_delete_permission(self, request: HttpRequest, obj: Any = None) -> bool:
        return visitor_of(request).manages_people

    def save_model(self, request: HttpRequest, obj: Membership, form: Any, change: bool) -> None:
        actor = visitor_of(request).actor
        try:
            grant_role(obj.user, obj.tenant, obj.role, actor=actor)
        except NotPermitted as refusal:
            raise PermissionDenied(refusal.message) from None
        obj.pk = Membership.objects.get(user=obj.user, tenant=obj.tenant, role=obj.role).pk

    def delete_model(self, request: HttpRequest, obj: Membership) -> None:
        try:
            revoke_role(obj.user, obj.tenant, obj.role, actor=visitor_of(request).actor)
        except NotPermitted as refusal:
            raise PermissionDenied(refusal.message) from None


admin.site.unregister(User)


@admin.register(User)
class PersonAdmin(PeopleAdmin, UserAdmin):
    """Accounts. They are switched off, never deleted: decisions name them. Django's groups, permissions and `is_staff`
    give no authority here and are not offered.
    """

    about = "People who sign in. An account is switched off, not deleted: what they decided names them."
    add_form = PersonForm
    list_display = ("username", "first_name", "last_name", "is_active", "last_login", "date_joined")
    list_filter = ()
    filter_horizontal = ()
    searches = (Search("name", "username", prefix=True),)

    def get_queryset(self, request: HttpRequest) -> QuerySet[Any]:
        visitor, rows = visitor_of(request), super().get_queryset(request)
        if visitor.superuser:
            return rows
        return rows.filter(people_of(visitor.administers.id if visitor.administers else None))

    def get_fieldsets(self, request: HttpRequest, obj: Any = None) -> Any:
        visitor = visitor_of(request)
        if obj is None:
            fields = ("username", "usable_password", "password1", "password2")
            return [(None, {"fields": (*fields, "role") if visitor.administers else fields})]
        own = ("username", "set_password") if self.has_change_permission(request, obj) else ("username",)
        rights = ("is_active", "is_superuser") if visitor.superuser else ("is_active",)
        moments = ("last_login", "date_joined")
        return [(None, {"fields": (*own, "first_name", "last_name", "email", *rights, *moments)})]

    def get_readonly_fields(self, request: HttpRequest, obj: Any = None) -> tuple[str, ...]:
        return ("set_password", "last_login", "date_joined") if obj is not None else ()

    @admin.display(description="Password")
    def set_password(self, obj: Any) -> str:
        """The way to Django's form; nothing of the stored hash is shown."""
        return format_html('<a class="button" href="{}">{}</a>', "../password/", "Set a new password")

    def has_change_permission(self, request: HttpRequest, obj: Any = None) -> bool:
        visitor = visitor_of(request)
        return visitor.manages_people if obj is None else permits(visitor.actor, "manage_account", obj)

    def has_delete_permission(self, request: HttpRequest, obj: Any = None) -> bool:
        return False

    def history_view(
        self, request: HttpRequest, object_id: str, extra_context: dict[str, Any] | None = None
    ) -> HttpResponse:
        """What was changed on an account and by whom: for who may change it, as others' administrators stand there."""
        if not self.has_change_permission(request, self.get_object(request, unquote(object_id))):
            raise PermissionDenied
        return super().history_view(request, object_id, extra_context)

    def user_change_password(self, request: HttpRequest, id: str, form_url: str = "") -> HttpResponse:
        with transaction.atomic():  # the password, and that somebody set it
            return super().user_change_password(request, id, form_url)

    def log_addition(self, request: HttpRequest, obj: Any, message: Any) -> Any:
        """Django's own history, and the audit chain."""
        self._record(request, obj, "account.made")
        return super().log_addition(request, obj, message)

    def log_change(self, request: HttpRequest, obj: Any, message: Any) -> Any:
        parts = [part.get("changed", {}) for part in message if isinstance(part, dict)]
        fields = sorted(str(name) for part in parts for name in part.get("fields", []))
        self._record(request, obj, "account.changed", fields=fields, is_active=obj.is_active)
        return super().log_change(request, obj, message)

    def _record(self, request: HttpRequest, obj: Any, kind: str, **payload: Any) -> None:
        actor = visitor_of(request).actor
        if actor is not None:
            record_account(obj, kind, actor, **payload)

    def save_model(self, request: HttpRequest, obj: Any, form: Any, change: bool) -> None:
        visitor = visitor_of(request)
        assert visitor.actor is not None
        tenant = visitor.administers
        try:
            if change:
                authority.require(visitor.actor, "manage_account", User.objects.get(pk=obj.pk))
                super().save_model(request, obj, form, change)
            else:
                authority.require(visitor.actor, "manage_people", tenant)
                super().save_model(request, obj, form, change)
                role = form.cleaned_data.get("role")
                if role and tenant is not None:
                    grant_role(obj, tenant, role, actor=visitor.actor)
        except NotPermitted as refusal:
            raise PermissionDenied(refusal.message) from None
