"""Records kernels that reduce in two orders: along rows, and partially along columns.

The kernel stores one row of partial results for each of its blocks in scratch memory. Inductor sums these
rows in a line of text. Its content is known from the kernel, and recorded as `FinishReduction`.
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

# Any in this file: Inductor's kernels, whose members differ between versions of torch.


def partials_of(kernel: Any) -> list[FinishReduction]:
    """Returns the partial results in a kernel's scratch memory, in the order in which Inductor reduces
    them."""
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
def recording_partials() -> Iterator[None]:
    """Passes the partial results of each called kernel to the wrapper, while the context is active."""
    plain = KERNEL_CALLS.own()

    def call_kernel(kernel: Any, *args: Any, **kwargs: object) -> None:
        plain(kernel, *args, **kwargs)
        wrapper = V.graph.wrapper_code
        if isinstance(wrapper, RecordingWrapper) and getattr(kernel, "saved_partial_accumulate", None):
            expect_partials(wrapper, partials_of(kernel))

    with replaced(KERNEL_CALLS.by(call_kernel=call_kernel)):
        yield
