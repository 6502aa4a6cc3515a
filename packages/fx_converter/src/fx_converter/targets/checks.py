"""Run-time checks; failures are the coded errors of every emitter."""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch import Tensor
from torch._subclasses.fake_tensor import FakeTensor

from fx_converter._compat import LAYOUT_CHECK, has_effect
from wrapper_ir.runtime import fail_assertion, fail_finite, fail_group, fail_layout
from wrapper_ir_torch import find_group

__all__ = ["assert_alignment", "assert_expr", "assert_finite", "assert_layout", "check_groups"]


@has_effect
def assert_layout(
    x: Tensor,
    sizes: Sequence[int],
    strides: Sequence[int],
    alignment: int = 0,
    message: str = "",
) -> None:
    """Raises ExecutionError WIR921 unless `x` has these sizes and strides (in elements; those of size-1 dims are free),
    and an address that is a multiple of `alignment` bytes where that is not 0."""
    if isinstance(x, FakeTensor):
        return
    sizes, strides = tuple(sizes), tuple(strides)
    problem = ""
    if x.shape != sizes:  # asked here, since torch's check passes whatever is empty
        problem = f"expected sizes {list(sizes)}, got {list(x.shape)}"
    else:
        try:
            LAYOUT_CHECK(x, sizes, strides)
        except AssertionError:
            problem = f"expected strides {list(strides)} for sizes {list(sizes)}, got {list(x.stride())}"
        if alignment and x.data_ptr() % alignment:
            problem = problem or f"the address is not a multiple of {alignment} bytes"
    if problem:
        fail_layout(f"{problem} ({message})" if message else problem)


@has_effect
def assert_alignment(x: Tensor, alignment: int, message: str = "") -> None:
    """Raises ExecutionError WIR921 unless the address of `x` is a multiple of `alignment` bytes."""
    if not isinstance(x, FakeTensor) and x.data_ptr() % alignment:
        problem = f"the address is not a multiple of {alignment} bytes"
        fail_layout(f"{problem} ({message})" if message else problem)


@has_effect
def assert_expr(condition: bool | torch.SymBool, message: str, text: str) -> None:
    """Raises ExecutionError WIR920 unless the condition, which reads `text`, holds."""
    if isinstance(condition, torch.SymBool):  # traced again: a check of the new graph
        torch._check(condition, lambda: f"{message}: {text}")  # type: ignore[no-untyped-call]  # torch leaves it so
    elif not condition:
        fail_assertion(message, text)


@has_effect
def assert_finite(x: Tensor, name: str, message: str) -> None:
    """Raises ExecutionError WIR922 where a floating-point tensor holds a NaN or an infinity."""
    if isinstance(x, FakeTensor) or not (x.is_floating_point() or x.is_complex()):
        return
    if not torch.isfinite(x).all():
        fail_finite(name, message)


@has_effect
def check_groups(names: Sequence[str]) -> None:
    """Raises NotSupportedError WIR915 unless this process belongs to the process groups of these names."""
    for name in names:
        try:
            find_group(name)
        except (RuntimeError, TypeError) as error:  # a name with lone surrogates is not a string there
            fail_group(name, str(error))
