"""Results of operators that are no tensors although their meta functions say so.

A table of names: the operator database of torch has no other operator whose meta function gives a tensor for a result that is
undefined. Where meta functions say it themselves (`output_mask` of backward operators), Inductor makes no node of it.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from types import MappingProxyType
from typing import Any

from torch._inductor import ir
from torch._ops import OpOverload


# Any in this file: arguments of operators, by name
def _has_no_weights(args: Mapping[str, Any]) -> bool:
    return not args["need_weights"] or any(size == 0 for size in args["query"].get_size())


_UNDEFINED: Mapping[tuple[str, int], Callable[[Mapping[str, Any]], bool]] = MappingProxyType(
    {("aten::_native_multi_head_attention", 1): _has_no_weights}
)
"""By operator and position of the result, whether a call with these arguments leaves it undefined."""


def is_undefined(node: ir.MultiOutput) -> bool:
    """Whether a result of an operator is None at run time."""
    call = node.inputs[0]
    operator = getattr(call, "op_overload", None)  # which kernels of other kinds lack
    if not isinstance(operator, OpOverload) or not isinstance(call, ir.FallbackKernel):
        return False
    if len(node.indices) != 1:
        return False
    asked = _UNDEFINED.get((operator._schema.name, node.indices[0][1]))
    return asked is not None and asked(_named(operator, call))


def _named(operator: OpOverload, call: ir.FallbackKernel) -> dict[str, Any]:
    """The arguments of a call by name, defaults among them."""
    args, kwargs = call.unflatten_args(call.inputs, call.constant_args)
    declared = operator._schema.arguments
    given = {arg.name: value for arg, value in zip(declared, args)}
    defaults = {arg.name: arg.default_value for arg in declared if arg.has_default_value()}
    return {**defaults, **call.kwargs, **kwargs, **given}
