"""The tables of people: who they are, who may do what in which tenant, and who may send what for them."""

from .identity import Identity
from .membership import Membership
from .token import ApiToken

__all__ = ["ApiToken", "Identity", "Membership"]
