"""Creates assertions for the alignment that kernels rely on and the analysis cannot prove."""

from __future__ import annotations

from collections.abc import Iterator

from wrapper_ir import ir
from wrapper_ir.analysis.alignment import Pointer, analyse_alignment, moves_storage
from wrapper_ir.analysis.memo import Analyses
from wrapper_ir.verifier.facts import sizes_of


def alignment_checks(function: ir.Function, analyses: Analyses) -> Iterator[tuple[int, ir.AssertLayout]]:
    """Assertions, each with the position of the op to insert it before.

    A tensor is checked after its definition, once for all of its views whose offsets are multiples of the
    alignment. If tensors may move, it is checked before each launch instead.
    """
    pointers = analyses.get(analyse_alignment).of(function)
    divisors: dict[tuple[int, ir.Value[ir.TensorType]], int] = {}
    definitions = _definitions(function) if pointers else {}
    moves = bool(pointers) and moves_storage(function, analyses)
    for position, of_launch in pointers.items():
        for pointer in of_launch:
            divisor = pointer.param.divisible
            if pointer.known.modulus % divisor:
                # if tensors move, only the argument itself is certainly valid before the launch
                value = pointer.value if moves else _checked(pointer)
                place = position if moves else definitions.get(value, 0)
                divisors[place, value] = max(divisor, divisors.get((place, value), 1))
    for (position, value), divisor in divisors.items():
        yield position, _check(value, divisor, function, position)


def _definitions(function: ir.Function) -> dict[ir.Value, int]:
    """The position after the op that defines each value."""
    return {value: position + 1 for position, op in enumerate(function.body) for value in ir.results(op)}


def _checked(pointer: Pointer) -> ir.Value[ir.TensorType]:
    """The base of the pointer if it is aligned exactly when the pointer is, else the pointer's tensor. A view
    that may be empty is checked itself."""
    modulus, rest = ir.remainder(pointer.offset)
    divisor = pointer.param.divisible
    together = not modulus % divisor and not rest % divisor and not sizes_of(pointer.value)
    return pointer.base if together and ir.is_tensor(pointer.base) else pointer.value


def _check(
    value: ir.Value[ir.TensorType], alignment: int, function: ir.Function, position: int
) -> ir.AssertLayout:
    prov = function.body[min(position, len(function.body) - 1)].prov
    return ir.AssertLayout(
        tensors=(value,),
        sizes=((),),
        strides=((),),
        alignment=alignment,
        message="read or written by a kernel",
        prov=prov,
    )
