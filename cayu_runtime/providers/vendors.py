"""What a model name needs before it can answer: its vendor's SDK and its key. Found out without importing either."""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import dataclass
from importlib.util import find_spec


@dataclass(frozen=True, slots=True)
class Vendor:
    """`module` is the SDK, `package` what to install for it; one of `keys` must be set in the environment."""

    module: str
    package: str
    keys: tuple[str, ...] = ()


def _compatible(*keys: str) -> Vendor:
    return Vendor("openai", "cayu-on-django[openai]", keys)


_OPENAI = _compatible("OPENAI_API_KEY", "OPENAI_BASE_URL")
_AZURE = _compatible("AZURE_OPENAI_API_KEY")
_GOOGLE = "cayu-on-django[google]"

VENDORS: dict[str, Vendor] = {
    "openai": _OPENAI,
    "openai-chat": _OPENAI,
    "openai-responses": _OPENAI,
    "azure": _AZURE,
    "azure-responses": _AZURE,
    "anthropic": Vendor("anthropic", "cayu-on-django[anthropic]", ("ANTHROPIC_API_KEY",)),
    "google": Vendor("google.genai", _GOOGLE, ("GOOGLE_API_KEY", "GEMINI_API_KEY")),
    "google-cloud": Vendor("google.genai", _GOOGLE),  # may use the machine's own identity
    "bedrock": Vendor("boto3", "pydantic-ai-slim[bedrock]"),  # likewise
    "cohere": Vendor("cohere", "pydantic-ai-slim[cohere]", ("CO_API_KEY",)),
    "deepseek": _compatible("DEEPSEEK_API_KEY"),
    "fireworks": _compatible("FIREWORKS_API_KEY"),
    "groq": Vendor("groq", "pydantic-ai-slim[groq]", ("GROQ_API_KEY",)),
    "mistral": Vendor("mistralai", "pydantic-ai-slim[mistral]", ("MISTRAL_API_KEY",)),
    "ollama": _compatible("OLLAMA_BASE_URL", "OLLAMA_API_KEY"),
    "openrouter": _compatible("OPENROUTER_API_KEY"),
    "together": _compatible("TOGETHER_API_KEY"),
}
"""By prefix. One that does not stand here is left to the model library, which answers at the first request."""


@dataclass(frozen=True, slots=True)
class Lack:
    """Why a model can't be asked on this machine: a stable word, what is wrong, and what to do."""

    kind: str
    problem: str
    fix: str

    def __str__(self) -> str:
        return f"{self.problem}: {self.fix}"


def missing(name: str, environment: Mapping[str, str] = os.environ) -> Lack | None:
    """What a model name lacks; None when nothing is known to lack."""
    if not name:
        return Lack("misconfigured", "The agent names no model", "give it one, or set CAYU_MODEL.")
    prefix, colon, rest = name.partition(":")
    if not colon or not rest:
        return Lack("unknown_model", f"{name!r} is no model name", "write it as prefix:name, like openai:gpt-5.")
    vendor = VENDORS.get(prefix)
    if vendor is None:
        return None
    if not _installed(vendor.module):
        return Lack("not_installed", f"The SDK of {name!r} is not installed", f"run pip install '{vendor.package}'.")
    if vendor.keys and not any(environment.get(key) for key in vendor.keys):
        return Lack("no_key", f"The model {name!r} has no key", f"set {' or '.join(vendor.keys)} for the workers.")
    return None


def _installed(module: str) -> bool:
    try:
        return find_spec(module) is not None
    except ModuleNotFoundError:
        return False
