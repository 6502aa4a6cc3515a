"""Operators that answer a question about data with a Python bool, in terms of operators that can be traced.

Torch refuses to trace them, because their result decides what the model does next. Where it is only computed with,
or returned, it can be a symbol instead.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from types import MappingProxyType
from typing import Any

import torch
from torch import Tensor
from torch.overrides import TorchFunctionMode

# Any in this file: the arguments of any torch function, and bools that may be symbols.


def _equal(a: Tensor, b: Tensor) -> Any:
    return a.shape == b.shape and (a == b).all().item()


def _allclose(*args: Any, **kwargs: Any) -> Any:
    return torch.isclose(*args, **kwargs).all().item()


_REWRITTEN: Mapping[Callable[..., Any], Callable[..., Any]] = MappingProxyType(
    {
        torch.equal: _equal,
        Tensor.equal: _equal,
        torch.allclose: _allclose,
        Tensor.allclose: _allclose,
    }
)


def is_data_predicate(op: object) -> bool:
    """Whether an operator is one of these."""
    return op in (torch.ops.aten.equal.default, torch.ops.aten.allclose.default)


class TracedPredicates(TorchFunctionMode):
    """While this mode is on, such calls give symbolic bools."""

    def __torch_function__(
        self,
        func: Callable[..., Any],
        types: object,
        args: tuple[Any, ...] = (),
        kwargs: dict[str, Any] | None = None,
    ) -> Any:
        """Calls what stands for `func`, or `func` itself."""
        if torch.compiler.is_dynamo_compiling():  # it traces this mode too, for the bodies of control flow
            return func(*args, **(kwargs or {}))
        return _REWRITTEN.get(func, func)(*args, **(kwargs or {}))
