"""Checks the arguments of a launch without importing the tensors' library."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Protocol, TypeGuard

from triton_runtime.errors import LaunchError
from wrapper_ir import ir

_RANGES = {
    **{ir.DType(f"i{bits}"): (-(1 << (bits - 1)), (1 << (bits - 1)) - 1) for bits in (8, 16, 32, 64)},
    **{ir.DType(f"u{bits}"): (0, (1 << bits) - 1) for bits in (8, 16, 32, 64)},
    ir.DType.BOOL: (0, 1),
}


class DeviceLike(Protocol):
    """The device of a tensor."""

    @property
    def type(self) -> str:
        """The device type, such as `cuda`."""


class TensorLike(Protocol):
    """Attributes of torch's tensors that launches read."""

    @property
    def dtype(self) -> object:
        """The element type; its text is `torch.float32`."""

    @property
    def device(self) -> DeviceLike:
        """The device of the memory."""

    @property
    def shape(self) -> Sequence[int]:
        """Sizes in elements."""

    def stride(self) -> Sequence[int]:
        """Strides in elements."""

    def dim(self) -> int:
        """The number of dimensions."""

    def data_ptr(self) -> int:
        """The address of the first element."""


def is_tensor(arg: object) -> TypeGuard[TensorLike]:
    """True for tensors of any library."""
    return hasattr(arg, "data_ptr")


@dataclass(frozen=True, slots=True, kw_only=True)
class ArgumentChecks:
    """A kernel's parameters as requirements for a launch; `device` is the device type of tensors."""

    kernel: ir.TritonKernel
    device: str
    dtypes: tuple[str, ...]

    @classmethod
    def of(cls, kernel: ir.TritonKernel, device: str) -> ArgumentChecks:
        """The checks of a kernel that runs on this type of device."""
        return cls(
            kernel=kernel, device=device, dtypes=tuple(f"torch.{p.dtype.torch_name}" for p in kernel.params)
        )

    def check(self, args: tuple[object, ...]) -> None:
        """Raises LaunchError: TR301 for the number of arguments, TR302 for tensors, TR303 for numbers."""
        kernel = self.kernel
        expected_count = len(kernel.params) + len(kernel.grid_params)
        if len(args) != expected_count:
            raise LaunchError(
                "TR301", f"kernel '{kernel.name}' takes {expected_count} arguments, not {len(args)}"
            )
        for param, dtype, arg in zip(kernel.params, self.dtypes, args):
            if param.kind.takes_tensor:
                self._tensor(param, dtype, arg)
            else:
                self._number(param.name, param.dtype, arg)
        for name, arg in zip(kernel.grid_params, args[len(kernel.params) :]):
            self._number(name, ir.DType.I64, arg)

    def _tensor(self, param: ir.KernelParam, dtype: str, arg: object) -> None:
        if not is_tensor(arg):
            raise self._tensor_error(param, f"is a {type(arg).__name__}, not a tensor")
        if str(arg.dtype) != dtype:
            raise self._tensor_error(param, f"is of {arg.dtype}, not {dtype}")
        if arg.device.type != self.device:
            raise self._tensor_error(param, f"is on {arg.device}, not on {self.device}")
        if param.divisible > 1 and arg.data_ptr() % param.divisible and param.kind is ir.ParamKind.POINTER:
            raise self._tensor_error(param, f"is at an address that is not a multiple of {param.divisible}")
        if param.kind is ir.ParamKind.DESCRIPTOR and (arg.dim() != len(param.block) or arg.stride()[-1] != 1):
            layout = f"sizes {tuple(arg.shape)} and strides {arg.stride()}"
            raise self._tensor_error(param, f"has {layout}, from which blocks cannot be copied")

    def _tensor_error(self, param: ir.KernelParam, what: str) -> LaunchError:
        return LaunchError("TR302", f"kernel '{self.kernel.name}': argument '{param.name}' {what}")

    def _number(self, name: str, dtype: ir.DType, arg: object) -> None:
        if dtype in _RANGES:
            low, high = _RANGES[dtype]
            if isinstance(arg, int) and low <= arg <= high:
                return
        elif isinstance(arg, int | float):
            return
        raise LaunchError(
            "TR303", f"kernel '{self.kernel.name}': argument '{name}' is {arg!r}, not of {dtype.value}"
        )
