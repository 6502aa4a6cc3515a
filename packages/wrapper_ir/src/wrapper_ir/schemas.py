"""Operator schemas: what a call of a library operator reads, writes and aliases.

The schema string is the operator library's own (`aten::add.out(Tensor self, ..., *, Tensor(a!) out) -> Tensor(a!)`)
and travels with the program, so that effects are known without that library.
"""

from __future__ import annotations

import enum
import re
from dataclasses import dataclass
from functools import lru_cache

from wrapper_ir.errors import SchemaError

__all__ = ["ExternDef", "ExternTag", "OpSchema", "SchemaArg", "SchemaReturn", "parse_schema"]


class ExternTag(enum.Enum):
    """Effects that a schema string does not show."""

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


@dataclass(frozen=True, slots=True, kw_only=True)
class ExternDef:
    """A declared operator. Text: `extern "aten::relu(Tensor self) -> Tensor"`, with `tags(random)` behind it."""

    schema: str
    tags: tuple[ExternTag, ...] = ()

    @property
    def name(self) -> str:
        """`namespace::op.overload`, by which ops refer to it."""
        return self.schema[: self.schema.index("(")].strip()


@dataclass(frozen=True, slots=True, kw_only=True)
class SchemaArg:
    """One argument of a schema; `alias` is its alias set (`a`), '' for none; `written` marks `!`."""

    name: str
    type: str
    alias: str = ""
    written: bool = False
    keyword_only: bool = False
    default: str | None = None

    @property
    def is_tensor(self) -> bool:
        """True where tensors may be passed: `Tensor`, `Tensor?`, `Tensor[]`, `Tensor?[]`, ..."""
        return self.type.startswith("Tensor")


@dataclass(frozen=True, slots=True, kw_only=True)
class SchemaReturn:
    """One return of a schema."""

    type: str
    alias: str = ""
    written: bool = False
    name: str = ""


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


_TYPE = re.compile(
    r"""(?P<base>[A-Za-z_][\w.]*)                 # Tensor, int, __torch__.foo
        (?P<generic>\([^()]*\))?                  # Tensor(a!), Dict(str, int), Tensor(a -> *)
        (?P<rest>(?:\[\d*\]|\?|\([a-z*!|>\- ]*\))*)$""",
    re.VERBOSE,
)


def _split(text: str) -> list[str]:
    """Splits at commas outside brackets and quotes."""
    parts, depth, start, quote = [], 0, 0, ""
    for i, c in enumerate(text):
        if quote:
            quote = "" if c == quote else quote
        elif c in "\"'":
            quote = c
        elif c in "([":
            depth += 1
        elif c in ")]":
            depth -= 1
        elif c == "," and depth == 0:
            parts.append(text[start:i].strip())
            start = i + 1
    last = text[start:].strip()
    return [*parts, last] if last else parts


def _parse_type(text: str, schema: str) -> tuple[str, str, bool]:
    """(type without alias annotation, alias set, written)."""
    m = _TYPE.match(text)
    if m is None:
        raise SchemaError("WIR601", f"cannot read type {text!r} in schema {schema!r}")
    generic = m["generic"] or ""
    alias, written = "", False
    annotation = generic if re.fullmatch(r"\([a-z*]?(?:\|[a-z])*!?(?: ?-> ?[\w*|! ]+)?\)", generic) else ""
    if annotation:
        inner = annotation[1:-1]
        written = "!" in inner
        alias = inner.split("!")[0].split("->")[0].strip().split("|")[0]
        generic = ""
    # A list's own alias set: Tensor[](a!)
    rest = m["rest"]
    own = re.search(r"\(([a-z*])(!?)[^)]*\)", rest)
    if own:
        alias, written = own[1], written or own[2] == "!"
        rest = rest[: own.start()] + rest[own.end() :]
    return m["base"] + generic + rest, alias, written


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
            raise SchemaError("WIR601", f"cannot read argument {part!r} in schema {schema!r}")
        kind, alias, written = _parse_type(type_text.strip(), schema)
        args.append(
            SchemaArg(
                name=name,
                type=kind,
                alias=alias,
                written=written,
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
        kind, alias, written = _parse_type(head.strip(), schema)
        returns.append(SchemaReturn(type=kind, alias=alias, written=written, name=name))
    return tuple(returns)


def _closing(text: str, start: int) -> int:
    depth = 0
    for i in range(start, len(text)):
        depth += (text[i] == "(") - (text[i] == ")")
        if depth == 0:
            return i
    return -1


@lru_cache(maxsize=4096)
def parse_schema(schema: str) -> OpSchema:
    """Parses an operator schema string; raises SchemaError WIR601 naming the part that cannot be read."""
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
