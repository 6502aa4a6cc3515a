"""Programs with symmetric and registered memory, and replacements of torch's allocator and NCCL's backend on
a machine without GPUs.
"""

from __future__ import annotations

import gc
import weakref
from collections.abc import Sequence
from typing import Any

import torch
from torch import Tensor

import wrapper_ir
from wrapper_ir.artifact import Artifact, bare_artifact

ROW, WEIGHT = torch.randn(5), torch.randn(3, 4)
LARGE = 2**64 - 2
_SYMMETRIC = """wir 0.5
target cpu

symbol s0 : int backed [2, 64] hint 4

func @main(%x: f32[s0], %w: f32[3, 4]) {
  define s0 = size(%x, 0)
  %s = alloc_storage 48 @cuda:0 symmetric("0", ID)
  %b = view %s : f32[3, 4] @cuda:0
  copy %b, %w
  %y = alloc f32[3, 4]
  copy %y, %b
  free %s
  %p.s = alloc_storage s0*8 @cuda:0 symmetric("0", 3) zero(call)
  %p = view %p.s : f32[s0] @cuda:0
  %q = view %p.s + s0*4 : f32[s0] @cuda:0
  copy %p, %x
  %z = alloc f32[s0]
  copy %z, %q
  free %p.s
  return %y, %z
}
"""


BLOCK = torch.randn(3, 4)
DEVICE = torch.device("cuda:0")
SEGMENT = 2 << 20
_REGISTERED = """wir 0.5
target cpu

extern "_c10d_functional::all_reduce_(Tensor(a!) input, str reduce_op, str group_name) -> Tensor(a!)" tags(collective)
extern "_c10d_functional::all_gather_into_tensor_out(Tensor input, int group_size, str group_name, *, Tensor(a!) out) -> Tensor(a!)" tags(collective)

func @main(%x: f32[3, 4]) {
  %s = alloc_storage 48 @cuda:0 registered("0", 7)
  %b = view %s : f32[3, 4] @cuda:0
  copy %b, %x
  %h = collective _c10d_functional::all_reduce_(%b, "sum", "0") group("0") : f32[3, 4] @cuda:0
  %r = wait %h : f32[3, 4] @cuda:0
  %t = alloc_storage 96 @cuda:0 registered("0", 8)
  %o = view %t + 48 : f32[3, 4] @cuda:0
  %k = collective _c10d_functional::all_gather_into_tensor_out(%r, 1, "0", out=%o) group("0") : f32[3, 4] @cuda:0
  %g = wait %k : f32[3, 4] @cuda:0
  free %s
  %y = alloc f32[3, 4]
  copy %y, %g
  free %t
  return %y
}
"""


class Allocator:
    """Replaces torch's allocator: memory of the host, and a log of requests.

    An id identifies one tensor at a time.
    """

    def __init__(self) -> None:
        self.asked: list[tuple[Any, ...]] = []
        self.made: list[weakref.ref[Tensor]] = []

    def __call__(
        self,
        sizes: Sequence[int],
        strides: Sequence[int],
        dtype: torch.dtype,
        device: torch.device,
        group: str,
        id: int,
    ) -> Tensor:
        self.asked.append((tuple(sizes), tuple(strides), dtype, str(device), group, id))
        made = torch.full(tuple(sizes), 77, dtype=dtype).as_strided(tuple(sizes), tuple(strides))
        self.made.append(weakref.ref(made))
        return made

    @property
    def living(self) -> int:
        """Counts the tensors that are still referenced."""
        gc.collect()
        return sum(one() is not None for one in self.made)


class Pool:
    """In the place of torch's: memory of the host, in one segment."""

    def __init__(self) -> None:
        self.segments: list[int] = []


class Backend:
    """Replaces NCCL's backend: a log of registered and deregistered pools."""

    def __init__(self) -> None:
        self.connected: list[torch.device] = []
        self.registered: list[Pool] = []

    def _is_initialized(self) -> bool:
        return bool(self.connected)

    def eager_connect_single_device(self, device: torch.device) -> None:
        self.connected.append(device)

    def register_mem_pool(self, pool: Pool) -> None:
        self.registered.append(pool)

    def deregister_mem_pool(self, pool: Pool) -> None:
        self.registered = [known for known in self.registered if known is not pool]


def empty_in_pool(pool: Pool, sizes: Any, strides: Any, dtype: torch.dtype, device: torch.device) -> Tensor:
    pool.segments[:] = [SEGMENT]
    return torch.full(tuple(sizes), 77, dtype=dtype).as_strided(tuple(sizes), tuple(strides))


def symmetric_artifact(id: int = 7) -> Artifact:
    return bare_artifact(wrapper_ir.parse_program(_SYMMETRIC.replace("ID", str(id))))


def registered_artifact() -> Artifact:
    return bare_artifact(wrapper_ir.parse_program(_REGISTERED))
