"""Cayu runtime. What an application imports: agents, tools, policies and the words they speak in."""

from .contracts import *  # noqa: F403
from .contracts import __all__ as __all__
