"""The tables of people: who may do what in which tenant."""

from .membership import Membership

__all__ = ["Membership"]
