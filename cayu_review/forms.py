"""The admin's forms for people: a role for somebody by name, and a new account with its first role."""

from __future__ import annotations

from typing import Any, ClassVar

from django import forms
from django.contrib.auth import get_user_model
from django.contrib.auth.forms import AdminUserCreationForm

from cayu_runtime.models import Tenant

from .models import Membership
from .models.membership import ROLES

User = get_user_model()


class MembershipForm(forms.ModelForm):
    """The person is typed, not chosen from a list: an administrator does not see who else has an account.

    `only_tenant` is the one an administrator may give roles in; None lets a superuser choose.
    """

    only_tenant: ClassVar[Tenant | None] = None

    user = forms.CharField(label="Person", max_length=150, help_text="The name they sign in with.")
    tenant = forms.ModelChoiceField(Tenant.objects.order_by("slug"))

    class Meta:
        model = Membership
        fields = ("user", "tenant", "role")

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        if self.only_tenant is not None and "tenant" in self.fields:
            tenants: Any = self.fields["tenant"]
            tenants.queryset = Tenant.objects.filter(pk=self.only_tenant.pk)
            tenants.initial = self.only_tenant
            tenants.empty_label = None

    def clean_user(self) -> Any:
        name = self.cleaned_data["user"]
        person = None if "\0" in name else User.objects.filter(**{User.USERNAME_FIELD: name}).first()
        if person is None:
            raise forms.ValidationError("There is nobody with this name. Add the person first.")
        if not person.is_active:
            raise forms.ValidationError("This account is switched off. Switch it on before giving it a role.")
        return person


class PersonForm(AdminUserCreationForm):
    """A new account. Who administers one tenant gives it its first role there; else they could not find it again."""

    role = forms.ChoiceField(
        choices=[(role, role) for role in ROLES],
        initial="viewer",
        help_text="In your active tenant. More can be given.",
    )
