"""Every state and every legal move, once, as data (DESIGN §3).

`State.moves` lists where a row may go from there; a move that is not listed is refused by `transitions.Change.move`,
and a state that is not listed is refused by a CHECK in the database. `State.note` says who moves the row on, and what
a crash in that state means.
"""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class State:
    moves: tuple[str, ...]
    note: str


@dataclass(frozen=True, slots=True)
class Machine:
    name: str
    initial: tuple[str, ...]
    states: dict[str, State]

    @property
    def names(self) -> tuple[str, ...]:
        return tuple(self.states)

    @property
    def final(self) -> tuple[str, ...]:
        return tuple(name for name, state in self.states.items() if not state.moves)

    def allows(self, source: str, target: str) -> bool:
        return target in self.states[source].moves


SESSION = Machine(
    "session",
    ("pending", "interrupted"),
    {
        "pending": State(
            ("running", "interrupted", "failed"),
            "Runnable, nobody holds it: a worker claims it by wake-up or sweep. A crash means nothing.",
        ),
        "running": State(
            ("pending", "interrupted", "interrupting", "completed", "failed"),
            "A lease holds it; the holder moves it on. After a crash the sweep wakes a worker when the lease ends.",
        ),
        "interrupting": State(
            ("interrupted", "failed"),
            "A stop was asked for: the holder's next write interrupts it. After a crash the sweep does.",
        ),
        "interrupted": State(
            ("pending", "interrupted", "completed", "failed"),
            "Waits for what `interruption` names: a person, a client, evidence. A crash means nothing.",
        ),
        "completed": State(("pending",), "The agent finished; a new message continues it. A crash means nothing."),
        "failed": State(
            ("pending",), "Ended with `failure`; resume is possible when every effect is closed. A crash means nothing."
        ),
    },
)

INTERRUPTIONS = (
    "effect_outcome_unknown",
    "user_input_required",
    "approval_required",
    "client_execution",
    "limit_reached",
    "model_unavailable",
    "worker_lost",
    "operator_requested",
)
"""Why a session waits; the first that applies is shown."""

STOPPED_BY = ("limit_reached", "model_unavailable", "worker_lost", "operator_requested")
"""The interruptions that a person or a new message lifts."""

ROUND = Machine(
    "round",
    ("waiting", "executing", "settled"),
    {
        "waiting": State(
            ("executing", "settled"),
            "People decide, or time expires. None of its calls runs. A crash means nothing.",
        ),
        "executing": State(
            ("settled", "waiting"),
            "A worker runs its calls in order. After a crash the next claimant goes on.",
        ),
        "settled": State((), "Each call has its result in the transcript."),
    },
)

CALL = Machine(
    "call",
    ("blocked", "completed", "awaiting_approval", "awaiting_answer", "prepared"),
    {
        "awaiting_approval": State(
            ("prepared", "denied", "expired", "cancelled", "blocked", "outcome_unknown"),
            "A person decides, or the deadline does. A crash means nothing.",
        ),
        "awaiting_answer": State(
            ("completed", "expired", "cancelled"),
            "A person answers, or the deadline expires it. A crash means nothing.",
        ),
        "prepared": State(
            ("dispatched", "denied", "expired", "blocked", "completed", "failed", "outcome_unknown"),
            "Authorised and not begun: the next claimant dispatches it after all checks. A crash means nothing.",
        ),
        "dispatched": State(
            ("completed", "failed", "outcome_unknown", "dispatched"),
            "The tool may be running. After a crash the next claimant decides by effect class.",
        ),
        "outcome_unknown": State(
            ("completed", "failed", "awaiting_approval"),
            "Evidence settles it, through a person. A crash means nothing.",
        ),
        "blocked": State((), "Refused by a rule; the reason is its result."),
        "completed": State((), "Ran, was answered, or repeats a recorded outcome."),
        "failed": State((), "Did not do it, or was given up; the result says which."),
        "denied": State((), "A person said no, or took a yes back."),
        "expired": State((), "Nobody answered in time; never run."),
        "cancelled": State((), "Withdrawn with what it belonged to; never run."),
    },
)

BLOCKED_REASONS = ("invalid", "policy", "denied_before", "linked", "stale", "limit_reached")

EFFECT = Machine(
    "effect",
    ("proposed", "authorized"),
    {
        "proposed": State(
            ("authorized", "abandoned", "outcome_unknown"),
            "Recorded, waiting for authority. A crash means nothing.",
        ),
        "authorized": State(
            ("intent_recorded", "abandoned", "rejected", "manual_review", "outcome_unknown"),
            "May be dispatched once. A crash means nothing.",
        ),
        "intent_recorded": State(
            ("receipted", "completed", "rejected", "outcome_unknown", "intent_recorded"),
            "Dispatch is committed and may be under way. After a crash the next claimant decides by effect class.",
        ),
        "receipted": State(
            ("completed", "manual_review"),
            "A receipt is held, a verifier has not spoken. After a crash the next claimant verifies, never dispatches.",
        ),
        "outcome_unknown": State(
            ("completed", "receipted", "rejected", "safe_to_retry", "manual_review"),
            "It may have happened. Evidence settles it, through a person. A crash means nothing.",
        ),
        "manual_review": State(
            ("completed", "receipted", "rejected", "safe_to_retry"),
            "Evidence is missing or contradicts. Better evidence settles it, through a person. A crash means nothing.",
        ),
        "safe_to_retry": State(
            ("authorized", "rejected", "manual_review"),
            "Proved that it did not happen. A fresh approval may allow one more dispatch. A crash means nothing.",
        ),
        "completed": State((), "A receipt proves it."),
        "rejected": State((), "Proved, or definitely stated, that it was not done."),
        "abandoned": State((), "Given up before any dispatch."),
    },
)

APPROVAL = Machine(
    "approval",
    ("pending", "approved"),
    {
        "pending": State(
            ("approved", "denied", "expired", "cancelled", "void"),
            "A person decides, or the deadline expires it. A crash means nothing.",
        ),
        "approved": State(
            ("consumed", "revoked", "expired", "cancelled", "void"),
            "Dispatch consumes it, once. A crash means nothing.",
        ),
        "denied": State((), "A person said no."),
        "consumed": State((), "Used by exactly one dispatch."),
        "revoked": State((), "Taken back before dispatch."),
        "expired": State((), "Time ran out; never a grant."),
        "cancelled": State((), "Withdrawn with what it belonged to."),
        "void": State((), "What it was bound to is no longer true."),
    },
)

PROPOSAL = Machine(
    "proposal",
    ("open",),
    {
        "open": State(
            ("used", "withdrawn", "expired"),
            "Its action uses it, or it is withdrawn, or time expires it. A crash means nothing.",
        ),
        "used": State((), "Its action was dispatched."),
        "withdrawn": State((), "Its action was denied or revoked, or its session abandoned."),
        "expired": State((), "Never used in time."),
    },
)

QUESTION = Machine(
    "question",
    ("pending",),
    {
        "pending": State(
            ("answered", "expired", "cancelled"),
            "A person answers, or the deadline expires it. A crash means nothing.",
        ),
        "answered": State((), "A person answered."),
        "expired": State((), "Nobody answered in time."),
        "cancelled": State((), "Withdrawn with what it belonged to."),
    },
)

ATTEMPT = Machine(
    "attempt",
    ("admitted", "selected", "superseded"),
    {
        "admitted": State(
            ("selected", "superseded"),
            "Its outcome is awaited. After a crash it stays as evidence until a newer one supersedes it.",
        ),
        "selected": State((), "Its evidence decided the effect's state."),
        "superseded": State((), "Something newer decided."),
    },
)

MACHINES = (SESSION, ROUND, CALL, EFFECT, APPROVAL, PROPOSAL, QUESTION, ATTEMPT)
OPEN_ROUND = ("waiting", "executing")
OPEN_CALL = tuple(name for name, state in CALL.states.items() if state.moves)
CLOSED_CALL = CALL.final
ENDED_SESSION = ("completed", "failed")
CLOSED_EFFECT = EFFECT.final
LEASED = ("running", "interrupting")

PLAN = {
    "pending_approval": "A person must approve or deny what is asked. Decide it in the queue.",
    "pending_user_input": "A person must answer what the agent asks. Answer it in the queue.",
    "pending_tool_effect": "Nobody knows whether an effect happened. Look it up, or supply its receipt; without that "
    "it is never sent again.",
    "tool_effect_continuation_required": "A receipt is held and the round has yet to go on; nothing is sent again. A "
    "worker verifies it; where the session waits, a person has it verified.",
    "automatic_repair": "What was left behind can be settled without evidence and without running anything: execute "
    "this plan.",
    "running": "A worker holds it; nothing is to be done. If that takes too long, read the plan again.",
    "runnable": "It waits for a worker, who goes on by itself. If none comes: do workers run, and is dispatch paused?",
    "stopped": "A limit, a lost model or worker, or a person stopped it. Resume it, or give it up.",
    "client_execution": "Its client goes on with it. Nothing is to be done here.",
    "ended": "It has ended; there is nothing to recover. An effect named here may still be settled by evidence.",
}
"""What a recovery plan can say of a session, and what then is to be done: exactly one for each session (DESIGN §7)."""

BLOCKERS = (
    "pending_approval",
    "pending_user_input",
    "pending_tool_effect",
    "tool_effect_continuation_required",
    "stopped",
    "client_execution",
    "worker_lost",
    "agent_not_registered",
    "dispatch_paused",
)
"""What a recovery plan names as being in the way."""

REPAIRS = {
    "settle_prepared": "authorised and not begun: fails undone, its effect abandoned",
    "mark_unknown": "may have been running when its worker was lost: its outcome is unknown",
    "fail_lost": "changes nothing and was lost with its worker for good: fails",
    "run_again": "changes nothing, or repeats under its key: the next worker runs it once more",
    "cancel": "nobody is asked any more",
    "take_over": "the lost worker's lease is taken away, and a worker goes on",
    "finish_interruption": "the stop that was asked for is carried out",
    "restate": "what the session waits for is read from its rows again",
}
"""What executing a recovery plan can do, each by the rows alone."""
