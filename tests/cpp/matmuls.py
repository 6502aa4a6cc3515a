"""A program of float32 matmuls, with matrices of any layout: the runtime must return torch's bits."""

from __future__ import annotations

import random
from collections.abc import Iterator

import torch
from torch import Tensor

from cpp_wrapper.library.python import LoadedProgram

_SYMBOLS = "".join(
    f"symbol {name} : int backed [0, 1000000] hint 8\n"
    for name in ("m", "k", "n", *(f"{t}{i}" for t in ("o", "p", "q", "x", "y", "b") for i in (0, 1)))
)
TEXT = (
    _SYMBOLS
    + """
extern "aten::addmm.out(Tensor self, Tensor mat1, Tensor mat2, *, Scalar beta=1, Scalar alpha=1, Tensor(a!) out) -> Tensor(a!)"
extern "aten::mm.out(Tensor self, Tensor mat2, *, Tensor(a!) out) -> Tensor(a!)"

func @main(%x: f32[m, k]{x0, x1}, %y: f32[k, n]{y0, y1}, %r: f32[n], %b: f32[m, n]{b0, b1}, %o: f32[m, n]{o0, o1}, %p: f32[m, n]{p0, p1}, %q: f32[m, n]{q0, q1}) {
  define m = size(%x, 0)
  define k = size(%x, 1)
  define n = size(%y, 1)
"""
    + "".join(
        f"  define {name}{i} = stride(%{name}, {i})\n"
        for name in ("x", "y", "b", "o", "p", "q")
        for i in (0, 1)
    )
    + """
  call aten::addmm.out(%r, %x, %y, beta=1, alpha=1, out=%o)
  call aten::addmm.out(%b, %x, %y, beta=0.5, alpha=-2.0, out=%p)
  call aten::mm.out(%x, %y, out=%q)
  return
}
"""
)


def _matrix(rows: int, columns: int, rng: random.Random, *, padded: bool = True) -> Tensor:
    """Of any layout that does not overlap, or by rows."""
    kind = rng.choice(("rows", "columns", "padded", "padded columns", "spread") if padded else ("rows",))
    if kind == "columns":
        return torch.randn(columns, rows).t()
    if kind == "padded":
        return torch.randn(rows, columns + 3)[:, 1 : columns + 1]
    if kind == "padded columns":
        return torch.randn(columns, rows + 2)[:, :rows].t()
    if kind == "spread":
        return torch.randn(rows, columns, 2)[..., 0]
    return torch.randn(rows, columns)


def _cases(count: int) -> Iterator[list[Tensor]]:
    """x, y, r, b and three results."""
    rng = random.Random(0)
    torch.manual_seed(0)
    sizes = (0, 1, 1, 2, 3, 7, 16, 17, 33, 64, 130)
    for _ in range(count):
        m, k, n = (rng.choice(sizes) for _ in range(3))
        outs = [_matrix(m, n, rng) for _ in range(3)]
        yield [_matrix(m, k, rng), _matrix(k, n, rng), torch.randn(n), _matrix(m, n, rng), *outs]


def _copies(given: list[Tensor]) -> list[Tensor]:
    """Of the same layouts."""
    return [torch.empty_strided(t.shape, t.stride()).copy_(t) for t in given]


def by_torch(given: list[Tensor]) -> list[Tensor]:
    """Returns the three matmuls of copies of the arguments."""
    x, y, r, b, o, p, q = _copies(given)
    torch.addmm(r, x, y, out=o)
    torch.addmm(b, x, y, beta=0.5, alpha=-2.0, out=p)
    torch.mm(x, y, out=q)
    return [o, p, q]


def by_us(program: LoadedProgram, given: list[Tensor]) -> list[Tensor]:
    """As `by_torch`."""
    copies = _copies(given)
    program(*copies)
    return copies[4:]


def differing(program: LoadedProgram, count: int) -> list[object]:
    """The layouts of the cases, of that many, whose bits are not torch's."""
    return [
        [(tuple(t.shape), t.stride()) for t in given]
        for given in _cases(count)
        if not all(map(torch.equal, by_us(program, given), by_torch(given)))
    ]


def square(size: int) -> list[Tensor]:
    """The arguments of a call with square matrices by rows."""
    torch.manual_seed(1)
    return (
        [torch.randn(size, size) for _ in range(2)]
        + [torch.randn(size)]
        + [torch.randn(size, size) for _ in range(4)]
    )
