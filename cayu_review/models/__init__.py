"""The tables of people: who they are, what they may do in which tenant, who sends for them, who looks at what."""

from .claim import Claim
from .identity import Identity
from .membership import Membership
from .token import ApiToken

__all__ = ["ApiToken", "Claim", "Identity", "Membership"]
