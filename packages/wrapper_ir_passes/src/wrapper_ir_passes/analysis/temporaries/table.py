"""Computes the bytes that operators allocate and free within a call, from the types of their operands.

Rules for torch's kernels hold on every CPU. Rules for convolutions and LSTMs are those of oneDNN on x86 CPUs
with AVX-512, on one thread; with AVX2 it pads less, but also needs 8 KiB of scratch memory for groups. The
temporaries of an operator without a rule are unknown.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Set
from types import MappingProxyType

from wrapper_ir import ir
from wrapper_ir.analysis.sizes import Sizes
from wrapper_ir_passes.analysis.temporaries.attention import ATTENTION
from wrapper_ir_passes.analysis.temporaries.call import OperatorCall
from wrapper_ir_passes.analysis.temporaries.convolutions import CONVOLUTIONS
from wrapper_ir_passes.analysis.temporaries.matmuls import MATMULS
from wrapper_ir_passes.analysis.temporaries.nothing import CONVERTING, NOTHING
from wrapper_ir_passes.analysis.temporaries.recurrent import RECURRENT
from wrapper_ir_passes.analysis.temporaries.selections import SELECTIONS

_MOST_RESULTS = 8
"""At least the number of results of any operator in the tables."""
_Rule = tuple[tuple[str, ...], Callable[[OperatorCall], int | None]]
OPERATOR_TEMPORARIES: Mapping[str, _Rule] = MappingProxyType(
    {**CONVOLUTIONS, **MATMULS, **ATTENTION, **RECURRENT, **SELECTIONS}
)
"""The names of the arguments, and the rule for temporaries on the CPU, of each operator. A rule returns None
if they are unknown for these operands."""


def temporaries(function: ir.Function, sizes: Sizes) -> dict[int, int]:
    """Bytes that operators allocate in addition to their operands and used results while they run, by
    position; those that are unknown or 0 are omitted.

    Raises ExpressionError if a size has no value under the hints.
    """
    return {position: size for position, _, size in _by_call(function, sizes) if size}


def unknown_temporaries(function: ir.Function, sizes: Sizes) -> Counter[str]:
    """The number of calls with unknown temporaries, by operator; their temporaries count as 0."""
    return Counter(op.target for _, op, size in _by_call(function, sizes) if size is None)


def _by_call(function: ir.Function, sizes: Sizes) -> Iterator[tuple[int, ir.CallExtern, int | None]]:
    uses = _uses(function)
    for position, op in function.positions_of(ir.CallExtern):
        yield position, op, _bytes(op, sizes, uses.get(op.result, frozenset()) if op.result else frozenset())


def _uses(function: ir.Function) -> dict[ir.Value, set[int | str]]:
    """The indices of unpacked elements of nested results; all indices if the program uses the whole
    result."""
    uses: dict[ir.Value, set[int | str]] = {}
    for op in function.body:
        for value in ir.operands(op):
            if ir.is_results(value) and not isinstance(op, ir.EndOp):
                part = op.path[:1] if isinstance(op, ir.Unpack) else ()
                uses.setdefault(value, set()).update(part or range(_MOST_RESULTS))
    return uses


def _bytes(op: ir.CallExtern, sizes: Sizes, uses: Set[int | str]) -> int | None:
    if op.target in NOTHING:
        return 0 if _has_no_copies(op) else None
    name = op.target.removesuffix(".out")
    rule = OPERATOR_TEMPORARIES.get(op.target) or OPERATOR_TEMPORARIES.get(name)
    if rule is None:
        return None
    names, bytes = rule
    try:
        return bytes(OperatorCall(op, sizes, uses, names))
    except (IndexError, ValueError):
        return None  # operands that the operator refuses


def _has_no_copies(op: ir.CallExtern) -> bool:
    """Returns whether all tensors are on the CPU, and all operands have one element type."""
    operands = [v.type for v in filter(ir.is_tensor, ir.operands(op))]
    results = [v.type for v in filter(ir.is_tensor, ir.results(op))]
    is_uniform = op.target in CONVERTING or len({t.dtype for t in operands}) <= 1
    return is_uniform and all(t.device == ir.CPU for t in (*operands, *results))
