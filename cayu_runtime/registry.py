"""Which agents exist: every `Agent` that an installed app's `agents.py` holds (DESIGN §9)."""

from __future__ import annotations

from functools import lru_cache
from importlib import import_module
from importlib.util import find_spec

import jsonschema_rs
from django.apps import apps

from .contracts import Agent, Tool
from .contracts.secret import with_references


@lru_cache(maxsize=1)
def agents() -> dict[str, Agent]:
    """All registered agents by name. Raises ValueError when two have one name, or one has two tools of one name."""
    found: dict[str, Agent] = {}
    for config in apps.get_app_configs():
        if find_spec(f"{config.name}.agents") is None:
            continue
        module = import_module(f"{config.name}.agents")
        for agent in (value for value in vars(module).values() if isinstance(value, Agent)):
            if found.setdefault(agent.name, agent) is not agent:
                raise ValueError(f"Two agents are called {agent.name!r}. Give one of them another name.")
            names = [tool.spec.name for tool in agent.tools]
            for tool in agent.tools:
                _refuse_broken_schema(agent, tool)
                if tool.spec.asks and type(tool).ask is Tool.ask:
                    raise ValueError(f"Agent {agent.name!r}, tool {tool.spec.name!r}: it asks, so it implements `ask`.")
            twice = {name for name in names if names.count(name) > 1}
            if twice:
                raise ValueError(f"Agent {agent.name!r} has two tools called {sorted(twice)[0]!r}.")
    return found


def _refuse_broken_schema(agent: Agent, tool: Tool) -> None:
    try:
        jsonschema_rs.meta.validate(dict(tool.schema))
    except jsonschema_rs.ValidationError as error:
        raise ValueError(f"Agent {agent.name!r}, tool {tool.spec.name!r}: no JSON Schema: {error.message}") from None
    try:
        with_references(tool.schema)
        if tool.spec.asks and tool.takes_secrets:
            raise ValueError("what is asked of a person can't hold a secret.")
    except ValueError as problem:
        raise ValueError(f"Agent {agent.name!r}, tool {tool.spec.name!r}: {problem}") from None


def find_agent(name: str) -> Agent | None:
    return agents().get(name)


def slowest_tool() -> float:
    """The longest time, in seconds, that any registered tool may take."""
    return max((tool.spec.timeout for agent in agents().values() for tool in agent.tools), default=0.0)


def register_for_test(*extra: Agent) -> None:
    """Add agents to the registry of this process. Tests only; a deployment declares agents in `agents.py`."""
    agents().update({agent.name: agent for agent in extra})
