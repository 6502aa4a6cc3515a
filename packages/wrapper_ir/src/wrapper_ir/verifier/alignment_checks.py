"""Checks of addresses that kernels take to be multiples of something, where nothing tells that they are."""

from __future__ import annotations

from collections.abc import Iterator

from wrapper_ir import ir
from wrapper_ir.analysis.alignment import Pointer, analyse_alignment, moves_storage
from wrapper_ir.analysis.memo import Analyses
from wrapper_ir.verifier.facts import sizes_of


def alignment_checks(function: ir.Function, analyses: Analyses) -> Iterator[tuple[int, ir.AssertLayout]]:
    """Assertions, each with the position of the op that it is put before: where the tensor is made, once for all of its
    views that are as far from it as the kernels need; where tensors may move, before each launch."""
    pointers = analyses.get(analyse_alignment).of(function)
    wanted: dict[tuple[int, ir.Value], int] = {}
    made = _made(function) if pointers else {}
    moves = bool(pointers) and moves_storage(function, analyses)
    for position, found in pointers.items():
        for pointer in found:
            divisor = pointer.param.divisible
            if pointer.known.modulus % divisor:
                # before a launch only what it is given is surely still there
                value = pointer.value if moves else _checked(pointer)
                place = position if moves else made.get(value, 0)
                wanted[place, value] = max(divisor, wanted.get((place, value), 1))
    for (position, value), divisor in wanted.items():
        if ir.is_tensor(value):
            yield position, _check(value, divisor, function, position)


def _made(function: ir.Function) -> dict[ir.Value, int]:
    """The position after the op that makes a value."""
    return {value: position + 1 for position, op in enumerate(function.body) for value in ir.results(op)}


def _checked(pointer: Pointer) -> ir.Value:
    """The tensor that the pointer is a view of, where that is aligned exactly if it is; one that may be empty is itself."""
    modulus, rest = ir.remainder(pointer.offset)
    divisor = pointer.param.divisible
    together = not modulus % divisor and not rest % divisor and not sizes_of(pointer.value)
    return pointer.base if together and ir.is_tensor(pointer.base) else pointer.value


def _check(value: ir.Value, alignment: int, function: ir.Function, position: int) -> ir.AssertLayout:
    assert ir.is_tensor(value)
    prov = function.body[min(position, len(function.body) - 1)].prov
    return ir.AssertLayout(
        tensors=(value,),
        sizes=((),),
        strides=((),),
        alignment=alignment,
        message="read or written by a kernel",
        prov=prov,
    )
