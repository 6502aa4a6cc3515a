"""Sizes that may be 0: torch takes the symbol of every size for positive, without a guard."""

from __future__ import annotations

import math
import sys
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import replace
from typing import Any

import sympy
import torch
from torch.export import AdditionalInputs, ExportedProgram, ShapesCollection
from torch.export.dynamic_shapes import _DimHint
from torch.utils import _pytree as pytree

from inductor_frontend.options import CaptureOptions
from inductor_frontend.torch_patches._compat import detect_shape_env
from inductor_frontend.torch_patches.replaced import replaced
from inductor_frontend.torch_patches.table import (
    FAKE_RESULTS,
    LAYOUT_QUESTIONS,
    MODEL_LAYOUT_QUESTIONS,
    SIZE_SYMBOLS,
)

# Any in this file: torch's own functions and their arguments.


def with_empty_sizes(
    options: CaptureOptions, dynamic_shapes: object, args: tuple[object, ...], kwargs: Mapping[str, object]
) -> CaptureOptions:
    """Returns the options, with `empty_sizes` if the dynamic shapes ask for it."""
    if options.empty_sizes or not asks_for_empty(dynamic_shapes, args, kwargs):
        return options
    return replace(options, empty_sizes=True)


def asks_for_empty(dynamic_shapes: object, args: tuple[object, ...], kwargs: Mapping[str, object]) -> bool:
    """Returns whether the user wrote that a size may be 0: `Dim.DYNAMIC(min=0)`, `Dim.AUTO(min=0)`, or an
    additional input with a size of 0 that is another one in the arguments. Torch gives `Dim("n")` a minimum
    of 0 as well, so `Dim("n", min=0)` asks for nothing."""
    match dynamic_shapes:
        case AdditionalInputs():
            examples = ((a, k or {}) for a, k in dynamic_shapes._examples)
            return any(_has_empty(example, (args, dict(kwargs))) for example in examples)
        case ShapesCollection():
            return asks_for_empty(list(dynamic_shapes._shapes.values()), args, kwargs)
        case _DimHint():
            return dynamic_shapes.min == 0
        case Mapping():
            return any(asks_for_empty(spec, args, kwargs) for spec in dynamic_shapes.values())
        case list() | tuple():
            return any(asks_for_empty(spec, args, kwargs) for spec in dynamic_shapes)
        case _:
            return False


def _has_empty(example: object, arguments: object) -> bool:
    pairs = zip(pytree.tree_leaves(example), pytree.tree_leaves(arguments))
    return any(
        size == 0 != own
        for tensor, argument in pairs
        if isinstance(tensor, torch.Tensor) and isinstance(argument, torch.Tensor)
        for size, own in zip(tensor.shape, argument.shape)
    )


@contextmanager
def nonnegative_sizes() -> Iterator[None]:
    """Makes sympy treat symbols of sizes as nonnegative instead of positive, while the context is active. A
    model that asks whether a tensor is empty then adds a guard, and so does a reduction that needs
    elements."""
    make, fake = SIZE_SYMBOLS.own(), FAKE_RESULTS.own()

    def make_symbol(*args: Any, **assumptions: object) -> Any:
        if assumptions.get("positive"):
            assumptions |= {"positive": None, "nonnegative": True}
        return make(*args, **assumptions)

    def dispatch(mode: Any, func: object, types: Any, args: object, kwargs: object) -> object:
        if func in _NEED_ELEMENTS:
            _check_elements(func, args, kwargs)
        return fake(mode, func, types, args, kwargs)

    changes = SIZE_SYMBOLS.by(make_symbol=make_symbol), FAKE_RESULTS.by(_dispatch_impl=dispatch)
    with replaced(*changes):
        yield


_aten = torch.ops.aten
_NEED_ELEMENTS = frozenset(
    (
        *(_aten.max.default, _aten.min.default, _aten.max.dim, _aten.min.dim),  # eager mode raises
        *(_aten.var_mean.correction, _aten.std_mean.correction),  # Inductor's mean of nothing is 0, not NaN
    )
)
"""Reductions whose kernels give numbers for no elements; torch's fake kernels of the others check them."""


def _check_elements(operator: Any, args: Any, kwargs: Any) -> None:
    tensor = args[0]
    dim = (kwargs or {}).get("dim", args[1] if len(args) > 1 else None)
    dims = [dim] if isinstance(dim, int) else dim or range(tensor.dim())
    count = math.prod(tensor.size(d) for d in dims) if tensor.dim() else 1
    check: Callable[..., None] = torch._check  # torch has no types for it
    check(count != 0, lambda: f"{operator} needs elements")


@contextmanager
def layouts_of_empty_tensors() -> Iterator[None]:
    """Makes operators in C++ lay an empty tensor out like any other, while the context is active. They ask
    whether a tensor is empty to copy less (an empty tensor is contiguous), not to compute other values; the
    answer "no" adds no guard. Questions of the model itself, also by `is_contiguous`, add guards."""
    guard, contiguous = LAYOUT_QUESTIONS.own(), MODEL_LAYOUT_QUESTIONS.own()
    asking: list[None] = []

    def guard_bool(node: Any, file: str, line: int) -> object:
        answer = _if_not_empty(node.expr) if file.endswith(_OPERATORS) and not asking else None
        return guard(node, file, line) if answer is None else answer

    def is_contiguous(tensor: Any, *args: Any, **kwargs: Any) -> object:
        if sys._getframe(1).f_globals.get("__name__", "").startswith("torch."):
            return contiguous(tensor, *args, **kwargs)
        asking.append(None)
        try:
            return contiguous(tensor, *args, **kwargs)
        finally:
            asking.pop()

    changes = (
        LAYOUT_QUESTIONS.by(guard_bool=guard_bool),
        MODEL_LAYOUT_QUESTIONS.by(is_contiguous=is_contiguous),
    )
    with replaced(*changes):
        yield


def guard_again(program: ExportedProgram) -> None:
    """Lets torch guard what later stages assume about sizes.

    A program that was exported with run-time checks in place of guards would lose checks of stages after the
    export.
    """
    env = detect_shape_env([node.meta.get("val") for node in program.graph.nodes])
    if env is not None:
        env.settings = replace(env.settings, prefer_deferred_runtime_asserts_over_guards=False)


_OPERATORS = "SymInt.h"  # comparisons in C++; checks in C++ name other files


def _if_not_empty(question: sympy.Basic) -> bool | None:
    """Evaluates `expr == 0` or `expr != 0` for positive sizes. Returns None for other conditions, and if the
    sizes do not decide."""
    if not isinstance(question, sympy.Eq | sympy.Ne) or sympy.S.Zero not in question.args:
        return None
    symbols = [s for s in question.free_symbols if s.is_nonnegative and not s.is_positive]
    answer = question.xreplace({s: sympy.Symbol(s.name, integer=True, positive=True) for s in symbols})
    return bool(answer) if answer in (sympy.true, sympy.false) else None
