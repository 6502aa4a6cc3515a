"""Types the arguments of kernel calls: Inductor mixes buffer names with sizes, and writes both as text for
C++."""

from __future__ import annotations

from collections.abc import Iterable

import sympy
from torch._inductor import ir
from torch._inductor.virtualized import V

from inductor_frontend.errors import HookError
from inductor_frontend.record.events import BufferArg, LaunchArg


def cpp_args(texts: Iterable[object], types: Iterable[str]) -> tuple[LaunchArg, ...]:
    """Returns the arguments of a C++ kernel, all of which are text; `types` are C++ types."""
    pairs = zip(map(str, texts), types, strict=True)
    return tuple(BufferArg(text) if type.endswith("*") else _size(text) for text, type in pairs)


def triton_args(args: Iterable[object]) -> tuple[LaunchArg, ...]:
    """Returns the arguments of a Triton kernel. Text names a buffer or a size. Raises HookError FE202 for
    others."""
    return tuple(_triton_arg(arg) for arg in args)


def _triton_arg(arg: object) -> LaunchArg:
    match arg:
        case str():
            is_size = arg.lstrip("-").isdigit() or (
                _symbol(arg) is not None and V.graph.try_get_buffer(arg) is None
            )
            return _size(arg) if is_size else BufferArg(arg)
        case ir.IRNode() | sympy.Expr() | int() | float():
            return arg
        case _:
            raise HookError("FE202", f"argument {arg!r} of a kernel has type {type(arg).__name__}")


def _size(text: str) -> sympy.Expr | int:
    if text.lstrip("-").isdigit():
        return int(text)
    return _symbol(text) or sympy.Symbol(text, integer=True)


def _symbol(name: str) -> sympy.Symbol | None:
    """Returns Inductor's symbol of this name; None if it has none."""
    sizes = V.graph.sizevars
    symbols = (*sizes.inv_precomputed_replacements, *sizes.shape_env.var_to_range)
    return next((symbol for symbol in symbols if symbol.name == name), None)
