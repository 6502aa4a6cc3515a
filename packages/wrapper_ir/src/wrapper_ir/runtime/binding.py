"""The model's own arguments and results against `main`'s flat ones, for any callable that has a boxed form."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any, cast

from wrapper_ir.errors import ExecutionError
from wrapper_ir.expr import Bool, Float, Int
from wrapper_ir.ops import Arg
from wrapper_ir.protocols import CompiledProgram, Containers
from wrapper_ir.runtime.trees import flatten, unflatten
from wrapper_ir.signature import ConstantOutput, InputOutput, ResultOutput, Signature, StaticInput

__all__ = ["Native", "bind_inputs", "bind_outputs", "literal", "signature_call"]

Native = Callable[[Arg], Any]  # Any: the tensor library's own dtypes, devices and so on


def literal(value: Arg, native: Native | None = None) -> Any:  # Any: whatever the argument says
    """The Python object of a literal argument; `native` makes the tensor library's own ones."""
    if value is None or isinstance(value, str):
        return value
    if isinstance(value, Int | Float | Bool):
        return value.value
    if isinstance(value, tuple):
        return [literal(item, native) for item in value]
    if native is None:
        raise ExecutionError("WIR926", f"{value} is no plain literal")
    return native(value)


def _check_static(static: StaticInput, leaves: Sequence[object], name: str, native: Native | None) -> None:
    want, got = literal(static.value, native), leaves[static.leaf]
    same = type(got) is type(want) and got == want
    if not same:
        raise ExecutionError(
            "WIR926",
            f"input {name} was captured as {want!r} and cannot be {got!r}",
            hint="capture again with this value, or make it an input tensor",
        )


def bind_inputs(
    signature: Signature,
    args: Sequence[object],
    kwargs: Mapping[str, object],
    containers: Containers | None = None,
    native: Native | None = None,
) -> list[object]:
    """All input leaves of a call; raises ExecutionError WIR926 for a wrong structure or static input."""
    leaves = flatten(signature.inputs, (tuple(args), dict(kwargs)), containers)
    for static in signature.statics:
        name = signature.names[static.leaf] if static.leaf < len(signature.names) else f"#{static.leaf}"
        _check_static(static, leaves, name, native)
    return leaves


def bind_outputs(
    signature: Signature,
    leaves: Sequence[object],
    results: Sequence[object],
    containers: Containers | None = None,
    native: Native | None = None,
) -> object:
    """The model's output structure from `main`'s results."""
    outputs: list[object] = []
    for binding in signature.bindings:
        match binding:
            case ResultOutput(index=index):
                outputs.append(results[index])
            case InputOutput(leaf=leaf):
                outputs.append(leaves[leaf])
            case ConstantOutput(value=value):
                outputs.append(literal(value, native))
    return unflatten(signature.outputs, outputs, containers)


def signature_call(
    signature: Signature,
    boxed: Callable[[list[Any]], tuple[Any, ...]],
    write_back: Callable[[Any, Any], None],
    containers: Containers | None = None,
    native: Native | None = None,
) -> CompiledProgram:
    """A callable with the model's own signature over `boxed`, which it has as an attribute.

    `write_back(input, result)` copies a result into an input. Any emitter may use it; those that need speed write
    code of their own.
    """

    def call(*args: Any, **kwargs: Any) -> Any:
        leaves = bind_inputs(signature, args, kwargs, containers, native)
        results = boxed([leaves[leaf] for leaf in signature.params])
        for back in signature.write_backs:
            write_back(leaves[back.leaf], results[back.result])
        return bind_outputs(signature, leaves, results, containers, native)

    call.boxed = boxed  # type: ignore[attr-defined]  # functions take attributes
    return cast("CompiledProgram", call)  # a function with that attribute
