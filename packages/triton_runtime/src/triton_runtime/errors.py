"""Every exception that triton_runtime raises, each with a stable code.

A code never changes its meaning once released:

| code  | class        | meaning                                                                |
| ----- | ------------ | ---------------------------------------------------------------------- |
| TR101 | KernelError  | a kernel definition is of another kind, or two kernels share a name    |
| TR102 | KernelError  | the function's parameters do not fit the definition                    |
| TR103 | KernelError  | a parameter's type has no counterpart in Triton                        |
| TR104 | KernelError  | the source does not load as a Python module                            |
| TR105 | KernelError  | the source has no `@triton.jit` function of the entry's name           |
| TR106 | KernelError  | a grid names something that is not a whole number of the launch        |
| TR107 | KernelError  | a driver cannot load kernels for this device                           |
| TR109 | KernelError  | a compiled kernel takes other parameters than this version knows       |
| TR110 | KernelError  | a kernel to be loaded onto a device has no binary                      |
| TR111 | KernelError  | a kernel calls an operator that torch does not have                    |
| TR201 | CompileError | Triton's compiler refused a kernel                                     |
| TR202 | CompileError | the target is not one that kernels can be compiled for                 |
| TR203 | CompileError | a compiler process died twice over one kernel                          |
| TR204 | CompileError | compiling took longer than the time limit                              |
| TR301 | LaunchError  | wrong number of arguments                                              |
| TR302 | LaunchError  | a tensor has the wrong dtype, device or is not a tensor                |
| TR303 | LaunchError  | a number does not fit the parameter's type                             |
| TR304 | LaunchError  | the kernel failed in the interpreter                                   |
| TR305 | LaunchError  | no driver launches kernels on the target's device                      |
| TR306 | LaunchError  | an address or number is not a multiple of 16, which the code relies on |
| TR307 | LaunchError  | a grid is larger than devices allow, or negative                       |
| TR308 | LaunchError  | the CUDA driver refused a launch, or a kernel before it failed         |
| TR501 | DriverError  | there is no C++ compiler to build the launcher with                    |
| TR502 | DriverError  | the launcher cannot be built                                           |
| TR503 | DriverError  | the launcher cannot be loaded                                          |
| TR504 | DriverError  | there is no CUDA driver that can be used                               |
| TR505 | DriverError  | the CUDA driver refused to load a kernel                               |
| TR601 | TuningError  | a text is not tuning measurements                                      |
| TR602 | TuningError  | no candidate of a kernel can be compiled and run                       |
| TR603 | TuningError  | processes that tune together have different kernels                    |
| TR604 | TuningError  | a multi-kernel has no kernel of the requested index                    |
| TR605 | TuningError  | measurements are of several devices                                    |
| TR606 | (a warning)  | one launch of a program cannot be tuned                                |
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import TypeVar

T = TypeVar("T")


def without_errors(results: Iterable[T | Exception]) -> list[T]:
    """Returns the results, or raises the first error among them."""
    values: list[T] = []
    for one in results:
        if isinstance(one, Exception):
            raise one
        values.append(one)
    return values


class TritonRuntimeError(RuntimeError):
    """Base of all errors of this package: `code` is stable, `hint` names the next step.

    It is a RuntimeError, as are errors of Triton's own launches.
    """

    def __init__(self, code: str, message: str, hint: str = "") -> None:
        self.code = code
        self.message = message
        self.hint = hint
        super().__init__(f"[{code}] {message}" + (f"\n  hint: {hint}" if hint else ""))

    def __reduce__(self) -> tuple[type[TritonRuntimeError], tuple[str, str, str]]:
        # errors are pickled from compiler processes
        return type(self), (self.code, self.message, self.hint)


class KernelError(TritonRuntimeError):
    """A kernel definition cannot be loaded as it stands (TR1nn)."""


class CompileError(TritonRuntimeError):
    """A kernel could not be compiled for its target (TR2nn)."""


class LaunchError(TritonRuntimeError, TypeError):
    """A launch with arguments that do not fit the definition, or a kernel that failed (TR3nn)."""


class KernelIndexError(LaunchError, IndexError):
    """A kernel was given an index that is out of bounds (TR304)."""


class DriverError(TritonRuntimeError):
    """A device cannot be used, or does not take a kernel (TR5nn)."""


class TuningError(TritonRuntimeError):
    """No config or kernel can be chosen (TR6nn)."""
