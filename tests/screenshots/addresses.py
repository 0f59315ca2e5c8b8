"""What the pictures show is found by name: each address is put here by whoever makes its rows."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field

from cayu_runtime.models import Approval, Session, Tenant
from tests.web.office import Office

STORY = "The parcel came with a broken lid, and the customer sent two photographs of it. "


@dataclass
class States:
    """Addresses by what they show. `west` is a tenant whose database was restored from a backup."""

    office: Office
    west: Tenant
    of: dict[str, str] = field(default_factory=dict)

    def session(self, name: str, session: Session) -> None:
        self.of[f"session {name}"] = f"/sessions/{session.session_id}/"

    def approval(self, name: str, approval: Approval) -> None:
        self.of[f"approval {name}"] = f"/approvals/{approval.id}/"

    def together(self, name: str, approvals: Iterable[Approval]) -> None:
        chosen = "&".join(f"item={approval.id}" for approval in approvals)
        self.of[f"together {name}"] = f"/approvals/together/?{chosen}"
