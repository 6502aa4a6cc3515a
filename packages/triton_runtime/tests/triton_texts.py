"""Kernels for tests, as IR text."""

from __future__ import annotations

from triton_runtime import Launchable, bind, make_grid
from wrapper_ir import ir, parse_program

HEAD = "import triton\nimport triton.language as tl\n"

ADD = """
@triton.jit
def add(x_ptr, y_ptr, out_ptr, n, BLOCK: tl.constexpr):
    at = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    inside = at < n
    x = tl.load(x_ptr + at, mask=inside)
    y = tl.load(y_ptr + at, mask=inside)
    tl.store(out_ptr + at, x + y, mask=inside)
"""

ADD_CLAUSES = """
  order(x_ptr, y_ptr, out_ptr, n, BLOCK)
  configs({BLOCK = 128} warps(4) stages(1), {BLOCK = 64} warps(2) stages(1))
  grid(ceildiv(n, BLOCK))
"""

ADD_PARAMS = (
    "read f32* x_ptr divisible(16), read f32* y_ptr divisible(16), write f32* out_ptr divisible(16), i32 n"
)


def kernel_of(params: str, clauses: str, source: str, *, entry: str, name: str = "k") -> ir.TritonKernel:
    """One kernel; `source` may omit its imports."""
    text = (
        f'wir 0.5\ntarget cuda:0 arch "sm_90"\n'
        f'kernel triton @{name} entry "{entry}" ({params})\n{clauses}\n  {{{{{{\n{HEAD}{source}\n}}}}}}\n'
        "func @main() {\n  return\n}\n"
    )
    [kernel] = parse_program(text).kernels
    assert isinstance(kernel, ir.TritonKernel)
    return kernel


def bound(params: str, clauses: str) -> ir.TritonKernel:
    """A kernel with an irrelevant source."""
    return kernel_of(params, clauses, "", entry="f")


def add_kernel(name: str = "add") -> ir.TritonKernel:
    """Adds two f32 vectors; two configs."""
    return kernel_of(ADD_PARAMS, ADD_CLAUSES, ADD, entry="add", name=name)


def launchable(kernel: ir.TritonKernel, config: int = 0) -> Launchable:
    """A kernel with one of its configs, not compiled."""
    selected = kernel.configs[config]
    return Launchable(
        kernel=kernel, config=selected, binding=bind(kernel, selected), grid=make_grid(kernel, selected)
    )
