"""Kernels told apart by what they are, whatever they are called."""

from __future__ import annotations

import dataclasses
import hashlib
from collections.abc import Iterable, Mapping

from wrapper_ir import ir
from wrapper_ir.json.decode import dump
from wrapper_ir.json.model_codecs import encode_kernel


def content_hash(kernel: ir.KernelDef) -> str:
    """Sha256 (hex) over the JSON of everything but the kernel's name. Of a MultiKernel, over the names of its kernels:
    `multi_hash` looks into them."""
    content = {name: x for name, x in encode_kernel(kernel).items() if name != "name"}
    return hashlib.sha256(dump(content).encode()).hexdigest()


def multi_hash(kernel: ir.MultiKernel, kernels: Mapping[str, ir.KernelDef]) -> str:
    """As `content_hash`, over the ordered contents of the kernels that it chooses from, whatever they are called."""
    variants = (dataclasses.replace(v, kernel=content_hash(kernels[v.kernel])) for v in kernel.variants)
    return content_hash(dataclasses.replace(kernel, variants=tuple(variants)))


def find_binary(
    binaries: Iterable[ir.KernelBinary], kernel: ir.KernelDef, config: ir.TritonConfig | None, target: str
) -> ir.KernelBinary | None:
    """The one of a kernel, compiled with `config` for `target` (`cuda:sm_90`); None where it is not there."""
    wanted = content_hash(kernel)
    return next((b for b in binaries if (b.kernel, b.target, b.config) == (wanted, target, config)), None)
