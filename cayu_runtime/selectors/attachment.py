from __future__ import annotations

import uuid

from ..models import Attachment, Tenant


def find_attachment(tenant: Tenant, attachment_id: uuid.UUID) -> Attachment | None:
    """One attachment with its body."""
    return Attachment.objects.filter(tenant=tenant, pk=attachment_id).first()
