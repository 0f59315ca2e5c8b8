"""What waits for somebody in one tenant, and will not move by itself."""

from __future__ import annotations

from collections.abc import Iterator, Sized
from datetime import datetime, timedelta

from ... import registry
from ...models import EffectRecord, Session, Tenant
from ...selectors import approval, effect, question, session
from ...services.effect import ways_to_settle
from . import BROKEN, NOTE, PEOPLE, SHOWN, Finding
from .deployment import at

SOON = timedelta(hours=4)
UNFINISHED = timedelta(seconds=60)

STOPPED = {
    "worker_lost": (
        "its worker was lost three times at one step",
        "Look for what kills the worker at that step in its log, then resume the session on its page.",
    ),
    "model_unavailable": (
        "its model gave no answer",
        "Look at the model's error on the session's page and docs/models.md, then resume it there.",
    ),
    "limit_reached": (
        "it reached a limit of its agent",
        "Read on its page what it does; resume it there, send it a message, or give it up.",
    ),
    "operator_requested": (
        "a person, or a quarantine, stopped it",
        "Resume it on its page when it may go on, or give it up.",
    ),
}


def findings(tenant: Tenant, now: datetime) -> Iterator[Finding]:
    yield from _uncertain(tenant, now)
    yield from _unfinished(tenant, now)
    yield from _sessions(tenant)
    yield from _expiring(tenant, now)
    yield from _limits(tenant)
    yield from _unknown_code(tenant)


def _uncertain(tenant: Tenant, now: datetime) -> Iterator[Finding]:
    """By what can be done about them, longest unknown first. Given-up ones hold nobody up."""
    rows = [one for one in effect.uncertain(tenant, limit=effect.COUNT_LIMIT) if one.abandoned_at is None]
    groups: dict[str, list[EffectRecord]] = {"lookup": [], "review": [], "by_hand": []}
    for row in rows:
        ways = ways_to_settle(row)
        if not (ways.looks_up or ways.takes_receipts):
            groups["by_hand"].append(row)
        else:
            groups["review" if row.state == "manual_review" else "lookup"].append(row)
    texts = {
        "lookup": (
            "nobody knows whether they happened",
            "Look each up on its page, from /reconcile/; the commands are manage.py effects list and lookup.",
        ),
        "review": (
            "evidence is missing or contradicts",
            "Bring better evidence, or a receipt, on its page, from /reconcile/.",
        ),
        "by_hand": (
            "their tool has no reconciler here, so nothing can be looked up",
            "Start a build that has one (docs/write-a-tool.md), or ask the downstream by hand and give the session up.",
        ),
    }
    for code, found in groups.items():
        if found:
            many = f"{len(found)}{' or more' if len(rows) >= effect.COUNT_LIMIT else ''}"
            oldest = min(one.unknown_since for one in found if one.unknown_since is not None)
            text = f"Uncertain effects: {many}, the oldest for {_age(now - oldest)}; {texts[code][0]}."
            names = tuple(f"effect {one.pk} {one.tool}({one.target}), {one.state}" for one in found[:SHOWN])
            yield Finding(PEOPLE, f"uncertain_{code}", text, texts[code][1], tenant.slug, names)


def _unfinished(tenant: Tenant, now: datetime) -> Iterator[Finding]:
    attempts = effect.unfinished_lookups(tenant, now - UNFINISHED, SHOWN)
    if attempts:
        text = f"Lookups that broke off, the oldest admitted at {at(attempts[0].admitted_at)}: nobody heard the answer."
        names = tuple(f"{one.kind} {one.pk} of effect {one.effect_id}" for one in attempts)
        yield Finding(PEOPLE, "unfinished_lookup", text, "Ask again on the effect's page.", tenant.slug, names)
    held = effect.unverified(tenant, SHOWN)
    if held:
        text = "Effects whose receipt is held and that no verifier has looked at; nobody holds their session."
        names = tuple(f"effect {one.pk}, session {one.session.session_id}" for one in held)
        do = "A worker verifies them when it takes the session: see whether one runs, and why the session waits."
        yield Finding(PEOPLE, "unverified", text, do, tenant.slug, names)


def _sessions(tenant: Tenant) -> Iterator[Finding]:
    stopped = session.stopped_sessions(tenant)
    for why, (said, do) in STOPPED.items():
        found = [one for one in stopped if one.stopped_by == why]
        if found:
            level = NOTE if why == "operator_requested" else PEOPLE
            text = f"Sessions stopped, {_many(found)}: {said}."
            yield Finding(level, f"stopped_{why}", text, do, tenant.slug, _named(found))
    stalled = session.stalled_sessions(tenant)
    if stalled:
        text = f"Sessions whose worker was lost, {_many(stalled)}: another one takes each over when its lease ends."
        do = "Nothing, if it ends; if one comes back here, see the worker's log for what kills it."
        yield Finding(NOTE, "stalled", text, do, tenant.slug, _named(stalled))
    waiting = session.backing_off(tenant)
    if waiting:
        text = f"Sessions whose model gave no answer, {_many(waiting)}: it is tried again by itself."
        yield Finding(
            NOTE, "backing_off", text, "See the model's error on the session's page.", tenant.slug, _named(waiting)
        )


def _expiring(tenant: Tenant, now: datetime) -> Iterator[Finding]:
    """What nobody answers in time never runs; the agent is told so."""
    asked = [one for one in approval.waiting(tenant, limit=approval.COUNT_LIMIT) if one.expires_at < now + SOON]
    if asked:
        text = f"Approvals that expire within {_age(SOON)}, {_many(asked)}, the first at {at(asked[0].expires_at)}."
        names = tuple(f"approval {one.id} {one.verb} {one.target}" for one in asked[:SHOWN])
        yield Finding(PEOPLE, "expiring_approvals", text, "Decide them at /", tenant.slug, names)
    open_ones = [one for one in question.waiting(tenant, limit=question.COUNT_LIMIT) if one.expires_at < now + SOON]
    if open_ones:
        first = at(open_ones[0].expires_at)
        text = f"Questions that expire within {_age(SOON)}, {_many(open_ones)}, the first at {first}."
        names = tuple(f"question {one.id} of {one.agent}" for one in open_ones[:SHOWN])
        yield Finding(PEOPLE, "expiring_questions", text, "Answer them at /", tenant.slug, names)


def _limits(tenant: Tenant) -> Iterator[Finding]:
    """What the tenant may have at once, and has: more is refused until something ends."""
    most, do = tenant.max_running_sessions, f"Nothing, if it ends; or manage.py tenant limits {tenant.slug}"
    if most is not None and session.count_open(tenant, most) >= most:
        text = f"{most} sessions have not ended, as many as this tenant may have: no other one can start."
        yield Finding(NOTE, "limit_running", text, do, tenant.slug)
    most = tenant.max_pending_approvals
    full = [name for name, count in approval.waiting_by_agent(tenant).items() if count >= most] if most else []
    if full:
        text = f"{most} requests wait, as many as an agent may have here: no other one of it is asked."
        yield Finding(NOTE, "limit_approvals", text, do, tenant.slug, tuple(f"agent {name}" for name in full[:SHOWN]))


def _unknown_code(tenant: Tenant) -> Iterator[Finding]:
    """What sessions need and this build has not: they wait for a worker that has it."""
    lost_agents, lost_tools = [], []
    for name, tools in sorted(session.agents_in_use(tenant).items()):
        agent = registry.find_agent(name)
        if agent is None:
            lost_agents.append(f"agent {name}")
        else:
            known = {tool.spec.name for tool in agent.tools}
            lost_tools += [f"tool {tool} of agent {name}" for tool in sorted(tools - known)]
    if lost_agents:
        text = "Sessions of agents that this build does not have."
        do = "Install the app that has the agent (CAYU_APPS), or give the sessions up on their pages."
        yield Finding(BROKEN, "unknown_agent", text, do, tenant.slug, tuple(lost_agents[:SHOWN]))
    if lost_tools:
        text = "Calls wait of tools that their agent does not have any more: an approval of one is void."
        do = "Give the agent the tool back, or deny what waits and settle what is unknown by hand."
        yield Finding(PEOPLE, "unknown_tool", text, do, tenant.slug, tuple(lost_tools[:SHOWN]))


def _many(rows: Sized) -> str:
    count = len(rows)
    return f"{count} or more" if count in (session.PAGE, approval.COUNT_LIMIT) else str(count)


def _named(sessions: list[Session]) -> tuple[str, ...]:
    return tuple(f"session {one.session_id}" for one in sessions[:SHOWN])


def _age(length: timedelta) -> str:
    minutes = int(length.total_seconds()) // 60
    if minutes < 120:
        return f"{minutes} minutes"
    return f"{minutes // 60} hours" if minutes < 48 * 60 else f"{minutes // 1440} days"
