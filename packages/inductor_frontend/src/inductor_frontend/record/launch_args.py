"""The arguments of kernel calls, typed: Inductor mixes names of buffers with sizes, and writes both as text for C++."""

from __future__ import annotations

from collections.abc import Iterable

import sympy
from torch._inductor import ir
from torch._inductor.virtualized import V

from inductor_frontend.errors import HookError
from inductor_frontend.record.events import BufferArg, LaunchArg


def cpp_args(texts: Iterable[object], types: Iterable[str]) -> tuple[LaunchArg, ...]:
    """The arguments of a C++ kernel, which all are text; `types` are C++'s."""
    pairs = zip(map(str, texts), types, strict=True)
    return tuple(BufferArg(text) if type.endswith("*") else _size(text) for text, type in pairs)


def triton_args(given: Iterable[object]) -> tuple[LaunchArg, ...]:
    """The arguments of a Triton kernel: text names buffers, and perhaps sizes. Raises HookError FE202 for others."""
    return tuple(_triton_arg(arg) for arg in given)


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
            raise HookError("FE202", f"a kernel is given {arg!r} of type {type(arg).__name__}")


def _size(text: str) -> sympy.Expr | int:
    if text.lstrip("-").isdigit():
        return int(text)
    found = _symbol(text)
    return sympy.Symbol(text, integer=True) if found is None else found


def _symbol(name: str) -> sympy.Symbol | None:
    """Inductor's symbol of this name."""
    sizes = V.graph.sizevars
    known = (*sizes.inv_precomputed_replacements, *sizes.shape_env.var_to_range)
    return next((symbol for symbol in known if symbol.name == name), None)
