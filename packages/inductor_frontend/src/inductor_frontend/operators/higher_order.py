"""Higher-order operators that a library can call: each call has a separate schema.

They are declared like other operators, in the namespace `higher_order`. The overload name distinguishes calls
with different schemas. For an operator that runs another operator, it contains the name of the latter.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence

from torch._ops import HigherOrderOperator, OpOverload

from inductor_frontend.errors import ConversionError
from inductor_frontend.operators.schemas import extern_def
from wrapper_ir import ir
from wrapper_ir.expr import Expr, SymKind

_NUMBERS = {SymKind.INT: "SymInt", SymKind.FLOAT: "float", SymKind.BOOL: "bool"}
_NAME = re.compile(r"(?<!,) \w+(?=[,)])")
"""Matches the name of one of several results: `(Tensor output, Tensor logsumexp)`."""
_RUNNERS = {"run_and_save_rng_state": 0, "run_with_rng_state": 1}


def takes_operator(operator: HigherOrderOperator) -> int | None:
    """Returns the position of the operator that `operator` runs with a random state; None for any other
    operator."""
    return _RUNNERS.get(str(operator))


def random_def(operator: HigherOrderOperator, inner: OpOverload) -> ir.ExternDef:
    """Declares an operator that draws random numbers, with the random state as an argument or as a result."""
    declared = extern_def(inner)
    name, _, rest = declared.schema.partition("(")
    arguments, _, returns = rest.rpartition(") -> ")
    if str(operator) == "run_with_rng_state":
        arguments = f"Tensor rng_state, {arguments}" if arguments else "Tensor rng_state"
    else:
        returns = f"(Tensor, {_unnamed(returns)})"
    overload = "__".join((inner.namespace, name.split("::")[1].split(".")[0], inner._overloadname))
    schema = f"higher_order::{operator}.{overload}({arguments}) -> {returns}"
    return ir.ExternDef(
        schema=schema,
        # The host reads or sets the device's random state, which is not possible while a CUDA graph is
        # captured.
        tags=tuple(
            dict.fromkeys(
                (*declared.tags, ir.ExternTag.RANDOM, ir.ExternTag.PYTHON_ONLY, ir.ExternTag.CUDAGRAPH_UNSAFE)
            )
        ),
        symmetric=declared.symmetric,
    )


def _unnamed(returns: str) -> str:
    """Removes the names of results: a result inside other results has none."""
    return _NAME.sub("", returns)


def print_def(args: Sequence[ir.Arg], kwargs: Mapping[str, ir.Arg]) -> ir.ExternDef:
    """Declares the operator that prints a line to standard output: a `str.format` string and the values of
    its fields.

    Raises ConversionError FE302 for a value without a schema type.
    """
    fields = [_kind(a) for a in args[1:]]
    keywords = {name: _kind(a) for name, a in kwargs.items()}
    overload = "_".join([*fields, *(f"{name}_{kind}" for name, kind in keywords.items())]) or "text"
    declared = ["str format_str", *(f"{kind} arg{i}" for i, kind in enumerate(fields))]
    if keywords:
        declared += ["*", *(f"{kind} {name}" for name, kind in keywords.items())]
    schema = f"higher_order::print.{overload}({', '.join(declared)}) -> ()"
    return ir.ExternDef(
        schema=schema, tags=(ir.ExternTag.EFFECTFUL, ir.ExternTag.HOST_IO, ir.ExternTag.PYTHON_ONLY)
    )


def _kind(value: ir.Arg) -> str:
    """Returns the schema type of an argument."""
    match value:
        case ir.Value(type=ir.TensorType()):
            return "Tensor"
        case Expr():
            return _NUMBERS[value.kind]
        case str():
            return "str"
        case _:
            raise ConversionError(
                "FE302", f"{value!r} cannot be printed", hint="print tensors, numbers and texts, one by one"
            )
