"""For an application's own tests, under pytest-django: run agents for real, without workers, network or a paid model.

    harness = Harness(REFUNDS, [Call("refund", {"order": "1042"}), Reply("Done.")])
    run = harness.start("refund order 1042", by="alice").go()
    run.approve(by="bob").go()
    assert [result.status for result in run.results()] == ["completed"]

`Harness` runs in this process, `RestartHarness` each leg in a fresh one that can be killed at a named moment, and
`verify_tool_effect` compares what one tool does with the effect that it declares. All of it goes through the real
services, the real engine and the test database; there is no second store.
"""

from .effects import (
    Bounds,
    EffectEvidence,
    EffectStatus,
    NotObserved,
    ObservationLimit,
    verify_tool_effect,
)
from .harness import Harness, NetworkUsed
from .restart import MOMENTS, RestartHarness
from .run import Result, Run, Waiting
from .scene import Colleagues
from .script import ScriptedModel, ScriptError, Step, Told

__all__ = [
    "MOMENTS",
    "Bounds",
    "Colleagues",
    "EffectEvidence",
    "EffectStatus",
    "Harness",
    "NetworkUsed",
    "NotObserved",
    "ObservationLimit",
    "RestartHarness",
    "Result",
    "Run",
    "ScriptError",
    "ScriptedModel",
    "Step",
    "Told",
    "Waiting",
    "verify_tool_effect",
]
