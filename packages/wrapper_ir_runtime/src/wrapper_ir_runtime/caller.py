"""What a calling convention does with the caller's own torch tensors.

torch is handed in, so that this package needs none.
"""

from __future__ import annotations

from collections.abc import Hashable, Iterable
from typing import Any

from wrapper_ir import ir
from wrapper_ir.analysis.input_facts import TensorFacts
from wrapper_ir.analysis.overlap import Geometry
from wrapper_ir.plugins.protocols import Containers
from wrapper_ir_runtime.trees import PytreeContainers

_DTYPE_NAMES = {dtype.torch_name: dtype.value for dtype in ir.DType}


class TorchCaller:
    """See `wrapper_ir.plugins.protocols.CallerTensors`; `torch` is the module of that name."""

    def __init__(self, torch: Any) -> None:  # Any: a module that this package does not know
        self._torch = torch
        self.containers: Containers = PytreeContainers(torch.utils._pytree)

    # Any in this class: torch's tensors, dtypes and so on.

    def is_tensor(self, x: object) -> bool:
        """See `CallerTensors`."""
        return isinstance(x, self._torch.Tensor)

    def facts(self, tensor: Any) -> TensorFacts:
        """See `CallerTensors`."""
        special, hint = self._special(tensor)
        own = str(tensor.dtype).removeprefix("torch.")
        dtype, device = _DTYPE_NAMES.get(own, own), str(tensor.device)
        if tensor.is_nested:  # which has no sizes that one could ask for
            return TensorFacts(dtype=dtype, device=device, special=special, hint=hint, layout="nested")
        sizes = tuple(tensor.size())
        is_strided = tensor.layout is self._torch.strided
        has_room = is_strided and self._has_memory(tensor)
        start = tensor.storage_offset() * tensor.element_size() if has_room else 0
        return TensorFacts(
            dtype=dtype,
            device=device,
            sizes=sizes,
            strides=tuple(tensor.stride()) if is_strided else (),
            special=special,
            hint=hint,
            layout=str(tensor.layout).removeprefix("torch."),
            room=tensor.untyped_storage().nbytes() - start if has_room else None,
            start=start,
        )

    def _has_memory(self, tensor: Any) -> bool:
        """Whether a tensor has a storage of its own: not where its class does all of the work."""
        plain = self._torch.Tensor.__torch_dispatch__
        return type(tensor).__torch_dispatch__ is plain and self._torch._C._has_storage(tensor)

    def _special(self, tensor: Any) -> tuple[str, str]:
        """The kind of a tensor that is not plain strided memory, and how to make it plain."""
        plain, kind = self._torch.Tensor, type(tensor)
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

    def _uses_usual_function(self, kind: Any) -> bool:
        """Whether a subclass leaves torch's functions as they are."""
        function = getattr(kind.__torch_function__, "__func__", kind.__torch_function__)
        plain = getattr(self._torch.Tensor.__torch_function__, "__func__", None)
        return function in (plain, self._torch._C._disabled_torch_function_impl)

    def native(self, arg: ir.Arg) -> Any:
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

    def needs_gradient(self, tensors: Iterable[Any]) -> bool:
        """See `CallerTensors`."""
        return self._torch.is_grad_enabled() and any(self.is_tensor(t) and t.requires_grad for t in tensors)

    def storage(self, tensor: Any) -> Hashable:
        """See `CallerTensors`."""
        address: int = tensor.untyped_storage()._cdata
        return address

    def geometry(self, tensor: Any) -> Geometry:
        """See `CallerTensors`."""
        return Geometry(
            storage=self.storage(tensor),
            sizes=tuple(tensor.size()),
            strides=tuple(tensor.stride()),
            offset=tensor.storage_offset(),
            itemsize=tensor.element_size(),
        )

    def window(self, tensor: Any, offset: int, count: int) -> Any:
        """See `CallerTensors`."""
        with self._torch.no_grad():
            return tensor.as_strided((count,), (1,), offset)

    def mark_written(self, tensor: Any) -> None:
        """See `CallerTensors`."""
        self._torch.autograd.graph.increment_version(tensor)

    def copy(self, tensor: Any, result: Any) -> None:
        """See `CallerTensors`."""
        with self._torch.no_grad():
            tensor.copy_(result)

    def reshape(self, tensor: Any, result: Any) -> None:
        """See `CallerTensors`."""
        with self._torch.no_grad():
            tensor.as_strided_(result.size(), result.stride(), result.storage_offset())

    def replace(self, tensor: Any, result: Any) -> None:
        """See `CallerTensors`."""
        with self._torch.no_grad():
            tensor.set_(result)

    def view_of(self, base: Any, result: Any) -> Any:
        """See `CallerTensors`. A base that wants a gradient is here only while none are recorded."""
        seen = self._as_dtype(base, result)
        if seen is None or self.storage(seen) != self.storage(result):
            return result
        return seen.as_strided(result.size(), result.stride(), result.storage_offset())

    def _as_dtype(self, base: Any, result: Any) -> Any:
        """A view of `base` with the dtype of `result`; None where torch has none for every layout."""
        if (base.is_conj(), base.is_neg()) != (result.is_conj(), result.is_neg()):
            return None
        if base.dtype == result.dtype:
            return base
        if base.is_complex() and base.real.dtype == result.dtype:
            return self._torch.view_as_real(base)
        return base.view(result.dtype) if base.element_size() == result.element_size() else None
