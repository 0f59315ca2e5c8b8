from __future__ import annotations

import time
from typing import Any

from django.conf import settings
from django.core.cache import cache
from rest_framework.request import Request
from rest_framework.throttling import BaseThrottle

WINDOW = 60  # seconds


class CallerThrottle(BaseThrottle):
    """So many requests a minute for each token and each person, reads and writes apart; counted in Django's cache.

    The limits are CAYU_API_READS and CAYU_API_WRITES; 0 is no limit.
    """

    def __init__(self) -> None:
        self._left = 0.0

    def allow_request(self, request: Request, view: Any) -> bool:
        reads = request.method in ("GET", "HEAD")
        limit = settings.CAYU_API_READS if reads else settings.CAYU_API_WRITES
        if not limit:
            return True
        window, past = divmod(time.time(), WINDOW)
        self._left = WINDOW - past
        key = f"cayu.api.{'r' if reads else 'w'}.{request.auth.actor.subject}.{int(window)}"
        cache.add(key, 0, WINDOW * 2)
        try:
            return cache.incr(key) <= limit
        except ValueError:  # the cache dropped it between the two
            return True

    def wait(self) -> float:
        return self._left
