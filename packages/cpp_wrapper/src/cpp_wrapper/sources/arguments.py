"""Writes arguments of operators as their functions in C take them."""

from __future__ import annotations

import re

from cpp_wrapper.errors import EmitError
from cpp_wrapper.sources.scalars import number_tensor
from cpp_wrapper.sources.scope import FunctionScope, dtype_text
from cpp_wrapper.sources.shims import C_TYPES, GENERATOR, parsed
from wrapper_ir import ir
from wrapper_ir.expr import Expr, Int
from wrapper_ir.support.quoting import cpp_string
from wrapper_ir_lowering import steps


def shim_argument(type: str, value: ir.Arg, scope: FunctionScope) -> list[str]:
    """Returns the texts of an argument of a schema's type: one, or two for lists and devices."""
    base, inner, is_list, optional = parsed(type)
    if type == GENERATOR and value is None:
        return []
    if base == "Device":
        if value is None:
            return ["nullptr", "0"]
        is_gpu = on_gpu(value, scope)
        device = f"aoti_torch_device_type_{'cuda' if is_gpu else 'cpu'}()"
        return [f"opt<int32_t>({device})" if optional else device, "run.gpu.index" if is_gpu else "0"]
    if is_list:
        return _list(base, inner, optional, value, scope)
    if base == "Tensor":
        if value is None:
            return ["nullptr"]
        return [f"&{tensor_argument(value, scope)}" if optional else tensor_argument(value, scope)]
    if value is None:
        return ["nullptr"]
    text = _scalar(base, value, scope)
    return [f"opt<{C_TYPES[base]}>({text})" if optional else text]


def _scalar(base: str, value: ir.Arg, scope: FunctionScope) -> str:
    match base, value:
        case "str" | "Any", str():  # Any: a group, which the shim accepts by name
            return cpp_string(value)
        case "Scalar" | "float", Expr():
            return scope.real(value)
        case "bool", Expr():
            return scope.truth(value)
        case "int" | "SymInt", Expr():
            return f"raw({scope.number(value)})"
        case _:
            return enumeration(value, scope)


def _list(base: str, inner: bool, optional: bool, value: ir.Arg, scope: FunctionScope) -> list[str]:
    if value is None:
        return ["nullptr", "0"]
    if not isinstance(value, tuple):
        raise scope.error("CPP505", f"{value!r} is not a list")
    count = str(len(value))
    if base == "Tensor":
        if inner:
            texts = ["nullptr" if v is None else f"&{tensor_argument(v, scope)}" for v in value]
            return [f"optional_tensors({{{', '.join(texts)}}})", count]
        text = f"tensors({{{', '.join(tensor_argument(v, scope) for v in value)}}})"
    else:
        function = {"int": "ints", "SymInt": "ints", "bool": "flags"}.get(base, "numbers")
        texts = [_scalar(base, v, scope).removeprefix("raw") for v in value]
        if function == "flags":
            texts = [f"{text} ? 1 : 0" for text in texts]
        text = f"{function}({{{', '.join(_bare(t) for t in texts)}}})"
    return [f"opt<const {C_TYPES[base]}*>({text})" if optional else text, count]


def _bare(text: str) -> str:
    """A number without brackets around it."""
    return text[1:-1] if re.fullmatch(r"\(-?\w+\)", text) else text


def tensor_argument(value: ir.Arg, scope: FunctionScope) -> str:
    """The handle of a tensor, or of a number that stands for one."""
    if isinstance(value, ir.Value):
        return scope.handle(value)
    step = scope.step
    assert isinstance(step, steps.CallOperator | steps.StartCollective)
    if not (handle := number_tensor(value, step, scope)):
        raise refused(step, f"no tensor means the same as the number {value}", scope)
    scope.numbers_made.append(handle)
    return handle


def on_gpu(value: ir.Arg, scope: FunctionScope) -> bool:
    """Returns whether a device argument is the program\'s device."""
    if not isinstance(value, ir.Device):
        raise scope.error("CPP505", f"{value!r} is not a device")
    return scope.on_gpu(value)


def enumeration(value: ir.Arg, scope: FunctionScope) -> str:
    """Returns the text of an element type, a memory format or a layout."""
    match value:
        case ir.DType():
            return dtype_text(value)
        case ir.MemoryFormat():
            return f"aoti_torch_memory_format_{value.value}()"
        case ir.Layout():
            return f"aoti_torch_layout_{value.value}()"
        case Int():  # a default value of the schema
            return str(value.value)
        case _:
            raise scope.error("CPP505", f"{value!r} has no C++ text")


def refused(step: steps.CallOperator | steps.StartCollective, why: str, scope: FunctionScope) -> EmitError:
    """Returns an error for a call that no C function of torch expresses."""
    name = step.operator.extern.name
    hint = "emit the program with py_wrapper or fx_converter"
    return scope.error("CPP502", f"operator {name} can be called by no C function of torch: {why}", hint)
