"""Operations of a calling convention on the caller's torch tensors. The caller passes the module `torch`."""

from __future__ import annotations

from collections.abc import Hashable, Iterable
from typing import Any, TypeVar

from wrapper_ir import ir
from wrapper_ir.analysis.input_facts import TensorFacts
from wrapper_ir.analysis.overlap import Geometry
from wrapper_ir.plugins.protocols import Containers
from wrapper_ir_runtime.torch_types import TorchModule, TorchTensor
from wrapper_ir_runtime.trees import PytreeContainers

T = TypeVar("T", bound=TorchTensor)
_DTYPE_NAMES = {dtype.torch_name: dtype.value for dtype in ir.DType}


class TorchCaller:
    """See `wrapper_ir.plugins.protocols.CallerTensors`; `torch` is the module of that name."""

    def __init__(self, torch: TorchModule) -> None:
        self._torch = torch
        self.containers: Containers = PytreeContainers(torch.utils._pytree)

    def is_tensor(self, x: object) -> bool:
        """See `CallerTensors`."""
        return isinstance(x, self._torch.Tensor)

    def facts(self, tensor: TorchTensor) -> TensorFacts:
        """See `CallerTensors`."""
        special, hint = self._special(tensor)
        own = str(tensor.dtype).removeprefix("torch.")
        dtype, device = _DTYPE_NAMES.get(own, own), str(tensor.device)
        if tensor.is_nested:  # its sizes cannot be queried
            return TensorFacts(dtype=dtype, device=device, special=special, hint=hint, layout="nested")
        sizes = tuple(tensor.size())
        is_strided = tensor.layout is self._torch.strided
        has_storage = is_strided and self._has_memory(tensor)
        start = tensor.storage_offset() * tensor.element_size() if has_storage else 0
        return TensorFacts(
            dtype=dtype,
            device=device,
            sizes=sizes,
            strides=tuple(tensor.stride()) if is_strided else (),
            special=special,
            hint=hint,
            layout=str(tensor.layout).removeprefix("torch."),
            room=tensor.untyped_storage().nbytes() - start if has_storage else None,
            start=start,
        )

    def _has_memory(self, tensor: TorchTensor) -> bool:
        """Returns whether a tensor has a storage. Tensors of classes that implement `__torch_dispatch__` do
        not."""
        plain = self._torch.Tensor.__torch_dispatch__
        kind: type[Any] = type(tensor)
        return kind.__torch_dispatch__ is plain and self._torch._C._has_storage(tensor)

    def _special(self, tensor: TorchTensor) -> tuple[str, str]:
        """Returns the kind of a tensor that is not in plain strided memory, and a hint on how to convert
        it."""
        plain: type[Any] = self._torch.Tensor  # Any: torch's class and its subclasses
        kind: type[Any] = type(tensor)
        if isinstance(tensor, self._torch._subclasses.FakeTensor):
            return f"{kind.__name__}", "pass a tensor that has memory"
        if kind.__torch_dispatch__ is not plain.__torch_dispatch__:
            return f"{kind.__name__}", "pass the tensor that it wraps, or capture with one of its class"
        if kind is not plain and not self._uses_usual_function(kind):
            return f"{kind.__name__}", "pass x.as_subclass(torch.Tensor)"
        if tensor.is_nested:
            return "nested", "pass its parts, or a padded tensor"
        if tensor.layout is not self._torch.strided:
            return str(tensor.layout).removeprefix("torch."), "pass x.to_dense()"
        if tensor.is_quantized:
            return "quantized", "pass x.dequantize() or x.int_repr()"
        if tensor.is_conj():
            return "conjugated", "pass x.resolve_conj()"
        if tensor.is_neg():
            return "negated", "pass x.resolve_neg()"
        return "", ""

    def _uses_usual_function(self, kind: type[Any]) -> bool:
        """Returns whether a subclass does not override torch functions."""
        function = getattr(kind.__torch_function__, "__func__", kind.__torch_function__)
        plain = getattr(self._torch.Tensor.__torch_function__, "__func__", None)
        return function in (plain, self._torch._C._disabled_torch_function_impl)

    def native(self, arg: ir.Arg) -> object:
        """See `CallerTensors`."""
        match arg:
            case ir.DType():
                return getattr(self._torch, arg.torch_name)  # by torch's own naming
            case ir.Device():
                return self._torch.device(str(arg))
            case ir.MemoryFormat() | ir.Layout():
                return getattr(self._torch, arg.value)  # by torch's own naming
            case _:
                raise ValueError(f"torch has no object for {arg!r}")

    def needs_gradient(self, leaves: Iterable[Any]) -> bool:
        """See `CallerTensors`."""
        return self._torch.is_grad_enabled() and any(self.is_tensor(t) and t.requires_grad for t in leaves)

    def storage(self, tensor: TorchTensor) -> Hashable:
        """See `CallerTensors`."""
        address: int = tensor.untyped_storage()._cdata
        return address

    def geometry(self, tensor: TorchTensor) -> Geometry:
        """See `CallerTensors`."""
        return Geometry(
            storage=self.storage(tensor),
            sizes=tuple(tensor.size()),
            strides=tuple(tensor.stride()),
            offset=tensor.storage_offset(),
            itemsize=tensor.element_size(),
        )

    def window(self, tensor: T, offset: int, count: int) -> T:
        """See `CallerTensors`."""
        with self._torch.no_grad():
            return tensor.as_strided((count,), (1,), offset)

    def mark_written(self, tensor: TorchTensor) -> None:
        """See `CallerTensors`."""
        self._torch.autograd.graph.increment_version(tensor)

    def copy(self, tensor: T, result: T) -> None:
        """See `CallerTensors`."""
        with self._torch.no_grad():
            tensor.copy_(result)

    def reshape(self, tensor: T, result: T) -> None:
        """See `CallerTensors`."""
        with self._torch.no_grad():
            tensor.as_strided_(result.size(), result.stride(), result.storage_offset())

    def replace(self, tensor: T, result: T) -> None:
        """See `CallerTensors`."""
        with self._torch.no_grad():
            tensor.set_(result)

    def view_of(self, base: T, result: T) -> T:
        """See `CallerTensors`. A base requires a gradient only if autograd does not record."""
        view = self._as_dtype(base, result)
        if view is None or self.storage(view) != self.storage(result):
            return result
        return view.as_strided(result.size(), result.stride(), result.storage_offset())

    def _as_dtype(self, base: T, result: T) -> T | None:
        """Returns a view of `base` with the dtype of `result`, or None if torch cannot view every layout
        so."""
        if (base.is_conj(), base.is_neg()) != (result.is_conj(), result.is_neg()):
            return None
        if base.dtype == result.dtype:
            return base
        if base.is_complex() and base.real.dtype == result.dtype:
            real: T = self._torch.view_as_real(base)
            return real
        return base.view(result.dtype) if base.element_size() == result.element_size() else None
