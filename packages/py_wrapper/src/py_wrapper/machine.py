"""Torch implementation of `Machine`, the tensor library of the reference interpreter."""

from __future__ import annotations

import ctypes
from collections.abc import Mapping, Sequence
from dataclasses import astuple
from typing import Any

import torch
from torch import Tensor

from wrapper_ir import ir
from wrapper_ir.artifact import TensorData
from wrapper_ir.artifact.group_ranks import GroupRanks
from wrapper_ir.errors import ExecutionError, NotSupportedError
from wrapper_ir.expr import Expr, evaluate
from wrapper_ir.plugins.protocols import CallerTensors, LoadedKernel
from wrapper_ir_lowering.storages import NO_GROUP_MEMORY, lacks_group_memory
from wrapper_ir_runtime import agree
from wrapper_ir_torch import (
    DTYPE_OF,
    DTYPES,
    LAYOUTS,
    MEMORY_FORMATS,
    REGISTERED_MEMORY,
    SYMMETRIC_MEMORY,
    TorchGroupStore,
    bytes_tensor,
    caller,
    program_groups,
    resolve,
    storage_key,
    torch_device,
)

_U8 = torch.uint8


def _extent(sizes: Sequence[int], strides: Sequence[int]) -> int:
    if 0 in sizes:
        return 0
    return 1 + sum((size - 1) * stride for size, stride in zip(sizes, strides, strict=True))


class TorchMachine:
    """Machine over `torch.Tensor`; storages are one-dimensional `uint8` tensors. Autograd records nothing."""

    name = "torch"

    # --- memory

    def empty_storage(self, type: ir.StorageType, nbytes: int, zero: bool) -> Tensor:
        """See `Machine`; memory of a process group on the CPU raises NotSupportedError WIR913."""
        if lacks_group_memory(type):
            code, message, hint = NO_GROUP_MEMORY
            raise NotSupportedError(code, message, hint=hint)
        if type.is_group_memory:
            place = torch_device(type.device), type.space.group, type.space.alloc_id
            memory = SYMMETRIC_MEMORY if type.is_symmetric else REGISTERED_MEMORY
            storage = memory.tensor((nbytes,), (1,), _U8, *place)
            return storage.zero_() if zero else storage
        make = torch.zeros if zero else torch.empty
        pinned = type.space.kind is ir.MemoryKind.PINNED and torch.cuda.is_available()
        return make(nbytes, dtype=_U8, device=torch_device(type.device), pin_memory=pinned)

    def fill_bytes(self, storage: Tensor, value: int) -> None:
        """See `Machine`."""
        with torch.no_grad():
            storage.fill_(value)

    def storage_of(self, tensor: Tensor) -> Tensor:
        """See `Machine`."""
        storage = tensor.untyped_storage()
        with torch.no_grad():
            return torch.empty(0, dtype=_U8, device=tensor.device).set_(storage, 0, (storage.nbytes(),), (1,))

    def storage_key(self, tensor: Tensor) -> int:
        """See `Machine`."""
        return storage_key(tensor)

    def view(
        self, source: Tensor, type: ir.TensorType, sizes: Sequence[int], strides: Sequence[int], offset: int
    ) -> Tensor:
        """See `Machine`; raises ExecutionError WIR924 for an offset that is not a multiple of the item size,
        and torch's own error for a view that exceeds its storage."""
        dtype = DTYPES[type.dtype]
        start = source.storage_offset() * source.element_size() + offset
        if start % type.dtype.itemsize:
            raise ExecutionError("WIR924", f"byte offset {start} is not a multiple of {type.dtype.itemsize}")
        with torch.no_grad():
            base = source.detach()
            if base.dtype != dtype:
                window = torch.empty(0, dtype=dtype, device=base.device)
                return window.set_(base.untyped_storage(), start // type.dtype.itemsize, sizes, strides)
            return base.as_strided(tuple(sizes), tuple(strides), start // type.dtype.itemsize)

    def constant(self, data: TensorData, type: ir.TensorType, mutable: bool, alignment: int) -> Tensor:
        """See `Machine`; immutable constants share the data's memory if it is aligned. Raises ExecutionError
        WIR929 for too few bytes."""
        sizes, strides = [_static(e) for e in type.sizes], [_static(e) for e in type.strides]
        dtype = DTYPES[type.dtype]
        need = _extent(sizes, strides) * type.dtype.itemsize
        if data.nbytes < need:
            raise ExecutionError("WIR929", f"a constant needs {need} bytes, but there are {data.nbytes}")
        if need == 0:
            return torch.empty_strided(sizes, strides, dtype=dtype, device=torch_device(type.device))
        flat = bytes_tensor(data.buffer[:need])
        if mutable or flat.data_ptr() % max(alignment, type.dtype.itemsize):
            flat = flat.clone()
        device = torch_device(type.device)
        return flat.view(dtype).to(device).as_strided(sizes, strides)

    def example(self, type: ir.TensorType, sizes: Sequence[int], strides: Sequence[int], seed: int) -> Tensor:
        """See `Machine`."""
        generator = torch.Generator().manual_seed(seed)
        dtype, count = DTYPES[type.dtype], max(_extent(sizes, strides), 1)
        if type.dtype.is_floating or type.dtype.is_complex:
            flat = torch.randn(count, generator=generator).to(dtype)
        else:
            flat = torch.randint(0, 2, (count,), generator=generator).to(dtype)
        return flat.to(torch_device(type.device)).as_strided(tuple(sizes), tuple(strides))

    def copy(self, dst: Tensor, src: Tensor, non_blocking: bool) -> None:
        """See `Machine`."""
        with torch.no_grad():
            dst.copy_(src, non_blocking)

    def align(self, tensor: Tensor, alignment: int) -> Tensor:
        """See `Machine`. The copy relies on torch's allocators, which align to 64 bytes at least."""
        return tensor if tensor.data_ptr() % alignment == 0 else self.clone(tensor)

    def resize_storage(self, tensor: Tensor, nbytes: int) -> None:
        """See `Machine`."""
        tensor.untyped_storage().resize_(nbytes)

    def set_storage(self, target: Tensor, source: Tensor) -> None:
        """See `Machine`."""
        with torch.no_grad():
            target.set_(source)  # type: ignore[call-overload]  # the stubs accept storages only

    def clone(self, tensor: Tensor) -> Tensor:
        """See `Machine`."""
        with torch.no_grad():
            out = torch.empty_strided(
                tensor.size(), tensor.stride(), dtype=tensor.dtype, device=tensor.device
            )
            return out.copy_(tensor)

    def stack(self, tensors: Sequence[Tensor]) -> Tensor:
        """See `Machine`."""
        with torch.no_grad():
            return torch.stack(tuple(tensors))

    # --- calls

    # Any: nested Python structures of tensors and numbers, as operators take and return them
    def call_extern(self, extern: ir.ExternDef, args: Sequence[Any], kwargs: Mapping[str, Any]) -> Any:
        """See `Machine`; raises NotSupportedError WIR914 for an operator that torch does not have."""
        with torch.no_grad():
            return resolve(extern).call()(*args, **kwargs)

    def native(self, arg: ir.Arg) -> object:
        """See `Machine`."""
        match arg:
            case ir.DType():
                return DTYPES[arg]
            case ir.Device():
                return torch_device(arg)
            case ir.MemoryFormat():
                return MEMORY_FORMATS[arg]
            case ir.Layout():
                return LAYOUTS[arg]
            case _:
                raise ExecutionError("WIR927", f"torch has no object for {arg!r}")

    def launch(self, kernel: LoadedKernel, args: Sequence[object], grid: tuple[int, ...]) -> None:
        """See `Machine`."""
        kernel(*args, *grid)

    def check_group(self, name: str, device: ir.Device, ranks: GroupRanks | None) -> None:
        """See `Machine`."""
        program_groups((name,), str(device), () if ranks is None else (astuple(ranks),))()

    def agree(self, group: str, manifest: Sequence[str]) -> None:
        """See `Machine`."""
        agree(TorchGroupStore(group), group, manifest)

    def wait(self, tensor: Tensor) -> Tensor:
        """See `Machine`."""
        finished: Tensor = torch.ops._c10d_functional.wait_tensor(tensor)
        return finished

    def synchronize(self, device: ir.Device = ir.CPU) -> None:
        """See `Machine`."""
        if device.type != ir.CPU.type:
            torch.accelerator.synchronize()

    # --- looking at tensors

    def sizes(self, tensor: Tensor) -> tuple[int, ...]:
        """See `Machine`."""
        return tuple(tensor.size())

    def strides(self, tensor: Tensor) -> tuple[int, ...]:
        """See `Machine`."""
        return tuple(tensor.stride())

    def offset(self, tensor: Tensor) -> int:
        """See `Machine`."""
        return int(tensor.storage_offset())

    def item(self, tensor: Tensor) -> int | float | bool:
        """See `Machine`."""
        return tensor.item()

    def address(self, tensor: Tensor) -> int:
        """See `Machine`."""
        return tensor.data_ptr()

    def layout_matches(
        self, tensor: Tensor, type: ir.TensorType, sizes: Sequence[int], strides: Sequence[int]
    ) -> bool:
        """See `Machine`. Strides of empty tensors are ignored, as in torch's check."""
        if tensor.dim() != len(sizes) or any(a != b for a, b in zip(tensor.size(), sizes)):
            return False
        if tensor.numel() == 0:
            return True
        return all(size == 1 or a == b for size, a, b in zip(sizes, tensor.stride(), strides))

    def is_finite(self, tensor: Tensor) -> bool:
        """See `Machine`."""
        if not (tensor.is_floating_point() or tensor.is_complex()):
            return True
        return bool(torch.isfinite(tensor).all())

    def data(self, tensor: Tensor) -> TensorData:
        """See `Machine`."""
        dense = tensor.detach().to("cpu").contiguous()
        raw = ctypes.string_at(dense.data_ptr(), dense.numel() * dense.element_size())
        return TensorData(DTYPE_OF[tensor.dtype], memoryview(raw))

    def mark(self, device: ir.Device) -> torch.cuda.Event:
        """See `wrapper_ir_tools.profile.TimingMachine`."""
        with torch.cuda.device(torch_device(device)):
            event = torch.cuda.Event(enable_timing=True)  # type: ignore[no-untyped-call]  # torch's
            event.record()
        return event

    def seconds_between(self, begin: torch.cuda.Event, end: torch.cuda.Event) -> float:
        """See `wrapper_ir_tools.profile.TimingMachine`."""
        end.synchronize()
        return float(begin.elapsed_time(end)) / 1e3

    @property
    def caller(self) -> CallerTensors[Tensor]:
        """See `Machine`."""
        return caller()

    def is_tensor(self, x: object) -> bool:
        """See `Machine`."""
        return isinstance(x, Tensor)


def _static(e: Expr) -> int:
    return int(evaluate(e, {}))  # constants have static layouts


TORCH_MACHINE = TorchMachine()
"""The entry point `wrapper_ir.machines: torch`."""
