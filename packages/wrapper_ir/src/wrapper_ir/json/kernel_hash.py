"""Hashes of kernels over their content, independent of their names."""

from __future__ import annotations

import dataclasses
import hashlib
from collections.abc import Iterable, Mapping

from wrapper_ir import ir
from wrapper_ir.json.decode import dump
from wrapper_ir.json.model_codecs import encode_kernel


def content_hash(kernel: ir.KernelDef) -> str:
    """Returns the sha256 (hex) over the JSON of the kernel without its name.

    For a multi-kernel it covers the names of its kernels; `multi_hash` covers their contents.
    """
    content = {name: x for name, x in encode_kernel(kernel).items() if name != "name"}
    return hashlib.sha256(dump(content).encode()).hexdigest()


def multi_hash(kernel: ir.MultiKernel, kernels: Mapping[str, ir.KernelDef]) -> str:
    """Returns `content_hash` of a multi-kernel over the contents of its kernels instead of their names."""
    variants = (dataclasses.replace(v, kernel=content_hash(kernels[v.kernel])) for v in kernel.variants)
    return content_hash(dataclasses.replace(kernel, variants=tuple(variants)))


def find_binary(
    binaries: Iterable[ir.KernelBinary], kernel: ir.KernelDef, config: ir.TritonConfig | None, target: str
) -> ir.KernelBinary | None:
    """Returns a kernel's binary for `config` and `target` (`cuda:sm_90`); None if it is missing."""
    key = content_hash(kernel)
    return next((b for b in binaries if (b.kernel, b.target, b.config) == (key, target, config)), None)
