"""Traceable replacements of operators that return a data-dependent Python bool.

torch refuses to trace them, because the model may branch on the result. If the result is only an operand, or
returned, it can be a symbol instead.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from types import MappingProxyType
from typing import Any

import torch
from torch import Tensor
from torch.overrides import TorchFunctionMode

# Any in this file: the arguments of any torch function, and bools that may be symbols.


def _equal(a: Tensor, b: Tensor) -> object:
    return a.shape == b.shape and (a == b).all().item()


def _allclose(*args: Any, **kwargs: Any) -> object:
    return torch.isclose(*args, **kwargs).all().item()


_REWRITTEN: Mapping[Callable[..., object], Callable[..., object]] = MappingProxyType(
    {torch.equal: _equal, Tensor.equal: _equal, torch.allclose: _allclose, Tensor.allclose: _allclose}
)


def is_data_predicate(op: object) -> bool:
    """Returns whether an operator is `equal` or `allclose`."""
    return op in (torch.ops.aten.equal.default, torch.ops.aten.allclose.default)


class TracedPredicates(TorchFunctionMode):
    """Function mode in which these calls return symbolic bools."""

    def __torch_function__(
        self,
        func: Callable[..., object],
        types: object,
        args: tuple[object, ...] = (),
        kwargs: dict[str, object] | None = None,
    ) -> object:
        """Calls the replacement of `func`, or `func` itself."""
        if torch.compiler.is_dynamo_compiling():  # Dynamo also traces this mode, for bodies of control flow
            return func(*args, **(kwargs or {}))
        return _REWRITTEN.get(func, func)(*args, **(kwargs or {}))
