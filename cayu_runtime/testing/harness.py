"""Runs an agent in this process on the test database: real services, real engine, nobody else."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager
from contextvars import ContextVar
from dataclasses import replace
from typing import Any
from uuid import UUID

from django.conf import settings
from django.test import override_settings

from .. import registry
from ..contracts import Actor, Agent, Authority, Permit, Refusal
from ..core import engine
from ..models import Tenant
from ..services.approval import decide_approval
from ..services.question import answer_question
from ..services.session import interrupt_session, start_session
from .run import Run, Waiting
from .scene import Colleagues, Scene, refuse_other
from .script import PREFIX, PROVIDER, ScriptedModel, ScriptError, Step
from .watch import watching

OWNER = "harness"
MAX_CLAIMS = 100

_authority: ContextVar[Authority | None] = ContextVar("cayu_testing_authority", default=None)


class NetworkUsed(AssertionError):
    """Something in the run tried to open a network connection, which was refused. The message says where to."""


class Given:
    """What CAYU_AUTHORITY names while a harness acts: it asks the authority that the harness was given."""

    def may(self, actor: Actor, action: str, obj: Any) -> Permit | Refusal:
        authority = _authority.get()
        if authority is None:
            return Refusal("not_permitted", "No harness acts at this moment, so nothing is permitted.")
        return authority.may(actor, action, obj)


class Harness(Scene):
    """An agent under test, in a tenant of its own, with a clock that the test moves.

    `agent` is an Agent, or the name of a registered one; `script` stands in for its model. `authority` answers for the
    people of the test; None leaves it to the deployment's own (CAYU_AUTHORITY), which wants real actors. Connections
    to the network are refused, and raised as NetworkUsed, unless `network` allows them.

    Nothing stays behind but rows: registry, settings and clock are in place only while a method of the harness runs.
    """

    def __init__(
        self,
        agent: Agent | str,
        script: ScriptedModel | Sequence[Step] | None = None,
        *,
        authority: Authority | None = Colleagues(),  # noqa: B008 - it has no state
        tenant: Tenant | None = None,
        network: bool = False,
    ) -> None:
        found = registry.find_agent(agent) if isinstance(agent, str) else agent
        if found is None:
            known = ", ".join(sorted(registry.agents())) or "none"
            raise LookupError(f"There is no agent {agent!r} in the installed apps. The agents are: {known}.")
        if script is not None and not isinstance(script, ScriptedModel):
            script = ScriptedModel(script)
        self.script = script
        self.agent = found if script is None else replace(found, model=script.model)
        self.authority = authority
        self.network = network
        super().__init__(tenant)

    def start(self, text: str, *, by: str | Actor = "alice", session_id: str = "") -> Run:
        with self._acting():
            row = start_session(self.tenant, self.actor(by), agent=self.agent.name, text=text, session_id=session_id)
        return Run(self, row.pk)

    def drive(self, run: Run) -> None:
        with self._acting(), self._without_network():
            for _ in range(MAX_CLAIMS):
                if not engine.run_session(run.pk, OWNER):
                    break
            else:
                raise AssertionError(f"The session was claimed {MAX_CLAIMS} times and still does not wait or end.")
        if self.script is not None and self.script.problem:
            problem, self.script.problem = self.script.problem, ""
            raise ScriptError(problem)

    def decide(self, run: Run, waiting: Waiting, verdict: str, by: str | Actor, reason: str = "") -> None:
        refuse_other(waiting)
        self.record(waiting.id, verdict, self.actor(by), waiting.version, waiting.digest, reason)

    def record(self, approval: UUID, verdict: str, actor: Actor, version: int, digest: str, reason: str) -> None:
        """Record an answer to what a person saw. Raises what the service raises."""
        with self._acting():
            decide_approval(
                self.tenant, actor, approval, verdict=verdict, version=version, digest=digest, reason=reason
            )

    def answer(self, run: Run, waiting: Waiting, text: str, by: str | Actor) -> None:
        refuse_other(waiting, "question")
        self.record_answer(waiting.id, text, self.actor(by), waiting.digest)

    def record_answer(self, question: UUID, text: str, actor: Actor, digest: str) -> None:
        """Record an answer to the question that a person saw. Raises what the service raises."""
        with self._acting():
            answer_question(self.tenant, actor, question, answer=text, digest=digest)

    def stop(self, run: Run, *, by: str | Actor = "alice", reason: str = "") -> None:
        """Stop a session as a person."""
        with self._acting():
            interrupt_session(self.tenant, self.actor(by), run.session.session_id, reason=reason)

    @contextmanager
    def _acting(self) -> Iterator[None]:
        known = registry.agents()
        before = known.get(self.agent.name)
        changed: dict[str, Any] = {"CAYU_PROVIDERS": {**settings.CAYU_PROVIDERS, PREFIX: PROVIDER}}
        if self.authority is not None:
            changed["CAYU_AUTHORITY"] = f"{__name__}.{Given.__name__}"
        token = _authority.set(self.authority)
        try:
            registry.register_for_test(self.agent)
            with override_settings(**changed), self.its_clock():
                yield
        finally:
            _authority.reset(token)
            if before is None:
                known.pop(self.agent.name, None)
            else:
                known[self.agent.name] = before

    @contextmanager
    def _without_network(self) -> Iterator[None]:
        tried: list[str] = []

        def heard(kind: str, what: str) -> None:
            if kind == "connection":
                tried.append(what)
                raise NetworkUsed(f"A harness opens no network connection, also not to {what}.")

        with ExitStack() as stack:
            if not self.network:
                stack.enter_context(watching(heard))
            yield
        if tried:
            raise NetworkUsed(
                f"The run tried to connect to {', '.join(tried)}, and was refused. Give the agent resources that need "
                "no network, or allow it with Harness(network=True)."
            )
