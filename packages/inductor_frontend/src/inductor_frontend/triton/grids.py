"""Inductor's launch grids as expressions over a kernel's sizes and meta-parameters.

Inductor has a class for each shape of a grid, which generates text for Python or C++. Here each class is a
function from the same metadata to one to three expressions.
"""

from __future__ import annotations

import ast
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import Any

from inductor_frontend.errors import ConversionError
from wrapper_ir import ir
from wrapper_ir.expr import Expr, Int, Sym, add, ceildiv, floordiv, max_, min_, mul, neg, sub
from wrapper_ir.support.python_syntax import parse_expression

# Any in this file: Inductor's metadata.
Meta = Mapping[str, Any]

MAX_Y_GRID = 65535
"""Largest number of blocks of a launch in the second and third dimension."""

_ONE = Int(1)


class _Blocks:
    """Meta-parameters that all configs have, and constants that replace missing ones."""

    def __init__(self, names: Sequence[str], defaults: Mapping[str, int] | None = None) -> None:
        self._names = frozenset(names)
        self._defaults = defaults or {}

    def count(self, numel: Expr, block: str) -> Expr:
        """Returns the number of blocks that cover `numel`; the block size is 1 by default."""
        if block in self._names:
            return ceildiv(numel, Sym(block))
        return ceildiv(numel, Int(self._defaults.get(block, 1)))


Grid = Callable[[_Blocks, Meta], list[Expr]]
_X, _Y, _Z = ("xnumel", "XBLOCK"), ("ynumel", "YBLOCK"), ("znumel", "ZBLOCK")


def _covering(*dims: tuple[str, str]) -> Grid:
    """Returns a grid with a dimension for each size, covered by blocks of a meta-parameter."""
    return lambda blocks, meta: [blocks.count(Sym(numel), block) for numel, block in dims]


def _overflow(rows: Expr) -> list[Expr]:
    """Distributes `rows` over the second and third dimension, whose lengths are limited."""
    planes = ceildiv(rows, Int(MAX_Y_GRID))
    return [ceildiv(rows, max_(planes, _ONE)), planes]


def _grid_2d_overflow(blocks: _Blocks, meta: Meta) -> list[Expr]:
    columns, rows = (blocks.count(Sym(numel), block) for numel, block in (_X, _Y))
    return [columns, *_overflow(rows)]


def _numel(combo: Meta, name: str) -> Expr:
    numel = combo[name]
    return Sym(name) if numel is None else Int(int(numel))


def _at_least(total: Expr, combo: Meta) -> Expr:
    least = combo["min_blocks"]
    return max_(total, Int(int(least))) if least else total


def _combo(blocks: _Blocks, meta: Meta) -> list[Expr]:
    combo = meta["combo_grid_meta"]
    numbers = range(combo["num_kernels"])
    plain = [combo[f"no_x_dim_{i}"] for i in numbers]
    widths = [_numel(combo, f"xnumel_{i}") for i in numbers]
    columns = [w if p else blocks.count(w, "XBLOCK") for w, p in zip(widths, plain, strict=True)]
    return [_at_least(add(*columns), combo), *_combo_rows(blocks, combo)]


def _combo_rows(blocks: _Blocks, combo: Meta) -> list[Expr]:
    """Returns the second and third dimension of combined kernels, of which some may have rows."""
    names = (f"ynumel_{i}" for i in range(combo["num_kernels"]))
    heights = [_numel(combo, name) for name in names if name in combo]
    return _overflow(blocks.count(max_(*heights), "YBLOCK")) if heights else []


def _flat_combo(blocks: _Blocks, meta: Meta) -> list[Expr]:
    combo = meta["combo_grid_meta"]
    parts: list[Expr] = []
    for i in range(combo["num_kernels"]):
        part = _numel(combo, f"xnumel_{i}")
        if not combo[f"no_x_dim_{i}"]:
            part = blocks.count(part, f"XBLOCK_{i}")
        if f"ynumel_{i}" in combo:
            part = mul(part, blocks.count(_numel(combo, f"ynumel_{i}"), f"YBLOCK_{i}"))
        parts.append(part)
    return [_at_least(add(*parts), combo)]


def _round_robin(blocks: _Blocks, meta: Meta) -> list[Expr]:
    combo = meta["combo_grid_meta"]
    numbers = range(combo["num_kernels"])
    single = [_numel(combo, f"xnumel_{i}") for i in numbers if combo[f"no_x_dim_{i}"]]
    wide = [_numel(combo, f"xnumel_{i}") for i in numbers if not combo[f"no_x_dim_{i}"]]
    most = [*single, blocks.count(max_(*wide), "XBLOCK")] if wide else single
    grid = [_at_least(mul(max_(*most), Int(len(numbers))), combo)]
    return [*grid, *_combo_rows(blocks, combo)]


GRIDS: Mapping[str, Grid] = {
    "Grid1D": _covering(_X),
    "Grid2D": _covering(_X, _Y),
    "Grid3D": _covering(_X, _Y, _Z),
    "BatchMatmulGrid3D": _covering(_Z, _Y, _X),
    "Grid2DWithYZOverflow": _grid_2d_overflow,
    "MixOrderReductionGrid": _covering(("xnumel", "RSPLIT_SIZE")),
    "CooperativeReductionGrid": lambda blocks, meta: [Sym("RSPLIT"), blocks.count(Sym("xnumel"), "XBLOCK")],
    "SplitScanGrid": lambda blocks, meta: [blocks.count(Sym("r0_numel"), "R0_BLOCK"), Sym("xnumel")],
    "FixedGrid": lambda blocks, meta: [
        Int(g) if isinstance(g, int) else Sym(str(g)) for g in meta["fixed_grid"]
    ],
    "SequentialComboKernelGrid": _combo,
    "SequentialFlattenComboKernelGrid": _flat_combo,
    "RoundRobinComboKernelGrid": _round_robin,
}
"""Inductor's grid classes by name."""


def parse_size(kernel: str, text: str) -> Expr:
    """Parses a size that Inductor wrote in Python: integers, names, sums, products, floored quotients, minima
    and maxima.

    Raises ConversionError FE303 for anything else.
    """
    return _size(kernel, parse_expression(text))


def _size(kernel: str, node: ast.expr) -> Expr:
    match node:
        case ast.Constant(int(value)):
            return Int(value)
        case ast.Name(name):
            return Sym(name)
        case ast.UnaryOp(op=ast.USub(), operand=operand):
            return neg(_size(kernel, operand))
        case ast.BinOp(left=left, op=op, right=right) if type(op) in _OPERATORS:
            return _OPERATORS[type(op)](_size(kernel, left), _size(kernel, right))
        case ast.Call(func=ast.Name("max" | "min" as name), args=args, keywords=[]):
            parts = [_size(kernel, a) for a in args]
            return max_(*parts) if name == "max" else min_(*parts)
        case _:
            raise ConversionError("FE303", f"kernel {kernel} has a grid of {ast.unparse(node)!r}")


_OPERATORS: Mapping[type[ast.operator], Callable[[Expr, Expr], Expr]] = {
    ast.Add: add,
    ast.Sub: sub,
    ast.Mult: mul,
    ast.FloorDiv: floordiv,
}


def own_grids(kernel: str, meta: Meta, configs: Sequence[ir.TritonConfig]) -> tuple[ir.TritonConfig, ...]:
    """Returns the configs of a kernel whose configs have different grids, each with its grid."""
    result = []
    for config in configs:
        values = {**dict(config.meta), "num_warps": config.num_warps, "num_stages": config.num_stages}
        texts = next(
            (
                g["python"]
                for g in meta["precomputed_grids"]
                if all(values.get(k) == v for k, v in g["config"].items() if k in values)
            ),
            None,
        )
        if texts is None:
            raise ConversionError("FE303", f"kernel {kernel}: a config has no grid")
        result.append(replace(config, grid=tuple(parse_size(kernel, t) for t in texts)))
    return tuple(result)


def grid_of(kernel: str, meta: Meta, blocks: Sequence[str]) -> tuple[Expr, ...]:
    """Returns the grid of a kernel. `meta` is Inductor's metadata, `blocks` the meta-parameters of its
    configs.

    Raises ConversionError FE303 for an unknown grid class.
    """
    kind = str(meta.get("grid_type"))
    make = GRIDS.get(kind)
    if make is None:
        raise ConversionError("FE303", f"kernel {kernel} has a grid of class {kind}, which is not captured")
    defaults = (meta.get("combo_grid_meta") or {}).get("default_config")
    return tuple(make(_Blocks(blocks, defaults), meta))
