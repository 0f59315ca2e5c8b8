from __future__ import annotations

from django.conf import settings
from django.db import models
from django.db.models.functions import Now

MAX_TEXT = 255


class Identity(models.Model):
    """Who a person is at an identity provider: `issuer` and `subject` together, and nothing else, lead to an account.

    `email` is kept for reading, and only if the provider says that it verified it; it never leads to an account.
    """

    issuer = models.CharField(max_length=MAX_TEXT)
    subject = models.CharField(max_length=MAX_TEXT)
    user = models.ForeignKey(settings.AUTH_USER_MODEL, models.CASCADE, related_name="identities")
    email = models.CharField(max_length=254, blank=True, default="")
    created_at = models.DateTimeField(db_default=Now(), editable=False)

    class Meta:
        verbose_name_plural = "identities"
        constraints = (
            models.UniqueConstraint(fields=("issuer", "subject"), name="identity_once"),
            models.CheckConstraint(condition=~models.Q(issuer="") & ~models.Q(subject=""), name="identity_whole"),
        )

    def __str__(self) -> str:
        return f"{self.subject} at {self.issuer}"
