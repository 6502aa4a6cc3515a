"""Kernels that do all that their parameters and extents allow: every byte in reach is read, and written."""

from __future__ import annotations

import ctypes
import dataclasses
import struct
import zlib
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import torch

from tests.soundness.guarded.allocator import GuardPages
from wrapper_ir import ir
from wrapper_ir.errors import ExecutionError
from wrapper_ir.plugins.protocols import KernelRuntime, LoadedKernel

EXTENT = "extent_of_"
"""Prefix of the parameters that pass a kernel its extents."""


def tell_extents(program: ir.Program) -> ir.Program:
    """Adds arguments to each kernel that pass the extents of its launches.

    A kernel of a model has its sizes in its source, as its author's promise; a launch's extents are the
    program's. Launches that do not match their kernel stay unchanged.
    """
    kernels = {k.name: k for k in program.kernels}
    told = tuple(_told(k) for k in program.kernels)
    functions = tuple(
        dataclasses.replace(f, body=tuple(_launch(op, kernels) for op in f.body)) for f in program.functions
    )
    return dataclasses.replace(program, kernels=told, functions=functions)


def _pointers(kernel: ir.KernelDef) -> list[ir.KernelParam]:
    return [p for p in kernel.params if p.kind is ir.ParamKind.POINTER]


def _told(kernel: ir.KernelDef) -> ir.KernelDef:
    if not isinstance(kernel, ir.CppKernel):
        return kernel
    more = [
        ir.KernelParam(name=EXTENT + p.name, kind=ir.ParamKind.SCALAR, dtype=ir.DType.I64)
        for p in _pointers(kernel)
    ]
    return dataclasses.replace(kernel, params=(*kernel.params, *more))


def _launch(op: ir.Op, kernels: dict[str, ir.KernelDef]) -> ir.Op:
    kernel = kernels.get(op.kernel) if isinstance(op, ir.Launch) else None
    if (
        not isinstance(op, ir.Launch)
        or not isinstance(kernel, ir.CppKernel)
        or len(op.args) != len(kernel.params)
    ):
        return op
    given = [a for a, p in zip(op.args, kernel.params, strict=True) if p.kind is ir.ParamKind.POINTER]
    tensors = [a for a in given if isinstance(a, ir.Value) and ir.is_tensor(a)]
    if len(tensors) != len(given) or len(op.extents) not in (0, len(given)):
        return op
    extents = op.extents or tuple(ir.extent_bytes(t.type) for t in tensors)
    return dataclasses.replace(op, args=(*op.args, *extents))


class _Pointer(ctypes.Structure):
    _fields_ = (
        ("data", ctypes.c_void_p),
        ("nbytes", ctypes.c_int64),
        ("divisible", ctypes.c_int32),
        ("reads", ctypes.c_uint8),
        ("writes", ctypes.c_uint8),
        ("mask", ctypes.c_uint8),
    )


def _int64(n: float) -> float:
    """Returns the number; as launchers do, refuses an int that the kernel cannot receive."""
    if isinstance(n, int) and not -(2**63) <= n < 2**63:
        raise ExecutionError("WIR924", f"{n} is not an argument of a kernel")
    return n


def touch_facts(param: ir.KernelParam) -> tuple[int, bool, bool, int]:
    """Access of a kernel through a pointer: the alignment that it checks, whether it reads and writes, and
    which bits.
    """
    return param.divisible, param.access.reads, param.access.writes, _mask(param.dtype)


def _mask(dtype: ir.DType) -> int:
    """Mask of the bits that kernels write: truth values are 0 or 1, indices small and floats finite."""
    return 0x3F if dtype.is_floating or dtype.is_complex else 1


@dataclass(frozen=True, slots=True)
class _Touch:
    """One loaded kernel."""

    kernel: ir.CppKernel
    library: ctypes.CDLL

    def __call__(self, *args: Any) -> None:  # Any: tensors and numbers
        params = self.kernel.params
        assert len(args) == len(params), f"@{self.kernel.name} takes {len(params)} arguments, got {len(args)}"
        named = {p.name: a for p, a in zip(params, args)}
        numbers = [a for a in args if not isinstance(a, torch.Tensor)]
        salt = zlib.crc32(b"".join(struct.pack("<d", float(n)) for n in map(_int64, numbers))) & 0xFF
        pointers = [
            _Pointer(
                data=named[p.name].data_ptr(),
                nbytes=named[EXTENT + p.name],
                divisible=facts[0],
                reads=facts[1],
                writes=facts[2],
                mask=facts[3],
            )
            for p in _pointers(self.kernel)
            for facts in (touch_facts(p),)
        ]
        self.library.guard_touch((_Pointer * len(pointers))(*pointers), len(pointers), salt)


@dataclass(frozen=True, slots=True)
class TouchRuntime:
    """A `KernelRuntime` for C++ kernels that `tell_extents` has changed: it leaves their sources alone."""

    pages: GuardPages
    kind: str = "cpp"

    def load(self, kernel: ir.KernelDef, target: ir.Target) -> LoadedKernel:
        """See `KernelRuntime`."""
        assert isinstance(kernel, ir.CppKernel)
        return _Touch(kernel, self.pages.library)

    def load_all(self, kernels: Sequence[ir.KernelDef], target: ir.Target) -> dict[str, LoadedKernel]:
        """See `KernelRuntime`."""
        return {k.name: self.load(k, target) for k in kernels}

    def find(self, kind: str) -> KernelRuntime:
        """Finds runtimes for options."""
        assert kind == self.kind, kind
        return self
