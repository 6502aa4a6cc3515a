"""The driver that runs kernels on CPU tensors with Triton's interpreter, program by program."""

from __future__ import annotations

import traceback
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np

from triton_runtime.arguments import ArgumentChecks
from triton_runtime.binding import TRITON_TYPES, Binding, BoundArgument
from triton_runtime.errors import KernelError, KernelIndexError, LaunchError
from triton_runtime.grids import Grid
from triton_runtime.interp.rewrite import Rewriter
from triton_runtime.interp.world import interpreting
from triton_runtime.protocols import Launchable
from triton_runtime.source import check_parameters, load_function
from wrapper_ir import ir
from wrapper_ir.plugins.protocols import LoadedKernel

# Any: Triton's interpreter has no types, and a tensor is any object with an address


@dataclass(frozen=True, slots=True, kw_only=True)
class InterpreterDriver:
    """Runs kernels in this process on CPU tensors. `folder` stores source files."""

    folder: Path
    name: str = field(default="interpreter", init=False)
    needs_binary: bool = field(default=False, init=False)

    def load(self, launchable: Launchable, device: ir.Device) -> LoadedKernel:
        """Returns a callable kernel. Raises KernelError for sources that do not load, and for devices other
        than the CPU.

        The callable raises LaunchError: TR301 to TR303 for wrong arguments, TR304 if the kernel fails.
        """
        kernel = launchable.kernel
        if device.type != "cpu":
            raise KernelError(
                "TR107", f"kernel '{kernel.name}': Triton's interpreter has no memory on {device}"
            )
        function = load_function(kernel.name, kernel.source, kernel.entry, self.folder)
        check_parameters(kernel, function.arg_names)
        rewriter = Rewriter()
        return _Launcher(
            kernel=kernel,
            binding=launchable.binding,
            grid=launchable.grid,
            function=rewriter(function),
            rewriter=rewriter,
            checks=ArgumentChecks.of(kernel, "cpu"),
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class _Launcher:
    kernel: ir.TritonKernel
    binding: Binding
    grid: Grid
    function: Callable[..., Any]
    rewriter: Rewriter
    checks: ArgumentChecks

    def __call__(self, *args: object) -> None:
        from triton.runtime.interpreter import interpreter_builder as builder

        self.checks.check(args)
        x, y, z = self.grid(*args)
        if min(x, y, z) <= 0:
            return
        with interpreting(self.rewriter):
            arguments = self._named(args)
            builder.set_grid_dim(x, y, z)
            try:
                for k in range(z):
                    for j in range(y):
                        for i in range(x):
                            builder.set_grid_idx(i, j, k)
                            self.function(**arguments)
            # raised by the kernel's statements
            except Exception as error:
                raise self._failed(error) from error

    def _named(self, args: tuple[object, ...]) -> dict[str, Any]:
        """The function's arguments by name."""
        arguments: dict[str, Any] = {name: _constant(value) for name, value in self.binding.constants}
        for argument in self.binding.arguments:
            arguments[argument.name] = _value(argument, args[argument.position])
        return arguments

    def _failed(self, error: Exception) -> LaunchError:
        own = self.function.__code__.co_filename
        frames = [f for f in traceback.extract_tb(error.__traceback__) if f.filename == own]
        place = f", line {frames[-1].lineno}: {frames[-1].line}" if frames else ""
        kind = KernelIndexError if "index out of bounds" in str(error) else LaunchError
        return kind(
            "TR304",
            f"kernel '{self.kernel.name}' failed in the interpreter{place}\n  {type(error).__name__}: "
            f"{error}",
        )


def _constant(value: object) -> object:
    import triton.language as tl

    if isinstance(value, tuple):
        return tuple(map(_constant, value))
    return tl.str_to_ty(TRITON_TYPES[value], None) if isinstance(value, ir.DType) else value


def _value(argument: BoundArgument, arg: Any) -> Any:
    """Converts one argument to the interpreter's tensor: an address, a number of the definition's type, or a
    descriptor.
    """
    import triton.language as tl
    from triton.runtime import interpreter

    element = tl.str_to_ty(TRITON_TYPES[argument.dtype], None)
    if argument.kind is ir.ParamKind.SCALAR:
        if element == tl.bfloat16:
            single = interpreter.TensorHandle(np.array([arg], dtype=np.float32), tl.float32)
            return tl.tensor(interpreter.interpreter_builder.cast_impl(single, element), element)
        data = np.array([arg]).astype(interpreter._get_np_dtype(element))
        return tl.tensor(interpreter.TensorHandle(data, element), element)
    pointer = tl.pointer_type(element)
    address = np.array([arg.data_ptr()], dtype=np.uint64)
    base = tl.tensor(interpreter.TensorHandle(address, pointer), pointer)
    if argument.kind is ir.ParamKind.POINTER:
        return base
    whole = interpreter._implicit_cvt
    return interpreter.interpreter_semantic.make_tensor_descriptor(
        base=base,
        shape=[whole(int(size)) for size in arg.shape],
        strides=[*(whole(int(stride)) for stride in arg.stride()[:-1]), tl.constexpr(1)],
        block_shape=[tl.constexpr(size) for size in argument.block],
        padding_option="zero",
    )
