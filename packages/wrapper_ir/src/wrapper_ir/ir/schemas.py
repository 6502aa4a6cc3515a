"""Operator schemas: the values that a call of a library operator reads, writes and aliases.

The schema string is that of the operator library (`aten::add.out(Tensor self, ..., *, Tensor(a!) out) ->
Tensor(a!)`) and travels with the program, so that effects are known without that library.
"""

from __future__ import annotations

import enum
import re
from collections.abc import Collection, Iterator, Mapping
from dataclasses import dataclass
from functools import lru_cache
from types import MappingProxyType
from typing import ClassVar

from wrapper_ir.errors import NotSupportedError, SchemaError


class ExternTag(enum.Enum):
    """Effects and requirements of a call that a schema string does not contain."""

    RANDOM = "random"
    """Draws from the device's random state (or from a generator argument)."""
    EFFECTFUL = "effectful"
    """Ordered with all other effectful calls; never removed."""
    HOST_IO = "host_io"
    """Reads or writes files, consoles, sockets; never removed."""
    MAY_ALIAS = "may_alias"
    """Results may or may not share storage with the arguments of the same alias set (such as `reshape`)."""
    COLLECTIVE = "collective"
    """Communicates with other processes."""
    PYTHON_ONLY = "python_only"
    """Implemented only in Python (`prims::*`, operators that a model registers): a process without Python
    cannot call it. Independent of its effects."""
    CUDAGRAPH_UNSAFE = "cudagraph_unsafe"
    """Cannot be captured in a CUDA graph: the host waits for the device or reads its results."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ExternDef:
    """A declared operator. Text: `extern "aten::relu(Tensor self) -> Tensor"`,
    `extern "aten::rand(SymInt[] size) -> Tensor" tags(random)`,
    `extern "symm_mem::one_shot_all_reduce(Tensor input) -> Tensor" symmetric(input)`.

    `symmetric` names the arguments that must live in symmetric memory: other processes read or write them
    directly.
    """

    syntax: ClassVar[str] = "extern {schema}< tags({tags})>< symmetric({symmetric:name})>"

    schema: str
    tags: tuple[ExternTag, ...] = ()
    symmetric: tuple[str, ...] = ()

    @property
    def name(self) -> str:
        """`namespace::op.overload`, by which ops refer to it."""
        return self.schema[: self.schema.index("(")].strip()


def overload_path(name: str) -> tuple[str, str, str]:
    """(namespace, operator, overload) of `aten::add.out`; the overload without a name is `default`."""
    namespace, _, rest = name.partition("::")
    operator, _, overload = rest.partition(".")
    return namespace, operator, overload or "default"


@dataclass(frozen=True, slots=True, kw_only=True)
class SchemaArg:
    """One argument of a schema: the names of its alias sets (`a`, `*` for any), and whether it is written
    (`!`).

    The sets are those before the call: of `Tensor(a -> *)` it is `a`.
    """

    name: str
    type: str
    aliases: frozenset[str] = frozenset()
    written: bool = False
    keyword_only: bool = False
    default: str | None = None

    @property
    def alias(self) -> str:
        """The alias set, '' for none; `*` if it may be one of several."""
        return _one_set(self.aliases)

    @property
    def is_tensor(self) -> bool:
        """True where tensors may be passed: `Tensor`, `Tensor?`, `Tensor[]`, `Tensor?[]`, ..."""
        return self.type.startswith("Tensor")


@dataclass(frozen=True, slots=True, kw_only=True)
class SchemaReturn:
    """One return of a schema."""

    type: str
    aliases: frozenset[str] = frozenset()
    written: bool = False
    name: str = ""

    @property
    def alias(self) -> str:
        """The alias set, '' for none; `*` if it may be one of several (`Tensor(a|b)`)."""
        return _one_set(self.aliases)


def _one_set(aliases: frozenset[str]) -> str:
    if not aliases:
        return ""
    return next(iter(aliases)) if len(aliases) == 1 else "*"


@dataclass(frozen=True, slots=True, kw_only=True)
class OpSchema:
    """A parsed schema string."""

    name: str
    args: tuple[SchemaArg, ...]
    returns: tuple[SchemaReturn, ...]

    def argument(self, name: str) -> SchemaArg:
        """The argument of this name; raises SchemaError WIR602."""
        for arg in self.args:
            if arg.name == name:
                return arg
        raise SchemaError("WIR602", f"{self.name} has no argument {name!r}")


_NAME = re.compile(r"[A-Za-z_][\w.]*")  # Tensor, int, __torch__.foo
_SUFFIX = re.compile(r"\[\d*\]|\?")
_ALIAS = re.compile(r"\(([\w*|]*)(!?)(?: ?-> ?[\w*|]+)?\)")  # (a), (a!), (a|b), (a -> *)
_CONTAINERS = frozenset({"Await", "Dict", "Future", "RRef"})
"""Types whose first parentheses contain element types, not an alias set."""


def _unquoted(text: str, start: int = 0) -> Iterator[tuple[int, str, int]]:
    """(position, character, bracket depth after it) from `start` on, without quoted strings."""
    depth, quote, escaped = 0, "", False
    for i in range(start, len(text)):
        c = text[i]
        if quote:
            quote = "" if c == quote and not escaped else quote
            escaped = c == "\\" and not escaped
        elif c in "\"'":
            quote = c
        else:
            depth += (c in "([") - (c in ")]")
            yield i, c, depth


def _closing(text: str, start: int) -> int:
    """Position of the bracket that closes the one at `start`; -1 if none does."""
    return next((i for i, _, depth in _unquoted(text, start) if depth == 0), -1)


def _split(text: str) -> list[str]:
    """Splits at commas outside brackets and quotes."""
    parts, start = [], 0
    for i, c, depth in _unquoted(text):
        if c == "," and depth == 0:
            parts.append(text[start:i].strip())
            start = i + 1
    last = text[start:].strip()
    return [*parts, last] if last else parts


def _parse_type(text: str, schema: str) -> tuple[str, frozenset[str], bool]:
    """Returns (type without alias annotations, alias sets, written)."""
    base, aliases, is_written = _parse_base_type(text, schema)
    pieces, at = [base], len(base)
    while at < len(text):
        suffix = _SUFFIX.match(text, at)
        annotation = _ALIAS.match(text, at)
        if suffix is not None:
            pieces.append(suffix[0])
            at = suffix.end()
        elif annotation is not None:
            aliases |= frozenset(filter(None, annotation[1].split("|")))
            is_written = is_written or bool(annotation[2])
            at = annotation.end()
        else:
            raise _unreadable("type", text, schema)
    return "".join(pieces), aliases, is_written


def _parse_base_type(text: str, schema: str) -> tuple[str, frozenset[str], bool]:
    """Parses a leading name with element types, or a tuple of types with the annotations of its elements."""
    name = _NAME.match(text)
    if name is not None and not (name[0] in _CONTAINERS and text.startswith("(", name.end())):
        return name[0], frozenset(), False
    start = text.find("(")
    end = _closing(text, start) if start >= 0 else -1
    if end < 0:
        raise _unreadable("type", text, schema)
    elements = [_parse_type(part, schema) for part in _split(text[start + 1 : end])]
    if name is not None:
        return text[: end + 1], frozenset(), False
    aliases = frozenset[str]().union(*(aliases for _, aliases, _ in elements))
    return text[: end + 1], aliases, any(is_written for _, _, is_written in elements)


def _unreadable(what: str, text: str, schema: str) -> SchemaError:
    if text == "...":
        return SchemaError(
            "WIR603",
            f"{schema!r} takes or returns any number of values, so its effects are unknown",
            hint="declare an overload with named arguments",
        )
    return SchemaError("WIR601", f"cannot read {what} {text!r} in schema {schema!r}")


def _parse_args(text: str, schema: str) -> tuple[SchemaArg, ...]:
    args: list[SchemaArg] = []
    keyword_only = False
    for part in _split(text):
        if part == "*":
            keyword_only = True
            continue
        declaration, eq, default = part.partition("=")
        type_text, _, name = declaration.strip().rpartition(" ")
        if not type_text or not name.isidentifier():
            raise _unreadable("argument", part, schema)
        kind, aliases, is_written = _parse_type(type_text.strip(), schema)
        args.append(
            SchemaArg(
                name=name,
                type=kind,
                aliases=aliases,
                written=is_written,
                keyword_only=keyword_only,
                default=default.strip() if eq else None,
            )
        )
    return tuple(args)


def _parse_returns(text: str, schema: str) -> tuple[SchemaReturn, ...]:
    text = text.strip()
    if text.startswith("(") and text.endswith(")"):
        parts = _split(text[1:-1])
    else:
        parts = [text] if text else []
    returns = []
    for part in parts:
        head, _, name = part.rpartition(" ")
        if not head or not name.isidentifier():
            head, name = part, ""
        kind, aliases, is_written = _parse_type(head.strip(), schema)
        returns.append(SchemaReturn(type=kind, aliases=aliases, written=is_written, name=name))
    return tuple(returns)


@lru_cache(maxsize=4096)
def parse_schema(schema: str) -> OpSchema:
    """Parses an operator schema string.

    Raises SchemaError WIR601 naming the part that cannot be read, WIR603 for `...` (any number of values).
    """
    start = schema.find("(")
    end = _closing(schema, start) if start > 0 else -1
    arrow = schema.find("->", end)
    if start <= 0 or end < 0 or arrow < 0:
        raise SchemaError("WIR601", f"not an operator schema: {schema!r}")
    return OpSchema(
        name=schema[:start].strip(),
        args=_parse_args(schema[start + 1 : end], schema),
        returns=_parse_returns(schema[arrow + 2 :], schema),
    )


def require_effects(extern: ExternDef, installed: str, symmetric: Collection[str] = ()) -> None:
    """Compares a declared operator with the installed schema of its name, and with the arguments that its
    library has registered as symmetric memory.

    A program may declare more effects than the schema (schemas omit some), never fewer. Raises
    NotSupportedError WIR919 if the installed operator writes or returns an argument without a declared
    effect, has other arguments, or requires symmetric memory that is not declared.
    """
    try:
        own = parse_schema(installed)
    except SchemaError:
        return  # no program can declare such a schema either
    why = _hidden_effect(parse_schema(extern.schema), own, ExternTag.MAY_ALIAS in extern.tags)
    if not why and (missing := [name for name in symmetric if name not in extern.symmetric]):
        why = f"its argument {missing[0]} must be symmetric memory"
    if why:
        raise NotSupportedError(
            "WIR919",
            f"operator {extern.name} is declared with another schema than the installed one: {why}",
            hint=f"declare {installed}" + (f" symmetric({', '.join(symmetric)})" if symmetric else ""),
        )


def _hidden_effect(declared: OpSchema, installed: OpSchema, may_alias: bool) -> str:
    """The first effect that the declaration omits; '' if it omits none."""
    by_name = {arg.name: arg for arg in declared.args}
    if unknown := by_name.keys() - {arg.name for arg in installed.args}:
        return f"it has no argument {sorted(unknown)[0]}"
    for arg in installed.args:
        own = by_name.get(arg.name)
        if own is None and (arg.aliases or arg.default is None):
            return f"it has an argument {arg.name}"
        if own is not None and arg.written and not own.written:
            return f"it writes its argument {arg.name}"
    if len(declared.returns) != len(installed.returns):
        return f"it returns {len(installed.returns)} values, not {len(declared.returns)}"
    for number, (mine, theirs) in enumerate(zip(declared.returns, installed.returns, strict=True)):
        if theirs.aliases and not mine.aliases and not may_alias:
            return f"its return {number} shares memory with an argument"
    return ""


@dataclass(frozen=True, slots=True)
class ExternInfo:
    """A declared operator with its parsed schema and derived properties."""

    extern: ExternDef
    schema: OpSchema
    named: Mapping[str, SchemaArg]
    positional: int
    """Number of arguments that may be positional."""
    required: tuple[str, ...]
    """Names of arguments without default."""
    outs: frozenset[str]
    """Names of keyword-only arguments that are written."""

    @staticmethod
    def of(extern: ExternDef) -> ExternInfo:
        """Parses the schema; raises SchemaError."""
        schema = parse_schema(extern.schema)
        return ExternInfo(
            extern=extern,
            schema=schema,
            named=MappingProxyType({a.name: a for a in schema.args}),
            positional=sum(not a.keyword_only for a in schema.args),
            required=tuple(a.name for a in schema.args if a.default is None),
            outs=frozenset(a.name for a in schema.args if a.keyword_only and a.written),
        )
