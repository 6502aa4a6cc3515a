"""A `Machine` in plain Python: tensors are windows of byte arrays.

It tests the interpreter without a library, and shows how little a machine needs.
"""

from __future__ import annotations

import itertools
import math
import random
import struct
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from wrapper_ir import ir
from wrapper_ir.analysis.input_facts import TensorFacts
from wrapper_ir.analysis.overlap import Geometry
from wrapper_ir.artifact import TensorData
from wrapper_ir.artifact.group_ranks import GroupRanks
from wrapper_ir.plugins.protocols import Containers, KernelRuntime, LoadedKernel
from wrapper_ir_runtime import PytreeContainers, check_rank, fail_group

_FORMATS = {
    ir.DType.F32: "f",
    ir.DType.F64: "d",
    ir.DType.I64: "q",
    ir.DType.I32: "i",
    ir.DType.U8: "B",
    ir.DType.BOOL: "?",
}
Scalar = int | float | bool


class Memory(bytearray):
    """Bytes of a device: all of them are the host's."""

    device = "cpu"


@dataclass(slots=True, eq=False)
class Tensor:
    """A window on `memory`; `offset` in elements."""

    memory: bytearray
    dtype: ir.DType
    sizes: tuple[int, ...]
    strides: tuple[int, ...]
    offset: int = 0

    def __getitem__(self, index: tuple[int, ...]) -> Scalar:
        (value,) = struct.unpack_from(_FORMATS[self.dtype], self.memory, self._position(index))
        return value  # type: ignore[no-any-return]  # struct is untyped

    def __setitem__(self, index: tuple[int, ...], value: Scalar) -> None:
        struct.pack_into(_FORMATS[self.dtype], self.memory, self._position(index), value)

    def _position(self, index: tuple[int, ...]) -> int:
        element = self.offset + sum(i * s for i, s in zip(index, self.strides, strict=True))
        return element * self.dtype.itemsize

    def indices(self) -> Iterator[tuple[int, ...]]:
        """All indices, row by row."""
        return itertools.product(*map(range, self.sizes))

    def tolist(self) -> Any:
        """Nested lists, as torch gives them."""
        if not self.sizes:
            return self[()]
        return [self.pick(i).tolist() for i in range(self.sizes[0])]

    def pick(self, i: int) -> Tensor:
        """The i-th row."""
        return Tensor(
            self.memory, self.dtype, self.sizes[1:], self.strides[1:], self.offset + i * self.strides[0]
        )


def _contiguous(sizes: Sequence[int]) -> tuple[int, ...]:
    return tuple(math.prod(sizes[i + 1 :]) for i in range(len(sizes)))


def tensor(values: Any, dtype: ir.DType = ir.DType.F32) -> Tensor:
    """A new tensor from nested lists."""
    sizes: list[int] = []
    row = values
    while isinstance(row, list):
        sizes.append(len(row))
        row = row[0]
    made = Tensor(bytearray(math.prod(sizes) * dtype.itemsize), dtype, tuple(sizes), _contiguous(sizes))
    for index in made.indices():
        held = values
        for i in index:
            held = held[i]
        made[index] = held
    return made


def _map(function: Callable[..., Scalar], *tensors: Tensor, dtype: ir.DType | None = None) -> Tensor:
    first = tensors[0]
    out = Tensor(
        bytearray(math.prod(first.sizes) * (dtype or first.dtype).itemsize),
        dtype or first.dtype,
        first.sizes,
        _contiguous(first.sizes),
    )
    for index in out.indices():
        out[index] = function(*(t[index] for t in tensors))
    return out


def _split(x: Tensor) -> list[Tensor]:
    return [_map(lambda v: v, x), _map(lambda v: -v, x)]


def _add_out(a: Tensor, b: Tensor, *, out: Tensor) -> Tensor:
    for index in out.indices():
        out[index] = a[index] + b[index]
    return out


EXTERNS: Mapping[str, Callable[..., Any]] = {
    "list::neg": lambda x: _map(lambda v: -v, x),
    "list::add": lambda a, b: _map(lambda v, w: v + w, a, b),
    "list::add.out": _add_out,
    "list::less": lambda x, n: _map(lambda v: v < n, x, dtype=ir.DType.BOOL),
    "list::split": _split,
    "list::nested": lambda x: {"pair": (x, [_map(lambda v: v + 1, x)])},
    "list::fail": lambda x: 1 // 0,
    "list::log": lambda x: _map(lambda v: math.log(v) if v > 0 else math.nan, x),
    "list::draw": lambda x: _map(lambda v: v + random.random(), x),
    "list::negs": lambda xs: [_map(lambda v: -v, x) for x in xs],
}


class ListMachine:
    """See `wrapper_ir.plugins.protocols.Machine`."""

    name = "list"

    def __init__(self) -> None:
        self.synchronized = 0

    def empty_storage(self, type: ir.StorageType, nbytes: int, zero: bool) -> Tensor:
        fill = 0 if zero else 0xEE
        memory = Memory(bytes([fill]) * nbytes)
        memory.device = str(type.device)
        return Tensor(memory, ir.DType.U8, (nbytes,), (1,))

    def fill_bytes(self, storage: Tensor, value: int) -> None:
        start, (count,) = storage.offset, storage.sizes  # of bytes: a storage, or a slot of one
        storage.memory[start : start + count] = bytes([value]) * count

    def storage_of(self, tensor: Tensor) -> Tensor:
        return Tensor(tensor.memory, ir.DType.U8, (len(tensor.memory),), (1,))

    def storage_key(self, tensor: Tensor) -> int:
        return id(tensor.memory)

    def view(
        self, source: Tensor, type: ir.TensorType, sizes: Sequence[int], strides: Sequence[int], offset: int
    ) -> Tensor:
        start = source.offset * source.dtype.itemsize + offset
        return Tensor(source.memory, type.dtype, tuple(sizes), tuple(strides), start // type.dtype.itemsize)

    def constant(self, data: TensorData, type: ir.TensorType, mutable: bool, alignment: int) -> Tensor:
        sizes, strides = (tuple(int(str(e)) for e in part) for part in (type.sizes, type.strides))
        return Tensor(bytearray(data.buffer), type.dtype, sizes, strides)

    def example(self, type: ir.TensorType, sizes: Sequence[int], strides: Sequence[int], seed: int) -> Tensor:
        rng = random.Random(seed)
        made = Tensor(
            bytearray(math.prod(sizes) * type.dtype.itemsize), type.dtype, tuple(sizes), tuple(strides)
        )
        for index in made.indices():
            made[index] = rng.random() if type.dtype.is_floating else rng.randrange(2)
        return made

    def copy(self, dst: Tensor, src: Tensor, non_blocking: bool) -> None:
        fixed = [size == 1 for size in src.sizes]
        for index in dst.indices():
            own = index[len(index) - len(fixed) :]
            dst[index] = src[tuple(0 if one else i for i, one in zip(own, fixed))]

    def align(self, tensor: Tensor, alignment: int) -> Tensor:
        return tensor if self.address(tensor) % alignment == 0 else self.clone(tensor)

    def resize_storage(self, tensor: Tensor, nbytes: int) -> None:
        del tensor.memory[nbytes:]
        tensor.memory.extend(bytes(nbytes - len(tensor.memory)))

    def set_storage(self, target: Tensor, source: Tensor) -> None:
        target.memory, target.sizes, target.strides = source.memory, source.sizes, source.strides
        target.offset = source.offset

    def clone(self, tensor: Tensor) -> Tensor:
        start = tensor.offset * tensor.dtype.itemsize
        return Tensor(tensor.memory[start:], tensor.dtype, tensor.sizes, tensor.strides)

    def stack(self, tensors: Sequence[Tensor]) -> Tensor:
        return tensor_of([t.tolist() for t in tensors], tensors[0].dtype)

    def call_extern(self, extern: ir.ExternDef, args: Sequence[Any], kwargs: Mapping[str, Any]) -> Any:
        return EXTERNS[extern.name](*args, **kwargs)

    def native(self, arg: ir.Arg) -> Any:
        return arg

    def sizes(self, tensor: Tensor) -> tuple[int, ...]:
        return tensor.sizes

    def strides(self, tensor: Tensor) -> tuple[int, ...]:
        return tensor.strides

    def offset(self, tensor: Tensor) -> int:
        return tensor.offset

    def item(self, tensor: Tensor) -> Scalar:
        return tensor[(0,) * len(tensor.sizes)]

    def address(self, tensor: Tensor) -> int:
        """Storages start at multiples of 64."""
        return tensor.offset * tensor.dtype.itemsize

    def layout_matches(
        self, tensor: Tensor, type: ir.TensorType, sizes: Sequence[int], strides: Sequence[int]
    ) -> bool:
        if tensor.sizes != tuple(sizes):
            return False
        return all(n == 1 or a == b for n, a, b in zip(sizes, tensor.strides, strides))

    def is_finite(self, tensor: Tensor) -> bool:
        return all(math.isfinite(tensor[i]) for i in tensor.indices())

    def launch(self, kernel: LoadedKernel, args: Sequence[Any], grid: tuple[int, ...]) -> None:
        kernel(*args, **({"grid": grid} if grid else {}))

    def agree(self, group: str, manifest: Sequence[str]) -> None:
        """A group of this process alone."""

    def check_group(self, name: str, device: ir.Device, ranks: GroupRanks | None) -> None:
        if name != "0":
            fail_group(name, "there is but one")
        if ranks is not None:
            check_rank(ranks, 0, 1)

    def wait(self, tensor: Tensor) -> Tensor:
        return Tensor(tensor.memory, tensor.dtype, tensor.sizes, tensor.strides, tensor.offset)

    def data(self, tensor: Tensor) -> TensorData:
        dense = _map(lambda v: v, tensor)
        return TensorData(tensor.dtype, memoryview(bytes(dense.memory)))

    @property
    def caller(self) -> ListCaller:
        return ListCaller()

    def synchronize(self, device: ir.Device = ir.CPU) -> None:
        self.synchronized += 1

    def is_tensor(self, x: object) -> bool:
        return isinstance(x, Tensor)


tensor_of = tensor


class ListCaller:
    """The caller's tensors. No gradients exist, and views need no marks."""

    @property
    def containers(self) -> Containers:
        class NoPytree:
            SUPPORTED_NODES: dict[type[Any], Any] = {}  # noqa: RUF012  # never written
            SUPPORTED_SERIALIZED_TYPES: dict[Any, Any] = {}  # noqa: RUF012  # never written

        return PytreeContainers(NoPytree())

    def is_tensor(self, x: object) -> bool:
        return isinstance(x, Tensor)

    def facts(self, tensor: Tensor) -> TensorFacts:
        device = getattr(tensor.memory, "device", "cpu")
        return TensorFacts(
            dtype=tensor.dtype.value, device=device, sizes=tensor.sizes, strides=tensor.strides
        )

    def native(self, arg: ir.Arg) -> Any:
        return arg

    def needs_gradient(self, leaves: Iterable[Any]) -> bool:
        return False

    def storage(self, tensor: Tensor) -> int:
        return id(tensor.memory)

    def geometry(self, tensor: Tensor) -> Geometry:
        return Geometry(
            storage=self.storage(tensor),
            sizes=tensor.sizes,
            strides=tensor.strides,
            offset=tensor.offset,
            itemsize=tensor.dtype.itemsize,
        )

    def window(self, tensor: Tensor, offset: int, count: int) -> Tensor:
        return Tensor(tensor.memory, tensor.dtype, (count,), (1,), offset)

    def mark_written(self, tensor: Tensor) -> None:
        """Does nothing: tensors have no versions."""

    def copy(self, tensor: Tensor, result: Tensor) -> None:
        ListMachine().copy(tensor, result, False)

    def reshape(self, tensor: Tensor, result: Tensor) -> None:
        tensor.sizes, tensor.strides, tensor.offset = result.sizes, result.strides, result.offset

    def replace(self, tensor: Tensor, result: Tensor) -> None:
        tensor.memory = result.memory
        self.reshape(tensor, result)

    def view_of(self, base: Tensor, result: Tensor) -> Tensor:
        return Tensor(result.memory, result.dtype, result.sizes, result.strides, result.offset)


def _double(source: Tensor, target: Tensor, count: int) -> None:
    for i in range(count):
        flat_in, flat_out = (Tensor(t.memory, t.dtype, (count,), (1,), t.offset) for t in (source, target))
        flat_out[(i,)] = 2 * flat_in[(i,)]


def _count_grid(x: Tensor, grid: tuple[int, ...] = ()) -> None:
    x[(0,)] = float(math.prod(grid))


_KERNELS: Mapping[str, LoadedKernel] = {"double": _double, "count_grid": _count_grid}


class ListKernels:
    """The runtime `list`: the payload names a Python function."""

    kind = "list"

    def load(self, kernel: ir.KernelDef, target: ir.Target) -> LoadedKernel:
        assert isinstance(kernel, ir.ForeignKernel)
        return _KERNELS[kernel.payload.strip()]

    def load_all(self, kernels: Sequence[ir.KernelDef], target: ir.Target) -> dict[str, LoadedKernel]:
        return {k.name: self.load(k, target) for k in kernels}


def find_runtime(kind: str) -> KernelRuntime:
    """Finds `list` only."""
    assert kind == "list"
    return ListKernels()
