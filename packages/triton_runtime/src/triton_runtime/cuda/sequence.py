"""Several launches in one call, so that a generated program enters native code once for many kernels."""

from __future__ import annotations

import array
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from triton_runtime.cuda.driver import CudaDriver
from wrapper_ir.plugins.protocols import LoadedKernel


@dataclass(frozen=True, slots=True)
class Step:
    """One launch: the kernel (of a `CudaDriver`) and the indices of its arguments.

    Indices refer to the values of a call, followed by the constants.
    """

    kernel: LoadedKernel
    indices: tuple[int, ...]


def make_sequence(
    driver: CudaDriver, steps: Sequence[Step], values: int, constants: tuple[int | float, ...] = ()
) -> Callable[..., None]:
    """Returns a function of `values` arguments that performs the launches in order.

    They run on one stream: the current one of each kernel's device, or the keyword `stream`. All arguments
    are read before the first launch, each tensor once; if one does not fit, nothing is launched. A driver
    error stops the sequence; earlier launches have been made. Raises ValueError if indices do not fit the
    kernels' arguments, TypeError for another driver's kernel.
    """
    indices = array.array("i", (i for step in steps for i in step.indices)).tobytes()
    kernels = tuple(step.kernel for step in steps)
    return driver.extension.sequence(kernels, values, constants, indices)
