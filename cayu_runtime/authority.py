"""The one question that every deciding service asks first (DESIGN §8)."""

from __future__ import annotations

from functools import lru_cache
from typing import Any

from django.conf import settings
from django.utils.module_loading import import_string

from .contracts import Actor, Authority, Refusal
from .errors import NotPermitted


@lru_cache(maxsize=8)
def _load(path: str) -> Authority:
    authority: Authority = import_string(path)()
    return authority


def require(actor: Actor, action: str, obj: Any = None) -> None:
    """Raises NotPermitted unless the authority permits. With no authority set, everything is refused."""
    path = settings.CAYU_AUTHORITY
    if not path:
        raise NotPermitted("No authority is set (CAYU_AUTHORITY), so nothing is permitted.")
    answer = _load(path).may(actor, action, obj)
    if isinstance(answer, Refusal):
        raise NotPermitted(answer.reason, code=answer.code)
