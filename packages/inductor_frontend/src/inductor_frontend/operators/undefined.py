"""Results of operators that are undefined although their meta functions return tensors.

They are listed by name: no other operator in torch's operator database has this property. If a meta function
itself returns None (`output_mask` of backward operators), Inductor creates no node.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from types import MappingProxyType
from typing import Any

from torch._inductor import ir
from torch._ops import OpOverload


# Any in this file: arguments of operators, by name.
def _has_no_weights(args: Mapping[str, Any]) -> bool:
    return not args["need_weights"] or any(size == 0 for size in args["query"].get_size())


_UNDEFINED: Mapping[tuple[str, int], Callable[[Mapping[str, object]], bool]] = MappingProxyType(
    {("aten::_native_multi_head_attention", 1): _has_no_weights}
)
"""By operator and position of the result: returns whether a call with these arguments leaves it undefined."""


def is_undefined(node: ir.MultiOutput) -> bool:
    """Returns whether a result of an operator is None at run time."""
    call = node.inputs[0]
    operator = getattr(call, "op_overload", None)  # other kernel classes lack it
    if not isinstance(operator, OpOverload) or not isinstance(call, ir.FallbackKernel):
        return False
    if len(node.indices) != 1:
        return False
    predicate = _UNDEFINED.get((operator._schema.name, node.indices[0][1]))
    return predicate is not None and predicate(_named(operator, call))


def _named(operator: OpOverload, call: ir.FallbackKernel) -> dict[str, object]:
    """Returns the arguments of a call by name, including defaults."""
    args, kwargs = call.unflatten_args(call.inputs, call.constant_args)
    declared = operator._schema.arguments
    positional = {arg.name: value for arg, value in zip(declared, args)}
    defaults = {arg.name: arg.default_value for arg in declared if arg.has_default_value()}
    return {**defaults, **call.kwargs, **kwargs, **positional}
