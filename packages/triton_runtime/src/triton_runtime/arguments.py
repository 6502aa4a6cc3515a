"""What the arguments of a launch have to be, checked without importing the tensors' library."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from triton_runtime.errors import LaunchError
from wrapper_ir import ir

_RANGES = {
    **{ir.DType(f"i{bits}"): (-(1 << (bits - 1)), (1 << (bits - 1)) - 1) for bits in (8, 16, 32, 64)},
    **{ir.DType(f"u{bits}"): (0, (1 << bits) - 1) for bits in (8, 16, 32, 64)},
    ir.DType.BOOL: (0, 1),
}


@dataclass(frozen=True, slots=True, kw_only=True)
class ArgumentChecks:
    """A kernel's parameters as a launch has to give them; `device` is the type of device that tensors are on."""

    kernel: ir.TritonKernel
    device: str
    dtypes: tuple[str, ...]

    @classmethod
    def of(cls, kernel: ir.TritonKernel, device: str) -> ArgumentChecks:
        """The checks of a kernel that runs on such a device."""
        return cls(
            kernel=kernel, device=device, dtypes=tuple(f"torch.{p.dtype.torch_name}" for p in kernel.params)
        )

    def check(self, args: tuple[object, ...]) -> None:
        """Raises LaunchError: TR301 for their number, TR302 for tensors, TR303 for numbers."""
        kernel = self.kernel
        wanted = len(kernel.params) + len(kernel.grid_params)
        if len(args) != wanted:
            raise LaunchError("TR301", f"kernel '{kernel.name}' takes {wanted} arguments, not {len(args)}")
        for param, dtype, given in zip(kernel.params, self.dtypes, args):
            if param.kind.takes_tensor:
                self._tensor(param, dtype, given)
            else:
                self._number(param.name, param.dtype, given)
        for name, given in zip(kernel.grid_params, args[len(kernel.params) :]):
            self._number(name, ir.DType.I64, given)

    def _tensor(self, param: ir.KernelParam, dtype: str, given: Any) -> None:  # Any: any library's tensor
        if not hasattr(given, "data_ptr"):
            raise self._tensor_error(param, f"is a {type(given).__name__}, not a tensor")
        if str(given.dtype) != dtype:
            raise self._tensor_error(param, f"is of {given.dtype}, not {dtype}")
        if given.device.type != self.device:
            raise self._tensor_error(param, f"is on {given.device}, not on {self.device}")
        if param.divisible > 1 and given.data_ptr() % param.divisible and param.kind is ir.ParamKind.POINTER:
            raise self._tensor_error(param, f"is at an address that is not a multiple of {param.divisible}")
        if param.kind is ir.ParamKind.DESCRIPTOR and (
            given.dim() != len(param.block) or given.stride(-1) != 1
        ):
            raise self._tensor_error(
                param,
                f"has sizes {tuple(given.shape)} and strides {given.stride()}, which blocks cannot be copied of",
            )

    def _tensor_error(self, param: ir.KernelParam, what: str) -> LaunchError:
        return LaunchError("TR302", f"kernel '{self.kernel.name}': argument '{param.name}' {what}")

    def _number(self, name: str, dtype: ir.DType, given: object) -> None:
        if dtype in _RANGES:
            low, high = _RANGES[dtype]
            if isinstance(given, int) and low <= given <= high:
                return
        elif isinstance(given, int | float):
            return
        raise LaunchError(
            "TR303", f"kernel '{self.kernel.name}': argument '{name}' is {given!r}, not of {dtype.value}"
        )
