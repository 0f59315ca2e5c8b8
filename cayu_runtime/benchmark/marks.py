"""How a measurement learns when the model was asked and when a tool ran: both say so here, in their own process."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager

Listener = Callable[[str], None]
_listeners: list[Listener] = []


def say(what: str) -> None:
    for listener in _listeners:
        listener(what)


@contextmanager
def listening(listener: Listener) -> Iterator[None]:
    _listeners.append(listener)
    try:
        yield
    finally:
        _listeners.remove(listener)
