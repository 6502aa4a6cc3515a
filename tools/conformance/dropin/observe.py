"""Observes one call: results, arguments, gradients, identity of tensors, and the random state afterwards."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor
from torch.utils import _pytree as pytree

from tools.conformance.dropin.table import Program

# Any in this file: arguments and results of any function.
FIXED, DYNAMIC = (4,), (5, 7, 3)


@dataclass(frozen=True, slots=True)
class Seen:
    """The result of one call, as a tree of plain tensors and values, or the error; and which leaves are one
    object.
    """

    tree: Any = None
    same: tuple[tuple[int, ...], ...] = ()
    error: str = ""
    bases: tuple[str, ...] = ()
    """The classes of the error, by which callers catch it."""
    compiles: bool = True
    """True if an error came from the call and not from compilation."""


def outcomes(program: Program, backend: str, *, dynamic: bool) -> list[Seen]:
    """Returns the outcomes of calls of a freshly compiled program, one for each size."""
    torch._dynamo.reset()
    flags = {"capture_scalar_outputs": True, "capture_dynamic_output_shape_ops": True}
    options: Any = {"cache": False} if backend == "wrapper_ir" else None
    results = []
    with torch._dynamo.config.patch(flags):
        compiled = torch.compile(program.function, backend=backend, dynamic=dynamic, options=options)
        for n in DYNAMIC if dynamic else FIXED:
            results.append(_seen(compiled, program.args(n)))
    return results


def _seen(run: Callable[..., Any], args: Sequence[Any]) -> Seen:
    torch.manual_seed(11)
    try:
        results = run(*args)
        gradients = _gradients(results, args)
    except Exception as error:  # of any class: classes are compared
        return _failed(error)
    leaves = [x for x in pytree.tree_leaves((results, args)) if isinstance(x, Tensor)]
    first = {id(x): i for i, x in reversed([*enumerate(leaves)])}
    facts = [(first[id(x)], x.requires_grad, x._version, *_layout(x)) for x in leaves]
    return Seen(tree=(results, args, gradients, torch.rand(1)), same=tuple(facts))


def _failed(error: Exception) -> Seen:
    compiling = any(
        c.__module__.startswith(("torch._dynamo", "torch._inductor")) for c in type(error).__mro__[:-3]
    )
    bases = tuple(c.__name__ for c in type(error).__mro__)
    return Seen(error=bases[0], bases=bases, compiles=not compiling)


def _layout(x: Tensor) -> tuple[Any, ...]:
    return (tuple(x.stride()), x.storage_offset()) if x.layout is torch.strided and not _wraps(x) else ()


def _wraps(x: Tensor) -> bool:
    return type(x) is not Tensor and type(x) is not torch.nn.Parameter


def _gradients(results: Any, args: Sequence[Any]) -> list[Any]:
    leaves = [x for x in pytree.tree_leaves(args) if isinstance(x, Tensor) and x.requires_grad and x.is_leaf]
    losses = [x for x in pytree.tree_leaves(results) if isinstance(x, Tensor) and x.grad_fn is not None]
    if not leaves or not losses:
        return [x.grad for x in leaves]
    total = sum((x.abs() if x.is_complex() else x).sum() for x in losses)
    assert isinstance(total, Tensor)
    return list(torch.autograd.grad(total, leaves, allow_unused=True))


def difference(stock: Sequence[Seen], ours: Sequence[Seen]) -> str:
    """Describes the difference between ours and stock, or "" if they are equal.

    Programs that stock cannot compile are not compared.
    """
    for number, (a, b) in enumerate(zip(stock, ours, strict=True)):
        if a.error and not a.compiles:
            continue
        if a.error != b.error and a.error not in b.bases:
            return f"call {number}: {b.error or 'no error'}, stock has {a.error or 'none'}"
        if a.same != b.same:
            return f"call {number}: objects and layouts {b.same}, stock has {a.same}"
        try:
            for x, y in zip(_leaves(b), _leaves(a), strict=True):
                if isinstance(y, Tensor | bool | int | float | complex):
                    torch.testing.assert_close(x, y, equal_nan=True, check_stride=False)
                else:
                    assert x == y, f"{x!r}, stock has {y!r}"
        except (AssertionError, TypeError, ValueError) as error:
            return f"call {number}: {error}"
    return ""


def _leaves(seen: Seen) -> list[Any]:
    """Returns tensors and values, without their container objects: two optimizers are never equal."""
    return [_plain(x) if isinstance(x, Tensor) else x for x in pytree.tree_leaves(seen.tree)]


def _plain(x: Tensor) -> Any:
    if x.layout is not torch.strided:
        return x.to_dense()
    return x.detach()
