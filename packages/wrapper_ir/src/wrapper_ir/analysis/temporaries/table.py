"""Which operators allocate how many bytes that they give back before they return, by their kind and the types of their operands.

Rules that are torch's own hold on every CPU. Those of convolutions and LSTMs are of oneDNN on x86 CPUs with AVX-512, on one thread;
with AVX2 it pads less, and needs 8 KiB of scratch for groups, too. An operator in no table has temporaries that are not known.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Set
from types import MappingProxyType

from wrapper_ir import ir
from wrapper_ir.analysis.sizes import Sizes
from wrapper_ir.analysis.temporaries.attention import ATTENTION
from wrapper_ir.analysis.temporaries.call import OperatorCall
from wrapper_ir.analysis.temporaries.convolutions import CONVOLUTIONS
from wrapper_ir.analysis.temporaries.matmuls import MATMULS
from wrapper_ir.analysis.temporaries.nothing import CONVERTING, NOTHING
from wrapper_ir.analysis.temporaries.recurrent import RECURRENT
from wrapper_ir.analysis.temporaries.selections import SELECTIONS

_MOST_RESULTS = 8
"""More than an operator in the tables has."""
_Rule = tuple[tuple[str, ...], Callable[[OperatorCall], int | None]]
OPERATOR_TEMPORARIES: Mapping[str, _Rule] = MappingProxyType(
    {**CONVOLUTIONS, **MATMULS, **ATTENTION, **RECURRENT, **SELECTIONS}
)
"""By operator: the names of its arguments, and the rule for its temporaries on the CPU (None: not known for these operands)."""


def temporaries(function: ir.Function, sizes: Sizes) -> dict[int, int]:
    """Bytes that operators hold above their operands and results while they run, by the position of the op, where they are known
    and more than none. Results that nothing takes are among them.

    Raises ExpressionError where a size has no value under the hints.
    """
    return {position: found for position, found in _found(function, sizes) if found}


def unknown_temporaries(function: ir.Function, sizes: Sizes) -> Counter[str]:
    """Calls of operators whose temporaries are not known, by operator; they count as none."""
    return Counter(
        op.target
        for position, found in _found(function, sizes)
        if found is None and isinstance(op := function.body[position], ir.CallExtern)
    )


def _found(function: ir.Function, sizes: Sizes) -> Iterator[tuple[int, int | None]]:
    taken = _taken(function)
    for position, op in enumerate(function.body):
        if isinstance(op, ir.CallExtern):
            yield position, _bytes(op, sizes, taken.get(op.result, frozenset()) if op.result else frozenset())


def _taken(function: ir.Function) -> dict[ir.Value, set[int | str]]:
    """The indices under which elements of nested results are taken: all where the program uses the whole one."""
    found: dict[ir.Value, set[int | str]] = {}
    for op in function.body:
        for value in ir.operands(op):
            if isinstance(value.type, ir.TupleType) and not isinstance(op, ir.Free | ir.Drop):
                part = op.path[:1] if isinstance(op, ir.Unpack) else ()
                found.setdefault(value, set()).update(part or range(_MOST_RESULTS))
    return found


def _bytes(op: ir.CallExtern, sizes: Sizes, taken: Set[int | str]) -> int | None:
    if op.target in NOTHING:
        return 0 if _has_no_copies(op) else None
    name = op.target.removesuffix(".out")
    rule = OPERATOR_TEMPORARIES.get(op.target) or OPERATOR_TEMPORARIES.get(name)
    if rule is None:
        return None
    names, bytes = rule
    try:
        return bytes(OperatorCall(op, sizes, taken, names))
    except (IndexError, ValueError):
        return None  # operands that the operator refuses


def _has_no_copies(op: ir.CallExtern) -> bool:
    """Whether all tensors are on the CPU, and operands of one element type."""
    given = [v.type for v in ir.operands(op) if isinstance(v.type, ir.TensorType)]
    made = [op.result.type] if op.result is not None and isinstance(op.result.type, ir.TensorType) else []
    same = op.target in CONVERTING or len({t.dtype for t in given}) <= 1
    return same and all(t.device == ir.CPU for t in (*given, *made))
