"""The tables of people: who may do what in which tenant, who may send what for them, who looks at what."""

from .claim import Claim
from .membership import Membership
from .token import ApiToken

__all__ = ["ApiToken", "Claim", "Membership"]
