"""What a kernel is, apart from its name."""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Mapping

from wrapper_ir.expr import Expr, print_expr
from wrapper_ir.kernels.host import CppKernel, ForeignKernel
from wrapper_ir.kernels.multi import MultiKernel
from wrapper_ir.kernels.operators import OperatorConstant, OperatorKernel
from wrapper_ir.kernels.params import KernelParam
from wrapper_ir.kernels.triton import TritonConfig, TritonKernel
from wrapper_ir.types import DType

__all__ = ["KernelDef", "content_hash", "multi_hash", "runtime_kind"]

KernelDef = CppKernel | TritonKernel | MultiKernel | OperatorKernel | ForeignKernel


def runtime_kind(kernel: KernelDef) -> str:
    """The name under which the kernel's `KernelRuntime` is registered."""
    match kernel:
        case ForeignKernel():
            return kernel.runtime
        case MultiKernel() | OperatorKernel():  # which are chosen from beside Triton kernels
            return TritonKernel.kind
        case _:
            return kernel.kind


def content_hash(kernel: KernelDef) -> str:
    """Sha256 (hex) over everything that decides what the kernel does; its name does not. Of a MultiKernel, over the
    names of its kernels: `multi_hash` looks into them."""
    # repr of tuples of strings keeps the parts apart, whatever the names hold
    params = repr([_param(p) for p in kernel.params])
    parts: tuple[str, ...]
    match kernel:
        case CppKernel():
            parts = ("cpp", params, kernel.source, kernel.entry, repr(kernel.isa))
        case TritonKernel():
            parts = ("triton", params, kernel.source, kernel.entry, *_triton(kernel))
        case MultiKernel():
            parts = ("multi", params, *_multi(kernel, [v.kernel for v in kernel.variants]))
        case OperatorKernel():
            parts = ("operator", params, kernel.schema, repr(_named(kernel.constants)))
        case ForeignKernel():
            parts = ("foreign", params, kernel.runtime, kernel.payload)
    return _digest(parts)


def multi_hash(kernel: MultiKernel, kernels: Mapping[str, KernelDef]) -> str:
    """As `content_hash`, over the ordered contents of the kernels that it chooses from, whatever they are called."""
    hashes = [content_hash(kernels[v.kernel]) for v in kernel.variants]
    return _digest(("multi", repr([_param(p) for p in kernel.params]), *_multi(kernel, hashes)))


def _digest(parts: Iterable[str]) -> str:
    digest = hashlib.sha256()
    for part in parts:
        data = part.encode()
        digest.update(len(data).to_bytes(8, "little"))
        digest.update(data)
    return digest.hexdigest()


def _multi(kernel: MultiKernel, kernels: Iterable[str]) -> Iterable[str]:
    yield repr([(k, v.args, v.grid, v.hints) for k, v in zip(kernels, kernel.variants, strict=True)])
    yield repr((kernel.choice.value, kernel.grid_params))


def _param(p: KernelParam) -> tuple[object, ...]:
    said = (p.name, p.kind.value, p.dtype.value, p.access.value, p.may_alias)
    return said if p.divisible == 1 and not p.block else (*said, p.divisible, _exprs(p.block))


def _triton(kernel: TritonKernel) -> Iterable[str]:
    yield repr(kernel.order)
    yield repr([_config(c) for c in kernel.configs])
    yield repr((_exprs(kernel.grid), kernel.grid_params))
    yield repr(_named(kernel.constants))
    yield repr([d.value for d in kernel.derive])
    yield repr(_named(kernel.options))
    yield repr((kernel.restore, kernel.reset, kernel.size_hints, kernel.heuristic))
    yield repr((kernel.cooperative, kernel.multiprocessors))


def _config(config: TritonConfig) -> tuple[object, ...]:
    return (
        _named(config.meta),
        config.num_warps,
        config.num_stages,
        _named(config.options),
        _exprs(config.grid),
    )


def _named(pairs: Iterable[tuple[str, OperatorConstant]]) -> list[tuple[str, str, str]]:
    return [(n, type(v).__name__, v.value if isinstance(v, DType) else repr(v)) for n, v in pairs]


def _exprs(exprs: Iterable[Expr]) -> list[str]:
    return [print_expr(e) for e in exprs]
