"""Formats the findings of hunts and comparisons as lines."""

from __future__ import annotations

from collections.abc import Iterator

from wrapper_ir_tools.debugger.compare import Comparison
from wrapper_ir_tools.debugger.hunt import Bad
from wrapper_ir_tools.debugger.places import place_lines


def bad_lines(bad: Bad) -> Iterator[str]:
    """Yields the first bad values, the op, and its operands."""
    if bad.function is None:
        yield "an input or a constant is bad:"
    else:
        yield f"op {bad.position} of @{bad.function.name} is the first with a bad output ({bad.runs} runs):"
    yield from (f"  {text}" for text in bad.texts)
    if bad.function is None:
        return
    yield from place_lines(bad.function, bad.position)
    if bad.operands:
        yield "it was given:"
        yield from (f"  {text}" for text in bad.operands)


def comparison_lines(comparison: Comparison) -> Iterator[str]:
    """Yields the first difference, or the number of equal values."""
    mismatch = comparison.mismatch
    if mismatch is not None:
        first, second = mismatch.first, mismatch.second
        assert first.function is not None
        yield (
            f"op {first.position} of @{first.function.name} is the first that differs, after "
            f"{comparison.matched - 1} equal values"
        )
        yield f"{first.name}: {mismatch.difference.text}"
        yield f"  first:  {first.content.short()}"
        yield f"  second: {second.content.short()}" + (
            f" (node {second.name})" if second.function is None else ""
        )
        yield from place_lines(first.function, first.position)
        for sample in mismatch.missing:
            yield f"only the first computed {sample.name}, by op {sample.position}"
        if second.function is not None and second.op_text != first.op_text:
            yield f"in the second program, op {second.position} of @{second.function.name}:"
            yield from place_lines(second.function, second.position)
    elif comparison.failure is None:
        only = [
            f"{n} only in the {which} run" for n, which in zip(comparison.unmatched, ("first", "second")) if n
        ]
        yield f"no difference: {comparison.matched} values agree" + (f" ({', '.join(only)})" if only else "")
    if comparison.failure is not None:
        number = "first" if comparison.failed == 1 else "second"
        yield f"the {number} run failed after {comparison.matched} equal values: {comparison.failure}"
