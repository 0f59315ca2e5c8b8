from __future__ import annotations

import uuid

from django.conf import settings
from django.db import models
from django.db.models.functions import Now

from cayu_runtime.models import Tenant
from cayu_runtime.models.fields import DigestField

SCOPES = ("read", "run", "propose")


class ApiToken(models.Model):
    """What an agent client sends to say who it is: in one tenant, on behalf of one person, within `scopes`.

    Only the SHA-256 of its 256 random bits is kept. `scopes` are separated by spaces: `read` reads, `run` starts,
    continues, stops and resumes sessions of that person, `propose` records proposals in them. None of them decides.
    """

    id = models.UUIDField(primary_key=True, default=uuid.uuid4, editable=False)
    tenant = models.ForeignKey(Tenant, models.PROTECT, related_name="tokens")
    name = models.CharField(max_length=100)
    digest = DigestField(max_length=32)
    scopes = models.CharField(max_length=100)
    on_behalf_of = models.ForeignKey(settings.AUTH_USER_MODEL, models.CASCADE, related_name="tokens")
    created_by = models.CharField(max_length=200)
    created_at = models.DateTimeField(db_default=Now(), editable=False)
    expires_at = models.DateTimeField()
    revoked_at = models.DateTimeField(null=True)

    class Meta:
        constraints = (
            models.UniqueConstraint(fields=("digest",), name="token_digest_unique"),
            models.CheckConstraint(condition=models.Q(expires_at__gt=models.F("created_at")), name="token_has_time"),
        )

    def __str__(self) -> str:
        return f"{self.name} in {self.tenant}"
