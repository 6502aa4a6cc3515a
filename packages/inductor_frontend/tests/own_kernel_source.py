"""Kernels of a model's own, loaded from source text."""

from __future__ import annotations

import importlib.util
from collections.abc import Callable
from pathlib import Path
from types import ModuleType
from typing import Any

import torch

from inductor_frontend import capture
from wrapper_ir import ir
from wrapper_ir.json.kernel_hash import content_hash

A, B = torch.randn(50, 6), torch.randn(50, 6)


TEXT = '''
import torch
import triton
import triton.language as tl

SCALE = tl.constexpr(3)


@triton.jit
def scaled(x):
    return x * SCALE


@triton.jit
def add(a, b, out, n, factor, BLOCK: tl.constexpr, WIDE: tl.constexpr = False):
    """Adds; the text has a \\\\ and quotes."""
    o = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    m = o < n
    x = tl.load(a + o, mask=m) + scaled(tl.load(b + o, mask=m))
    if WIDE:
        x = x * 2
    if factor is not None:
        x = x * factor
    tl.store(out + o, x, mask=m)


@triton.autotune(
    configs=[triton.Config({"BLOCK": 64}, num_warps=2), triton.Config({"BLOCK": 128}, num_stages=2)],
    key=["n"],
    restore_value=["out"],
    reset_to_zero=["seen"],
)
@triton.jit
def accumulate(a, out, seen, n, BLOCK: tl.constexpr):
    o = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    m = o < n
    tl.store(out + o, tl.load(out + o, mask=m) + tl.load(a + o, mask=m), mask=m)
    tl.store(seen + o, 1.0, mask=m)


def adding(a, b):
    out, wide = torch.empty_like(a), torch.empty_like(a)
    n = a.numel()
    add[(triton.cdiv(n, 128),)](a, b, out, n, None, BLOCK=128)
    add[(triton.cdiv(n, 128),)](b, a, wide, n, 2.5, BLOCK=128, WIDE=True)
    return out.sin(), wide


def accumulating(a, b):
    out, seen = b.clone(), torch.zeros_like(b)
    n = a.numel()
    accumulate[lambda meta: (triton.cdiv(n, meta["BLOCK"]),)](a, out, seen, n)
    return out * 2, seen
'''


def load(folder: Path, text: str = TEXT) -> ModuleType:
    """Imports a module with this text from a file, since Triton reads the source of its functions."""
    path = folder / "own.py"
    path.write_text(text, encoding="utf-8")
    spec = importlib.util.spec_from_file_location(f"own_{abs(hash(path))}", path)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def own(program: ir.Program) -> list[ir.TritonKernel]:
    return [k for k in program.kernels if isinstance(k, ir.TritonKernel) and k.heuristic == "user"]


def offline(model: Callable[..., Any], **kwargs: Any) -> ir.Program:  # Any: what models return
    return capture(model, (A, B), target="cuda:sm_90", **kwargs).program


def hashes(folder: Path) -> list[str]:
    """Of the kernels that two models bring with them, loaded from `folder`."""
    module = load(folder, TEXT)
    return [content_hash(k) for model in (module.adding, module.accumulating) for k in own(offline(model))]
