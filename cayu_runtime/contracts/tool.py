"""Tools: what an agent may call (DESIGN §4, §9).

Two ways to write one. A class with a `spec` and `run(ctx, args)`; or a function under `@tool`, whose schema comes
from its type hints. `run` may be sync or async. A tool never opens the runtime's database; what it needs beyond its
arguments comes through `ToolContext.resources`.
"""

from __future__ import annotations

import inspect
import json
import re
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass, field
from datetime import datetime
from typing import TYPE_CHECKING, Any, get_type_hints

from pydantic import BaseModel, ConfigDict, ValidationError, create_model

from .effect import ToolEffect
from .one_order import OrderedSchema, in_one_order
from .question import Ask
from .secret import field_names, holds_mark, with_references

if TYPE_CHECKING:
    from .reconciler import Reconciler, Verifier

NAME = re.compile(r"[A-Za-z0-9_-]{1,64}")
MAX_TIMEOUT = 24 * 3600.0


class InvalidArguments(ValueError):
    """The arguments of a call do not fit the tool's schema. The message is meant for the model."""


class Discreet(InvalidArguments):
    """The message names fields of the schema and rules, and nothing that was given: no value, no unknown name."""


class MissingResource(RuntimeError):
    """A tool asked for a resource that its agent does not have.

    Raised inside an EXTERNAL tool it is as ambiguous as any other exception: the tool may have acted before it asked.
    What a tool can't begin without is declared (`requires`), and is looked for before anything is dispatched.
    """


@dataclass(frozen=True, slots=True)
class ToolSpec:
    """The registered declaration of a tool.

    `version` is part of what an approval is bound to: raise it when the behaviour changes. `timeout` is in seconds.
    `verb` and `target` speak to the approver: `verb` is a phrase ("Refund an order"), `target` names the argument
    that says on what. `replay` lets recovery run an IDEMPOTENT tool once more under the same key. `identified_by` names
    the arguments that say what is done (order and amount, but not the reason): two calls that agree in them are the
    same action to the rules of repetition, however they are worded. Without it all arguments count.

    `requires` names the resources without which the tool can't begin; where the agent lacks one, the call fails before
    anything is dispatched. `verifies` names the tool whose effects this NONE tool checks by a fresh read; its result
    says `{"verified": true}`, `false` or `null` in `structured` (anything else, and an error result: it could not
    tell). `operation` names the argument that identifies the operation on both sides, like `action_id`; without it the
    check is about the latest completed effect of that tool in the session.

    `asks`: a call of this NONE tool is answered by a person; `ask` says what they are asked, and `run` is never called.

    In `input_schema` a field with `"x-secret": true` takes a reference to a secret (contracts/secret.py).
    """

    name: str
    description: str = ""
    input_schema: Mapping[str, Any] = field(default_factory=dict)
    effect: ToolEffect = ToolEffect.EXTERNAL
    version: str = "1"
    parallel_safe: bool = True
    timeout: float = 60.0
    verb: str = ""
    target: str = ""
    replay: bool = True
    requires: tuple[str, ...] = ()
    verifies: str = ""
    operation: str = ""
    identified_by: tuple[str, ...] = ()
    asks: bool = False

    def __post_init__(self) -> None:
        if not NAME.fullmatch(self.name):
            raise ValueError(f"Tool {self.name!r}: a name has 1 to 64 letters, digits, '_' or '-'.")
        if not 1 <= len(self.version) <= 40 or len(self.verb) > 110:
            raise ValueError(f"Tool {self.name!r}: a version has 1 to 40 characters, a verb at most 110.")
        if not 0 < self.timeout <= MAX_TIMEOUT:
            raise ValueError(f"Tool {self.name!r}: a timeout is more than 0 and at most {MAX_TIMEOUT} seconds.")
        if self.verifies and self.effect is not ToolEffect.NONE:
            raise ValueError(f"Tool {self.name!r}: only a tool without effect (NONE) verifies another one.")
        if self.asks and self.effect is not ToolEffect.NONE:
            raise ValueError(
                f"Tool {self.name!r}: only a tool without effect (NONE) asks a person in place of running."
            )
        for name, given in (("requires", self.requires), ("identified_by", self.identified_by)):
            if isinstance(given, str):
                raise ValueError(f"Tool {self.name!r}: `{name}` is a tuple of names, not one string.")
        if holds_mark(self.input_schema):
            try:
                object.__setattr__(self, "input_schema", with_references(self.input_schema))
            except ValueError as problem:
                raise ValueError(f"Tool {self.name!r}: {problem}") from None
            if self.asks:
                raise ValueError(f"Tool {self.name!r}: what is asked of a person can't hold a secret.")


@dataclass(frozen=True, slots=True)
class ToolContext:
    """Identity and resources of one invocation, made by the runtime.

    `idempotency_key` is stable for the operation: hand it to the downstream system. `deadline` is the moment after
    which the runtime gives the call up; give it to HTTP clients as a timeout (`seconds_left`). `conditions` are what
    the people who approved it tied their agreement to, as texts.
    """

    session_id: str
    tenant: str = ""
    agent_name: str = ""
    call_id: str = ""
    operation_id: str = ""
    idempotency_key: str = ""
    dispatch_id: str = ""
    replayed: bool = False
    deadline: datetime | None = None
    seconds_left: float = 60.0
    conditions: tuple[str, ...] = ()
    resources: Mapping[str, Any] = field(default_factory=dict)

    def require(self, name: str) -> Any:
        """The resource called `name`; raises MissingResource with a sentence when the deployment has none."""
        if self.resources.get(name) is None:
            raise MissingResource(f"This tool needs the resource {name!r}, which this deployment does not provide.")
        return self.resources[name]


@dataclass(frozen=True, slots=True)
class ToolResult:
    """What a tool returns. Returning one is a definite statement about the operation.

    `content` is text for the model, `structured` a JSON object for people and programs. `is_error=True` says "I did
    not do it".

    `artifacts` describes durable outputs, each entry a JSON object. An entry with `body` (text or bytes) is a file: the
    body is kept as an attachment under the entry's `name` and `media_type`, and the entry names it. Entries without one
    are kept as they are.

    Whatever it holds, a result is recorded. What JSON can't say is tagged. Content over 256 KiB, structured over 256
    KiB and artifacts over 64 KiB are kept whole as attachments; the call, and the model, get an excerpt that says so. A
    result has at most 32 attachments of 32 MiB together; of what is more, size and digest are kept.
    """

    content: str = ""
    structured: Mapping[str, Any] | None = None
    artifacts: tuple[Mapping[str, Any], ...] = ()
    is_error: bool = False


class Tool:
    """Base of class tools: set `spec`, implement `run`. Arguments are validated against the schema, never coerced.

    `reconciler` finds out what became of a call whose outcome is unknown; `verifier` reads afterwards what it changed.
    """

    spec: ToolSpec
    reconciler: Reconciler | None = None
    verifier: Verifier | None = None

    def __init__(self, spec: ToolSpec | None = None) -> None:
        if spec is not None:
            self.spec = spec

    @property
    def schema(self) -> Mapping[str, Any]:
        """The effective input schema: what is registered, shown to the model and digested."""
        return self.spec.input_schema or {"type": "object"}

    @property
    def takes_secrets(self) -> bool:
        """Whether a field of the schema is marked secret. Such a tool takes no field that its schema does not name."""
        return holds_mark(self.schema)

    def run(self, ctx: ToolContext, args: dict[str, Any]) -> ToolResult | Awaitable[ToolResult]:
        raise NotImplementedError(f"{type(self).__name__} must implement run(ctx, args).")

    def ask(self, args: dict[str, Any]) -> Ask:
        """What a person is asked by a call of a tool that `asks`. Must not block; InvalidArguments refuses the call."""
        raise NotImplementedError(f"{type(self).__name__} must implement ask(args).")

    def coerce(self, args: dict[str, Any]) -> dict[str, Any]:
        """The effective arguments: top-level defaults of the schema filled in, nothing coerced."""
        properties: Mapping[str, Any] = self.schema.get("properties", {})  # `true` is a schema too
        missing = {
            name: prop["default"]
            for name, prop in properties.items()
            if isinstance(prop, Mapping) and "default" in prop and name not in args
        }
        return {**args, **missing}


class FunctionTool(Tool):
    """A function made a tool by `@tool`. Arguments are coerced and defaulted by pydantic from its type hints."""

    def __init__(
        self, spec: ToolSpec, function: Callable[..., Any], arguments: type[BaseModel], takes_ctx: bool
    ) -> None:
        super().__init__(spec)
        self.function = function
        self.arguments = arguments
        self.takes_ctx = takes_ctx

    def coerce(self, args: dict[str, Any]) -> dict[str, Any]:
        """The effective arguments. They are read once more when the function runs, so reading must not change them."""
        effective = self._read(args)
        if json.dumps(self._read(effective), sort_keys=True) != json.dumps(effective, sort_keys=True):
            raise Discreet("The tool's validators change these arguments each time they are read.")
        return effective

    def _read(self, args: dict[str, Any]) -> dict[str, Any]:
        try:
            read = self.arguments.model_validate(args)
        except ValidationError as error:
            if self.takes_secrets:
                raise Discreet(_told_discreetly(error, field_names(self.schema))) from None
            problems = "; ".join(f"{'.'.join(map(str, e['loc'])) or 'arguments'}: {e['msg']}" for e in error.errors())
            raise InvalidArguments(problems) from None
        dumped: dict[str, Any] = in_one_order(read, read.model_dump(mode="json", by_alias=True))
        return dumped

    def run(self, ctx: ToolContext, args: dict[str, Any]) -> ToolResult | Awaitable[ToolResult]:
        values = dict(self.arguments.model_validate(args))
        answer = self.function(ctx, **values) if self.takes_ctx else self.function(**values)
        if inspect.isawaitable(answer):
            return _awaited(answer)
        return _as_result(answer)


# What an error of pydantic tells besides its own fixed words, where that is the declaration's and not the value's.
_DECLARED = {"expected", "gt", "ge", "lt", "le", "multiple_of", "min_length", "max_length", "actual_length", "pattern"}


def _told_discreetly(error: ValidationError, names: frozenset[str]) -> str:
    problems = []
    for e in error.errors():
        place = ".".join(str(step) if isinstance(step, int) or step in names else "…" for step in e["loc"])
        fixed = "url" in e and e.get("ctx", {}).keys() <= _DECLARED  # only pydantic's own errors have a page about them
        problems.append(f"{place or 'arguments'}: {e['msg'] if fixed else 'the value is refused'}")
    return "; ".join(problems)


async def _awaited(answer: Awaitable[Any]) -> ToolResult:
    return _as_result(await answer)


def _as_result(answer: Any) -> ToolResult:
    if isinstance(answer, ToolResult):
        return answer
    if isinstance(answer, str):
        return ToolResult(content=answer)
    if isinstance(answer, Mapping):
        return ToolResult(structured=answer)
    return answer  # no valid result: whoever runs the tool judges it


def tool(
    *,
    name: str = "",
    description: str = "",
    effect: ToolEffect = ToolEffect.EXTERNAL,
    version: str = "1",
    parallel_safe: bool = True,
    timeout: float = 60.0,
    verb: str = "",
    target: str = "",
    replay: bool = True,
    reconciler: Reconciler | None = None,
    verifier: Verifier | None = None,
    requires: tuple[str, ...] = (),
    verifies: str = "",
    operation: str = "",
    identified_by: tuple[str, ...] = (),
) -> Callable[[Callable[..., Any]], FunctionTool]:
    """Make a tool of a function. The schema comes from its type hints, the description from its docstring.

    A first parameter called `ctx` receives the ToolContext. A parameter of type `Secret` takes a reference to a secret
    and receives its value. Returns may be a ToolResult, a string or a mapping.
    """

    def wrap(function: Callable[..., Any]) -> FunctionTool:
        hints = get_type_hints(function, include_extras=True)
        parameters = list(inspect.signature(function).parameters.values())
        takes_ctx = bool(parameters) and parameters[0].name == "ctx"
        fields: dict[str, Any] = {}
        for parameter in parameters[1:] if takes_ctx else parameters:
            if parameter.kind not in (parameter.POSITIONAL_OR_KEYWORD, parameter.KEYWORD_ONLY):
                raise TypeError(f"Tool {function.__name__}: *{parameter.name} can't be described by a schema.")
            if parameter.name.startswith("_"):
                text = f"parameter {parameter.name!r} begins with an underscore, which hides it from the schema."
                raise TypeError(f"Tool {function.__name__}: {text}")
            if parameter.name not in hints:
                raise TypeError(f"Tool {function.__name__}: give parameter {parameter.name!r} a type hint.")
            default = ... if parameter.default is parameter.empty else parameter.default
            fields[parameter.name] = (hints[parameter.name], default)
        config = ConfigDict(extra="forbid")
        arguments = create_model(f"{function.__name__}_arguments", __config__=config, **fields)
        spec = ToolSpec(
            name=name or function.__name__,
            description=description or inspect.getdoc(function) or "",
            input_schema=arguments.model_json_schema(schema_generator=OrderedSchema),
            effect=effect,
            version=version,
            parallel_safe=parallel_safe,
            timeout=timeout,
            verb=verb,
            target=target,
            replay=replay,
            requires=requires,
            verifies=verifies,
            operation=operation,
            identified_by=identified_by,
        )
        made = FunctionTool(spec, function, arguments, takes_ctx)
        made.reconciler, made.verifier = reconciler, verifier
        return made

    return wrap
