"""Operators by their names, higher-order ones among them.

Of torch's higher-order operators a program may call those whose calls have a schema of their own.
`higher_order::print.Tensor(str format_str, Tensor arg0) -> ()` prints; the overload tells calls with other arguments
apart. `higher_order::run_with_rng_state.aten__rand__default(Tensor rng_state, SymInt[] size, ...) -> Tensor` runs
`aten::rand` from a given state of the random generator: the overload names the operator.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import lru_cache
from typing import Any

import torch

from wrapper_ir import ir
from wrapper_ir.errors import NotSupportedError
from wrapper_ir.operators.policy import inner_operator
from wrapper_ir_torch._compat import is_overload, registered_symmetric, torch_operators

HIGHER_ORDER = "higher_order"
"""The namespace of operators that take functions."""
RUNNERS: Mapping[str, int] = {"run_and_save_rng_state": 0, "run_with_rng_state": 1}
"""Where the operator that is run stands among the arguments of a higher-order one."""


@dataclass(frozen=True, slots=True)
class Operator:
    """What is called; for a higher-order operator that runs another one, at which argument, and which. Any: whatever
    operators take and return."""

    function: Callable[..., Any]
    position: int | None = None
    inner: Any = None

    def call(self) -> Callable[..., Any]:
        """The same as one function of the arguments that the schema has."""
        function, position, inner = self.function, self.position, self.inner
        if position is None:
            return function
        return lambda *args, **kwargs: function(*args[:position], inner, *args[position:], **kwargs)


@lru_cache(maxsize=4096)
def resolve(extern: ir.ExternDef) -> Operator:
    """What `extern` names; raises NotSupportedError WIR914 where no library has registered it, and WIR919 where it does
    more than is declared."""
    namespace, operator, overload = ir.overload_path(extern.name)
    try:
        packet = getattr(torch_operators(namespace), operator)  # operators are found by name
        if namespace == HIGHER_ORDER:
            return _higher_order(packet, operator, overload)
        found = getattr(packet, overload)
        if not is_overload(found):
            raise AttributeError(f"it is a {type(found).__name__}")
        ir.require_effects(extern, str(found._schema), registered_symmetric(found))
        return Operator(found)
    except NotSupportedError:  # of what it does, or of a group
        raise
    except (AttributeError, RuntimeError, TypeError) as error:  # TypeError: lone surrogates in the name
        raise NotSupportedError(
            "WIR914",
            f"torch has no operator {extern.name}: {error}",
            hint="import the library that registers the operator before loading the program",
        ) from error


def _higher_order(packet: Any, operator: str, overload: str) -> Operator:
    if not isinstance(packet, torch._ops.HigherOrderOperator):
        raise AttributeError(f"it is a {type(packet).__name__}")
    if operator not in RUNNERS:
        return Operator(packet)
    names = inner_operator(overload)
    if not names:
        raise AttributeError(f"{overload!r} names no operator to run")
    inner: Any = torch.ops
    for name in names:
        inner = getattr(inner, name)
    return Operator(packet, RUNNERS[operator], inner)
