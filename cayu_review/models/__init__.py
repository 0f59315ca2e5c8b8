"""The tables of people: who may do what in which tenant, and who may send what for them."""

from .membership import Membership
from .token import ApiToken

__all__ = ["ApiToken", "Membership"]
