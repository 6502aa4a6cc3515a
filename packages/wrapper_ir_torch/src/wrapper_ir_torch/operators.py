"""Operators by their names, including higher-order ones.

Programs may call those higher-order operators of torch whose calls have their own schema.
`higher_order::print.Tensor(str format_str, Tensor arg0) -> ()` prints; the overload distinguishes calls with
other arguments. `higher_order::run_with_rng_state.aten__rand__default(Tensor rng_state, SymInt[] size, ...)
-> Tensor` runs `aten::rand` from a given state of the random generator: the overload names the operator.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import lru_cache

import torch

from wrapper_ir import ir
from wrapper_ir.errors import NotSupportedError
from wrapper_ir.operators.policy import inner_operator
from wrapper_ir_torch._compat import OpOverload, is_overload, registered_symmetric, torch_operators

HIGHER_ORDER = "higher_order"
"""The namespace of operators that accept functions."""
RUNNERS: Mapping[str, int] = {"run_and_save_rng_state": 0, "run_with_rng_state": 1}
"""The position of the inner operator among the arguments of a higher-order one."""


@dataclass(frozen=True, slots=True)
class Operator:
    """An operator that programs call. A higher-order operator that runs another one has the `inner` operator,
    and its `position` among the arguments."""

    function: Callable[..., object]
    position: int | None = None
    inner: OpOverload | None = None

    def call(self) -> Callable[..., object]:
        """Returns one function of the arguments of the schema."""
        function, position, inner = self.function, self.position, self.inner
        if position is None:
            return function
        return lambda *args, **kwargs: function(*args[:position], inner, *args[position:], **kwargs)


@lru_cache(maxsize=4096)
def resolve(extern: ir.ExternDef) -> Operator:
    """Returns the operator that `extern` names. Raises NotSupportedError WIR914 if no library has registered
    it, and WIR919 if it has effects that are not declared."""
    namespace, operator, overload = ir.overload_path(extern.name)
    try:
        packet = getattr(torch_operators(namespace), operator)  # operators are found by name
        if namespace == HIGHER_ORDER:
            return _higher_order(packet, operator, overload)
        operation = getattr(packet, overload)
        if not is_overload(operation):
            raise AttributeError(f"it is a {type(operation).__name__}")
        ir.require_effects(extern, str(operation._schema), registered_symmetric(operation))
        return Operator(operation)
    except NotSupportedError:  # from the check of effects, or from a group
        raise
    except (AttributeError, RuntimeError, TypeError) as error:  # TypeError: lone surrogates in the name
        raise NotSupportedError(
            "WIR914",
            f"torch has no operator {extern.name}: {error}",
            hint="import the library that registers the operator before loading the program",
        ) from error


def _higher_order(packet: object, operator: str, overload: str) -> Operator:
    if not isinstance(packet, torch._ops.HigherOrderOperator):
        raise AttributeError(f"it is a {type(packet).__name__}")
    if operator not in RUNNERS:
        return Operator(packet)
    names = inner_operator(overload)
    if not names:
        raise AttributeError(f"{overload!r} names no operator to run")
    inner: object = torch.ops
    for name in names:
        inner = getattr(inner, name)
    if not is_overload(inner):
        raise AttributeError(f"{overload!r} names no operator to run")
    return Operator(packet, RUNNERS[operator], inner)
