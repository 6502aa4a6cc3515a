"""Reductions of two orders in one kernel: along rows, and along columns in part.

The kernel leaves one row of partial results for each of its blocks in scratch memory. Inductor adds those up in a line of
text; what it says is known from the kernel, and recorded as `FinishReduction`.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from torch._inductor.virtualized import V
from torch.utils._sympy.functions import FloorDiv

from inductor_frontend.record.events import FinishReduction
from inductor_frontend.record.wrapper import RecordingWrapper, expect_partials
from inductor_frontend.torch_patches.replaced import replaced
from inductor_frontend.torch_patches.table import KERNEL_CALLS

# Any in this file: Inductor's kernels, whose members differ between versions.


def partials_of(kernel: Any) -> list[FinishReduction]:
    """What a kernel leaves in its scratch memory, in the order in which Inductor finishes it."""
    [workspace] = kernel.args.workspace_args
    rows = kernel.numels["x"] + kernel.rsplit_size - 1
    return [
        FinishReduction(
            name=partial.buffer_name,
            workspace=workspace.outer_name,
            part=number,
            splits=FloorDiv(rows, kernel.rsplit_size),
            width=kernel.numels["r0_"],
            reduction=partial.reduction_type,
        )
        for number, partial in enumerate(kernel.saved_partial_accumulate)
    ]


@contextmanager
def told_partials() -> Iterator[None]:
    """While the context is active, kernels that leave partial results tell the wrapper so once they are called."""
    plain = KERNEL_CALLS.own()

    def call_kernel(kernel: Any, *args: Any, **kwargs: Any) -> None:
        plain(kernel, *args, **kwargs)
        wrapper = V.graph.wrapper_code
        if isinstance(wrapper, RecordingWrapper) and getattr(kernel, "saved_partial_accumulate", None):
            expect_partials(wrapper, partials_of(kernel))

    with replaced(KERNEL_CALLS.by(call_kernel=call_kernel)):
        yield
