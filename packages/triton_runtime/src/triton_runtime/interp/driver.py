"""The driver that runs kernels on CPU tensors with Triton's interpreter, program by program."""

from __future__ import annotations

import traceback
from dataclasses import dataclass, field
from pathlib import Path
from types import FunctionType

import numpy as np

from triton_runtime.arguments import ArgumentChecks, is_tensor
from triton_runtime.binding import TRITON_TYPES, Binding, BoundArgument, native_constant
from triton_runtime.errors import KernelError, KernelIndexError, LaunchError
from triton_runtime.grids import Grid
from triton_runtime.interp.rewrite import Rewriter
from triton_runtime.interp.world import interpreting
from triton_runtime.protocols import Launchable
from triton_runtime.source import load_checked
from wrapper_ir import ir
from wrapper_ir.plugins.protocols import LoadedKernel


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
        function = load_checked(kernel.name, kernel.source, kernel.entry, self.folder, kernel.order)
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
    function: FunctionType
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

    def _named(self, args: tuple[object, ...]) -> dict[str, object]:
        """The function's arguments by name."""
        arguments: dict[str, object] = {
            name: native_constant(value) for name, value in self.binding.constants
        }
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


def _value(argument: BoundArgument, arg: object) -> object:
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
    # the checks refuse other objects
    assert is_tensor(arg)
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
