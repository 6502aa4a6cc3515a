"""Checks that the sizes of arguments fit each other, for operators that do not check them.

A matmul resizes an out argument of the wrong size, but not other tensors over its storage. oneDNN's recurrent
layers read states and weights in the expected shapes, even outside of their memory.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from types import MappingProxyType

from wrapper_ir import ir
from wrapper_ir.expr import Bool, Expr, Int, mul
from wrapper_ir.verifier.facts import Check, Handlers
from wrapper_ir.verifier.obligations import Claim

Sizes = tuple[Expr, ...]
Pairs = list[tuple[Expr, Expr]] | None
"""Pairs of sizes that must be equal; None if the ranks do not fit."""


def _matmul_sizes(a: Sizes, b: Sizes, out: Sizes) -> Pairs:
    """[..., n, k] x [..., k, m] = [..., n, m], all of rank 2 or 3."""
    if not len(a) == len(b) == len(out) or len(a) not in (2, 3):
        return None
    inner = [(a[-1], b[-2]), (a[-2], out[-2]), (b[-1], out[-1])]
    return inner + ([(a[0], b[0]), (a[0], out[0])] if len(a) == 3 else [])


def _matmul(args: tuple[Sizes, ...], out: Sizes) -> Pairs:
    return _matmul_sizes(args[0], args[1], out) if len(args) == 2 else None


def _add_matmul(args: tuple[Sizes, ...], out: Sizes) -> Pairs:
    return _matmul_sizes(args[1], args[2], out) if len(args) == 3 and len(args[0]) <= len(out) else None


_RULES: Mapping[str, Callable[[tuple[Sizes, ...], Sizes], Pairs]] = MappingProxyType(
    {
        "aten::mm.out": _matmul,
        "aten::bmm.out": _matmul,
        "aten::_int_mm.out": _matmul,
        "aten::addmm.out": _add_matmul,
        "aten::baddbmm.out": _add_matmul,
    }
)

_LSTM, _GATES, _WITHOUT = Int(2), 4, Bool(False)


def _recurrent(args: Sequence[ir.Arg]) -> Pairs:
    """A layer over [steps, batch, inputs], with weights [4*hidden, inputs] and [4*hidden, hidden], two biases
    [4*hidden] and two states [1, batch, hidden]. If the layer has no biases, their arguments are weights,
    which are not read."""
    sequence, *others = (_sizes(arg) for arg in args[:7])
    hidden = args[10]
    if sequence is None or len(sequence) != 3 or not isinstance(hidden, Expr):
        return None
    gates, (_, batch, inputs) = mul(_GATES, hidden), sequence
    state = (Int(1), batch, hidden)
    pairs: list[tuple[Expr, Expr]] = []
    bias = None if args[12] == _WITHOUT else (gates,)
    for sizes, expected in zip(others, ((gates, inputs), (gates, hidden), bias, bias, state, state)):
        if sizes is None or expected is None:  # packed, or not read
            continue
        if len(sizes) != len(expected):
            return None
        pairs += zip(sizes, expected)
    return pairs


CHECKED_OUTPUTS = frozenset(_RULES)
"""Operators whose out argument must have the shape of the result."""


class Shapes(Check):
    """WIR058."""

    def handlers(self) -> Handlers:
        return {ir.CallExtern: self.call}

    def call(self, position: int, op: ir.CallExtern) -> None:
        if op.target == "aten::mkldnn_rnn_layer" and len(op.args) == 16 and op.args[9] == _LSTM:
            self._hold(_recurrent(op.args), position, op)
        rule = _RULES.get(op.target)
        if rule is None:
            return
        sizes = [_sizes(arg) for arg in op.args]
        outs = [_sizes(arg) for name, arg in op.kwargs if name == "out"]
        args = tuple(s for s in sizes if s is not None)
        out = outs[0] if outs else None
        if out is None or None in sizes:
            return
        self._hold(rule(args, out), position, op)

    def _hold(self, pairs: Pairs, position: int, op: ir.CallExtern) -> None:
        def message() -> str:
            return f"{op.target}: the sizes of its arguments do not fit"

        if pairs is None:
            self.report("WIR058", message(), position)
            return
        for a, b in pairs:
            if a is not b:
                self.facts.require(Claim((((a, b), (b, a)),)), "WIR058", message, position)


def _sizes(arg: ir.Arg) -> Sizes | None:
    return arg.type.sizes if ir.is_tensor(arg) else None
