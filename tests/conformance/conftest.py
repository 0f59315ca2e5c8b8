from __future__ import annotations

import os
from collections.abc import Iterator
from typing import Any

import pytest
from pytest_django.fixtures import Settings

from cayu_runtime.contracts import TextHint
from cayu_runtime.core import hints, model
from cayu_runtime.providers import adapter
from tests.conformance.openai_server import Server, serving
from tests.machine import Machine

KEY = "sk-test-short"


@pytest.fixture
def machine(db: None, settings: Settings) -> Machine:
    settings.CAYU_AUTHORITY = "tests.machine.Everybody"
    return Machine()


@pytest.fixture
def server(monkeypatch: pytest.MonkeyPatch) -> Iterator[Server]:
    """An OpenAI-compatible server which the real SDK is told to speak to."""
    pytest.importorskip("openai")
    built: list[Any] = []
    build = adapter.build

    def building(name: str) -> Any:
        built.append(build(name))
        return built[-1]

    monkeypatch.setattr(adapter, "build", building)
    with serving() as made:
        monkeypatch.setenv("OPENAI_BASE_URL", made.url)
        monkeypatch.setenv("OPENAI_API_KEY", KEY)
        model.named_model.cache_clear()
        yield made
        made.released.set()
        model.named_model.cache_clear()
        loop = model._loop_of(os.getpid())
        for one in built:
            loop.run(one.client.close(), 10)


@pytest.fixture(params=(False, True), ids=("whole", "streamed"))
def told(request: pytest.FixtureRequest) -> Iterator[list[TextHint]]:
    """What a listener is told. Without one (the first half) answers come whole."""
    heard: list[TextHint] = []
    hints.listen(heard.append if request.param else None)
    yield heard
    hints.listen(None)
