"""Conditions over a stopped run: program expressions, extended with statistics and elements of tensors.

Examples: `s0 > 4 and nans(%buf1) > 0`, `max(%x) >= 1.5`, `at(%x, 0, 3) == 0.0`, `item(%flag)`, `size(%x, 0)
== s0`.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, ClassVar, Self

from wrapper_ir import ir
from wrapper_ir.errors import DebugError, ParseError
from wrapper_ir.expr import Expr, Number, SymKind, evaluate, intern
from wrapper_ir.plugins.protocols import Machine
from wrapper_ir.support.tokens import Source, kind_of
from wrapper_ir_runtime.interp import Step
from wrapper_ir_runtime.tensor_text import TensorSummary, TensorView, summarize
from wrapper_ir_tools.debugger.contents import content_of
from wrapper_ir_tools.debugger.elements import element

STATISTICS: Mapping[str, Callable[[TensorSummary], float | None]] = {
    "mean": lambda s: None if isinstance(s.mean, complex) else s.mean,
    "min": lambda s: s.minimum,
    "max": lambda s: s.maximum,
    "std": lambda s: s.std,
    "nans": lambda s: s.nan,
    "infs": lambda s: s.inf,
}
"""Statistics of a tensor, by name. `nans` and `infs` are counts; the others are over finite elements."""


class Statistic(ir.ValueAtom):
    """A number about a tensor, such as `max(%x)`."""

    __slots__ = ("name",)
    __match_args__ = ("value", "name")
    kind = SymKind.FLOAT
    word: ClassVar[str] = "statistic"
    name: str

    def __new__(cls, value: ir.Value, name: str) -> Self:
        return intern(cls, (cls, value, name), (value, name))

    @property
    def text(self) -> str:
        return f"{self.name}(%{self.value.name})"


class Element(ir.ValueAtom):
    """One element, such as `at(%x, 0, 3)`."""

    __slots__ = ("index",)
    __match_args__ = ("value", "index")
    word: ClassVar[str] = "at"
    index: tuple[int, ...]

    def __new__(cls, value: ir.Value, index: tuple[int, ...]) -> Self:
        return intern(cls, (cls, value, index), (value, index))

    @property
    def kind(self) -> SymKind:
        type = self.value.type
        assert isinstance(type, ir.TensorType)
        if type.dtype is ir.DType.BOOL:
            return SymKind.BOOL
        return SymKind.FLOAT if type.dtype.is_floating else SymKind.INT

    @property
    def text(self) -> str:
        return f"at(%{self.value.name}, {', '.join(map(str, self.index))})"


class _Parser(ir.AtomParser):
    """Parses statistics and elements in addition to program expressions."""

    def atom(self, word: str) -> Expr | None:
        """See `ExprParser`. `min` and `max` of a tensor are statistics; of numbers, functions."""
        if (
            word in STATISTICS
            and kind_of(self.tokens[self.at]) == "VALUE"
            and self.tokens[self.at + 1] == ")"
        ):
            return Statistic(self._tensor(word), word)
        if word == "at":
            value = self._tensor(word)
            index: list[int] = []
            while self.accept(","):
                index.append(self._int())
            return Element(value, tuple(index))
        return super().atom(word)

    def _tensor(self, word: str) -> ir.Value:
        start = self.at
        value = self.value()
        if not ir.is_tensor(value):
            self.fail("WIR552", f"{word} is of a tensor, and %{value.name} is none", start)
        return value

    def _int(self) -> int:
        token = self.tokens[self.at]
        if not token.isdecimal():
            self.unexpected("an index")
        self.at += 1
        return int(token)


@dataclass(frozen=True, slots=True)
class Condition:
    """A parsed expression and its source text."""

    text: str
    expr: Expr


def parse_condition(text: str, symbols: Mapping[str, SymKind], values: Mapping[str, ir.Value]) -> Condition:
    """Parses a condition; raises ParseError WIR550 to WIR553."""
    parser = _Parser(Source(text))
    parser.kinds = dict(symbols)
    parser.values |= values
    expr = parser.expression()
    parser.skip_lines()
    if parser.tokens[parser.at] != "":
        parser.fail("WIR550", f"expected the end of the expression, found {parser.shown()}")
    return Condition(text, expr)


def evaluate_condition(condition: Condition, step: Step[Any], machine: Machine[Any]) -> Number:
    """Evaluates a condition before the op of `step`; raises DebugError WIR955 if an operand has no value
    there.
    """
    frame = step.frame

    def atom(e: Expr) -> Number:
        match e:
            case Statistic(value):
                content = content_of(value, frame.value(value), machine).data
                assert isinstance(content, TensorView)
                statistic = STATISTICS[e.name](summarize(content.data, content.dtype))
                return math.nan if statistic is None else statistic
            case Element(value):
                return machine.item(element(frame.value(value), value, e.index, machine))
            case ir.SizeOf(value, dim):
                return machine.sizes(frame.value(value))[dim]
            case ir.StrideOf(value, dim):
                return machine.strides(frame.value(value))[dim]
            case ir.OffsetOf(value):
                return machine.offset(frame.value(value))
            case ir.Item(value):
                return frame.item(frame.value(value))
            case _:
                raise DebugError("WIR955", f"{e} has no value here")

    try:
        return evaluate(condition.expr, step.symbols, atom)
    except (ParseError, DebugError):
        raise
    except Exception as error:
        raise DebugError("WIR955", f"{condition.text!r} has no value here: {error}") from error
