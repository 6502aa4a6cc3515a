"""The check of a graph's inputs."""

from __future__ import annotations

from collections.abc import Sequence
from functools import lru_cache
from typing import Any

import torch
from torch._subclasses.fake_tensor import FakeTensor

from fx_converter._compat import has_effect, is_watched
from wrapper_ir.inputs import Input, NumberInput, TensorInput
from wrapper_ir.runtime import InputGuard

__all__ = ["check_inputs", "described", "expectation", "input_guard"]

# Any in this file: arguments of every kind
Expectation = tuple[Any, ...]
"""An input's description as arguments of nodes can hold it."""
_SYMBOLIC = (torch.SymInt, torch.SymFloat, torch.SymBool, FakeTensor)
"""What stands for inputs while torch looks at a graph."""


def expectation(want: Input) -> Expectation:
    """A description as plain tuples, for a node."""
    if isinstance(want, NumberInput):
        return (want.name, want.kind)
    more = (want.or_cpu, want.apart) if want.or_cpu or want.apart else ()
    return (want.name, want.text, want.dtype, want.device, want.sizes, want.strides, *more)


def described(expected: Expectation) -> Input:
    """The description that a node holds."""
    if len(expected) == 2:
        return NumberInput(name=expected[0], kind=expected[1])
    name, text, dtype, device, sizes, strides, *more = expected
    return TensorInput(
        name=name,
        text=text,
        dtype=dtype,
        device=device,
        sizes=tuple(sizes),
        strides=tuple(strides),
        or_cpu=bool(more and more[0]),
        apart=tuple(more[1]) if more else (),
    )


class _Guard(InputGuard):
    """Passes what stands for inputs while torch traces a graph again."""

    def check(self, *given: Any) -> None:
        """See `InputGuard`."""
        if not (is_watched() or any(isinstance(x, _SYMBOLIC) for x in given)):
            super().check(*given)


def input_guard(expected: Sequence[Expectation]) -> InputGuard:
    """The check for these descriptions."""
    return _Guard(torch, *map(described, expected))


@lru_cache(maxsize=256)
def _known_guard(expected: tuple[Expectation, ...]) -> InputGuard:
    return input_guard(expected)


@has_effect
def check_inputs(given: Sequence[Any], expected: Sequence[Expectation]) -> None:
    """Raises ExecutionError WIR926 for an argument of another class, dtype or device, and WIR921 for one of another layout.
    Torch knows that the call has an effect."""
    _known_guard(tuple(expected)).check(*given)
