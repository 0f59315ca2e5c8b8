"""Field types and constraint helpers that the runtime's tables share."""

from __future__ import annotations

import json
import re
from typing import TYPE_CHECKING, Any

from django.db import models
from django.db.models.functions import Length
from django.db.models.lookups import Exact, In

if TYPE_CHECKING:
    CharField = models.CharField[Any, Any]
    TextField = models.TextField[Any, Any]
else:
    CharField = models.CharField
    TextField = models.TextField

STATE = re.compile(r"[a-z_]{1,40}")


class JSONTextField(TextField):
    """JSON kept as its text.

    Escapes stay escapes, so a NUL or half a surrogate pair in a tool's answer can't make a database refuse the row
    after the effect has happened; and the stored text is the one that was digested.
    """

    _pyi_private_set_type: Any
    _pyi_private_get_type: Any

    description = "JSON text"

    def from_db_value(self, value: str | None, expression: Any, connection: Any) -> Any:
        return None if value is None else json.loads(value)

    def to_python(self, value: Any) -> Any:
        return json.loads(value) if isinstance(value, str) else value

    def get_prep_value(self, value: Any) -> str | None:
        return None if value is None else json.dumps(value, separators=(",", ":"), allow_nan=False)

    def value_to_string(self, obj: models.Model) -> str:
        return json.dumps(self.value_from_object(obj))


class BytesField(models.BinaryField):
    """Bytes that read as `bytes` on both databases."""

    _pyi_private_get_type: bytes

    def from_db_value(self, value: Any, expression: Any, connection: Any) -> bytes | None:
        return None if value is None else bytes(value)


class StateField(CharField):
    """A state's name. States that are asked for with `in` stand in the statement itself, not as parameters.

    Partial indexes are about states, and SQLite takes one only for a statement that says the same as its condition:
    with parameters it reads the whole table.
    """

    _pyi_private_set_type: Any
    _pyi_private_get_type: str

    def deconstruct(self) -> Any:
        name, _, args, kwargs = super().deconstruct()
        return name, "django.db.models.CharField", args, kwargs


@StateField.register_lookup
class StateIn(In):
    def process_rhs(self, compiler: Any, connection: Any) -> Any:
        names = list(self.rhs) if self.rhs_is_direct_value() else []
        if not names or not all(isinstance(name, str) and STATE.fullmatch(name) for name in names):
            return super().process_rhs(compiler, connection)
        quoted = ", ".join(f"'{name}'" for name in dict.fromkeys(names))
        return f"({quoted})", ()


class DigestField(BytesField):
    """A SHA-256 as its 32 bytes."""


def one_of(model: str, field: str, values: tuple[str, ...]) -> models.CheckConstraint:
    return models.CheckConstraint(condition=models.Q(**{f"{field}__in": values}), name=f"{model}_{field}_known")


def set_exactly_in(model: str, column: str, field: str, values: tuple[str, ...]) -> models.CheckConstraint:
    """`column` is set exactly when `field` is one of `values`: a row can't lie about its state."""
    is_in = models.Q(**{f"{field}__in": values})
    is_set = models.Q(**{f"{column}__isnull": False})
    return models.CheckConstraint(condition=(is_in & is_set) | (~is_in & ~is_set), name=f"{model}_{column}_matches")


def set_whenever_in(model: str, column: str, field: str, values: tuple[str, ...]) -> models.CheckConstraint:
    condition = ~models.Q(**{f"{field}__in": values}) | models.Q(**{f"{column}__isnull": False})
    return models.CheckConstraint(condition=condition, name=f"{model}_{column}_given")


def not_set_in(model: str, column: str, field: str, values: tuple[str, ...]) -> models.CheckConstraint:
    condition = ~models.Q(**{f"{field}__in": values}) | models.Q(**{f"{column}__isnull": True})
    return models.CheckConstraint(condition=condition, name=f"{model}_{column}_absent")


def whole_digests(model: str, *columns: str) -> models.CheckConstraint:
    """Each of these columns has the 32 bytes of a SHA-256, or is null where it may be."""
    condition = models.Q()
    for column in columns:
        condition &= models.Q(Exact(Length(column), 32))
    return models.CheckConstraint(condition=condition, name=f"{model}_digests_whole")
