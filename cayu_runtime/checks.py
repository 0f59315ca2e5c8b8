"""System checks of the agents that are registered: what could never run, and what nobody could find out about.

cayu.E030  a tool that no rule of its agent's policy answers for     cayu.W010  an EXTERNAL tool without a reconciler
cayu.E031  a policy that names a tool which none of its agents has  cayu.W012  a rule for an argument that can't exist
cayu.E032  a policy that can't say who it is, or can't be asked
cayu.E033  a reconciler or verifier of the wrong kind            cayu.W011  an agent's model lacks its SDK or its key
cayu.E034  a tool that requires a resource which its agent does not have
cayu.E035  a tool that verifies one which its agent does not have

Nothing is judged or run here: policies are asked for `identity`, `covers`, `names`, `argument_paths` alone.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from typing import Any

from django.conf import settings
from django.core import checks

from .contracts import Agent, PolicyIdentity, Reconciler, Tool, ToolEffect, Verifier
from .contracts.policy import coverage_of, names_of, paths_of
from .policies.parameters import fits
from .policies.schema import cannot_hold
from .providers.vendors import missing
from .registry import agents


def check_agents(**kwargs: Any) -> list[checks.CheckMessage]:
    return list(messages_about(agents().values()))


def messages_about(declared: Iterable[Agent]) -> Iterator[checks.CheckMessage]:
    """What is wrong with these agents, one by one."""
    declared = list(declared)
    for agent in declared:
        problem = _problem_of(agent)
        if problem:
            yield checks.Error(
                f"Agent {agent.name!r}: its policy can't be used: {problem}.",
                hint="Give the agent an object with the property identity, a PolicyIdentity with JSON parameters, and "
                "the method authorize(request). `covers`, `names`, `argument_paths`, if it has them, must not raise.",
                id="cayu.E032",
            )
        for tool in agent.tools:
            yield from _evidence(agent, tool)
            yield from _needs(agent, tool)
            if not problem and coverage_of(agent.policy, agent, tool) is False:
                yield checks.Error(
                    f"Agent {agent.name!r}: no rule of its policy answers for the tool {tool.spec.name!r}; "
                    "each call of it would be denied.",
                    hint="Add a rule for the tool (Deny() if it is meant to be denied), or take the tool away.",
                    id="cayu.E030",
                )
    for agent, tools in _policies(declared):
        yield from _unknown_names(agent, tools)
        yield from _unknown_paths(agent, tools)


def _problem_of(agent: Agent) -> str:
    """Why the agent's policy can't be asked; empty when it can."""
    policy: Any = agent.policy
    if policy is None:
        return ""
    try:
        if isinstance(policy, type) or not callable(getattr(policy, "authorize", None)):
            return "it is no object with a method authorize(request)"
        if not isinstance(policy.identity, PolicyIdentity):
            return "its identity is no PolicyIdentity"
        _ = policy.identity.digest
        names_of(policy)
        paths_of(policy)
        for tool in agent.tools:
            coverage_of(policy, agent, tool)
    except Exception as error:
        return f"{type(error).__name__}: {error}".rstrip(".")
    return ""


def _needs(agent: Agent, tool: Tool) -> Iterator[checks.CheckMessage]:
    """What a tool needs of its agent, and without which each call of it fails before anything is done."""
    missing = [name for name in tool.spec.requires if agent.resources.get(name) is None]
    if missing:
        yield checks.Error(
            f"Agent {agent.name!r}: tool {tool.spec.name!r} requires {', '.join(map(repr, missing))}, "
            "which the agent does not have.",
            hint=f"Give the agent resources={{{missing[0]!r}: …}}, or take the tool away from it.",
            id="cayu.E034",
        )
    names = sorted(other.spec.name for other in agent.tools)
    if tool.spec.verifies and tool.spec.verifies not in names:
        yield checks.Error(
            f"Agent {agent.name!r}: tool {tool.spec.name!r} verifies {tool.spec.verifies!r}, "
            "which the agent does not have.",
            hint=f"Name one of its tools: {', '.join(names)}.",
            id="cayu.E035",
        )


def _policies(declared: Sequence[Agent]) -> Iterator[tuple[Agent, list[Tool]]]:
    """One agent of each policy object that can be asked, and the tools of all agents that the object serves."""
    seen: set[int] = set()
    for agent in declared:
        if agent.policy is None or id(agent.policy) in seen:
            continue
        seen.add(id(agent.policy))
        if not _problem_of(agent):
            yield agent, [tool for other in declared if other.policy is agent.policy for tool in other.tools]


def _unknown_names(agent: Agent, tools: Sequence[Tool]) -> Iterator[checks.CheckMessage]:
    """A name is unknown when none of the agents that the policy serves has such a tool."""
    known = sorted({tool.spec.name for tool in tools})
    for name in sorted(names_of(agent.policy)):
        if not any(fits((name,), tool) for tool in known):
            yield checks.Error(
                f"Agent {agent.name!r}: its policy has a rule for the tool {name!r}, which does not exist.",
                hint=f"Correct the name or remove the rule. The tools are: {', '.join(known)}.",
                id="cayu.E031",
            )


def _unknown_paths(agent: Agent, tools: Sequence[Tool]) -> Iterator[checks.CheckMessage]:
    """A rule for the beginning of names may mean those alone that have the argument; so one of them must."""
    for name, path in sorted(paths_of(agent.policy)):
        fitting = [tool for tool in tools if fits((name,), tool.spec.name)]
        lacking = [tool for tool in fitting if cannot_hold(tool.schema, path)]
        if lacking and (len(lacking) == len(fitting) or not name.endswith("*")):
            yield checks.Warning(
                f"Agent {agent.name!r}: its policy has a rule for the argument {path!r} of {name!r}, which the schema "
                "leaves no room for: it objects to nothing, or to each call.",
                hint=f"Correct the path or remove the rule. The arguments are: {_arguments(lacking)}.",
                id="cayu.W012",
            )


def _arguments(tools: Sequence[Tool]) -> str:
    names = sorted({name for tool in tools for name in tool.schema.get("properties", ())})
    return ", ".join(names) or "none"


def _evidence(agent: Agent, tool: Tool) -> Iterator[checks.CheckMessage]:
    for name, kind in (("reconciler", Reconciler), ("verifier", Verifier)):
        value = getattr(tool, name)
        if value is not None and not isinstance(value, kind):
            yield checks.Error(
                f"Agent {agent.name!r}: the {name} of tool {tool.spec.name!r} is no {kind.__name__}: {value!r:.80}.",
                hint=f"Give the tool an instance of a subclass of cayu_runtime.{kind.__name__}.",
                id="cayu.E033",
            )
    if tool.spec.effect is ToolEffect.EXTERNAL and tool.reconciler is None:
        yield checks.Warning(
            f"Agent {agent.name!r}: nobody can look up what became of a call of {tool.spec.name!r}: it is EXTERNAL and "
            "has no reconciler.",
            hint="Give the tool a reconciler, or a truer effect. A call whose answer is lost otherwise waits for a "
            "person who finds out by hand.",
            id="cayu.W010",
        )


def check_models(**kwargs: Any) -> list[checks.CheckMessage]:
    """A warning, since other agents may run all the same; and none in a web process, which asks no model."""
    return [] if settings.CAYU_PROCESS == "web" else list(messages_about_models(agents().values()))


def messages_about_models(declared: Iterable[Agent]) -> Iterator[checks.CheckMessage]:
    """What the models of these agents lack on this machine. Nothing is imported for it, and nobody is asked."""
    for agent in declared:
        for model in agent.models(settings.CAYU_MODEL):
            if not isinstance(model, str) or model.partition(":")[0] in settings.CAYU_PROVIDERS:
                continue
            lack = missing(model)
            if lack is not None:
                yield checks.Warning(
                    f"Agent {agent.name!r} can't be run by one of its models. {lack.problem}.",
                    hint=lack.fix[0].upper() + lack.fix[1:],
                    id="cayu.W011",
                )


def register_checks() -> None:
    checks.register(check_agents, checks.Tags.compatibility)
    checks.register(check_models, checks.Tags.compatibility)
