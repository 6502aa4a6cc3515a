"""Operators without a suitable C function in torch, written as equivalent calls.

`full` is `fill_` of new memory, `add` of integers a sum, `add.out` a sum and a copy, `addmm` is `addmm.out`
into new memory, `constant_pad_nd` is `pad`, and a correction of 0 or 1 a bool. `prims` that Inductor calls,
which are registered in Python, are written as their Python code does.
"""

from __future__ import annotations

from collections.abc import Mapping

from cpp_wrapper.sources.matmuls import write_matmul
from cpp_wrapper.sources.native import is_on_device
from cpp_wrapper.sources.scalars import is_whole, keeps_meaning, wide_number
from cpp_wrapper.sources.scope import FunctionScope, dtype_text
from wrapper_ir import ir
from wrapper_ir.expr import Expr, Float, Int
from wrapper_ir_lowering import steps

_ADDMM = "aoti_torch_{}_addmm_out"
_ADDMM_PARAMETERS = (
    "AtenTensorHandle out, AtenTensorHandle self, AtenTensorHandle mat1, AtenTensorHandle mat2, double beta, "
    "double alpha"
)
_ADD = "aoti_torch_{}_add_Tensor"
_ADD_PARAMETERS = "AtenTensorHandle self, AtenTensorHandle other, double alpha, AtenTensorHandle* ret0"

NATIVE_EXACT = ("aten::add.Tensor", "prims::convert_element_type")
"""Operators that are written so for the native runtime, too."""


def write_exactly(step: steps.CallOperator, scope: FunctionScope) -> bool:
    """Writes equivalent calls. Returns False if there are none."""
    if scope.module.native is not None and (
        step.operator.extern.name not in NATIVE_EXACT or is_on_device(step)
    ):
        return False
    match step.operator.extern.name:
        case "aten::full":
            return _full(step, scope)
        case "aten::addmm":
            return _addmm(step, scope)
        case "aten::constant_pad_nd":
            return _pad(step, scope)
        case "aten::var.correction" | "aten::std.correction":
            return _spread(step, 1, scope)
        case "aten::var_mean.correction" | "aten::std_mean.correction":
            return _spread(step, 2, scope)
        case "prims::convert_element_type":
            return _convert(step, scope)
        case "prims::normal":
            return _normal(step, scope)
        case "aten::add.Tensor" if isinstance(step.result, ir.Value):
            return _add_whole(step, scope.bind(step.result), scope) if _is_whole_sum(step) else False
        case "aten::add.out" if step.result is None and (_is_whole_sum(step) or keeps_meaning(step)):
            return _add_into(step, scope)
        case _:
            return False


def _device_type(step: steps.CallOperator, scope: FunctionScope) -> str:
    """Returns the device type of the first tensor."""
    device = next(a.value.type.device for a in step.arguments if ir.is_tensor(a.value))
    return "cuda" if scope.on_gpu(device) else "cpu"


def _values(step: steps.CallOperator) -> Mapping[str, ir.Arg]:
    return {a.schema.name: a.value for a in step.arguments}


def _new(step: steps.CallOperator, scope: FunctionScope) -> str:
    """Allocates memory for the result and returns its handle; '' if the result is not a tensor."""
    result = step.result
    if result is None or not ir.is_tensor(result):
        return ""
    layout, place = scope.layout(result.type), scope.place(result.type.device)
    target = scope.bind(result)
    scope.line(f"allocate({target}, {layout}, {dtype_text(result.type.dtype)}{place});")
    return target


def _full(step: steps.CallOperator, scope: FunctionScope) -> bool:
    values, result = _values(step), step.result
    if result is None or not ir.is_tensor(result) or values["dtype"] not in (None, result.type.dtype):
        return False
    if not (number := wide_number(values["fill_value"], scope)):
        return False
    target = _new(step, scope)
    scope.numbers_made.append(number)
    scope.line(f'call("aten::fill_", "Tensor", {{tensor({target}), tensor({number})}}, nullptr, 1);')
    return True


def _addmm(step: steps.CallOperator, scope: FunctionScope) -> bool:
    """Writes `addmm.out` into new memory: matmuls convert their factors to the element type."""
    values = _values(step)
    handles = [scope.handle(v) for n in ("self", "mat1", "mat2") if isinstance(v := values[n], ir.Value)]
    factors = [scope.real(v) for n in ("beta", "alpha") if isinstance(v := values[n], Expr)]
    if len(handles) != 3 or len(factors) != 2 or not (target := _new(step, scope)):
        return False
    if write_matmul(step, [target, *handles, *factors], scope):
        return True
    function = _ADDMM.format(_device_type(step, scope))
    scope.module.shims[function] = f"int32_t {function}({_ADDMM_PARAMETERS});"
    scope.line(f'ok({function}({", ".join([target, *handles, *factors])}), "aten::addmm.out");')
    return True


def _pad(step: steps.CallOperator, scope: FunctionScope) -> bool:
    """Writes `pad` with a number, which it converts to the element type."""
    values = _values(step)
    source, pad, value, result = values["self"], values["pad"], values["value"], step.result
    if not isinstance(source, ir.Value) or not isinstance(pad, tuple) or result is None:
        return False
    if not isinstance(value, Int | Float) or abs(value.value) > 2**53:
        return False
    texts = ", ".join(f"integer({scope.number(n)})" for n in pad if isinstance(n, Expr))
    fill = f'string("constant", 8), some(number({scope.real(value)}))'
    arguments = f"tensor({scope.handle(source)}), list({{{texts}}}), {fill}"
    scope.line(f'call("aten::pad", "", {{{arguments}}}, &{scope.bind(result)}, 1);')
    return True


def _spread(step: steps.CallOperator, count: int, scope: FunctionScope) -> bool:
    """Writes the overload with a bool that selects correction by one."""
    values, result = _values(step), step.result
    source, dims, keep = values["self"], values["dim"], values["keepdim"]
    correction = Int(1) if values["correction"] is None else values["correction"]
    if not isinstance(source, ir.Value) or result is None or not isinstance(keep, Expr):
        return False
    if not isinstance(correction, Int | Float) or correction.value not in (0, 1):
        return False
    dimensions = "none()"
    if isinstance(dims, tuple):
        dimensions = (
            f"some(list({{{', '.join(f'integer({scope.number(n)})' for n in dims if isinstance(n, Expr))}}}))"
        )
    unbiased = "true" if correction.value else "false"
    texts = f"tensor({scope.handle(source)}), {dimensions}, truth({unbiased}), truth({scope.truth(keep)})"
    target = scope.bind(result, count)
    if count > 1:
        name = scope.live[result]
        scope.places[result] = {(0,): target, (1,): f"t[{name} + 1]"}
    base = step.operator.extern.name.partition(".")[0]
    scope.line(f'call("{base}", "dim", {{{texts}}}, &{target}, {count});')
    return True


def _convert(step: steps.CallOperator, scope: FunctionScope) -> bool:
    """Writes a copy into new memory, as torch's Python code does."""
    source = step.arguments[0].value
    if not isinstance(source, ir.Value) or not (target := _new(step, scope)):
        return False
    scope.line(f"copy({target}, {scope.handle(source)});")
    return True


def _normal(step: steps.CallOperator, scope: FunctionScope) -> bool:
    """Writes `normal_` of new memory, as torch's Python code does."""
    values = _values(step)
    mean, std = values["mean"], values["std"]
    if not isinstance(mean, Expr) or not isinstance(std, Expr) or values.get("generator") is not None:
        return False
    if not (target := _new(step, scope)):
        return False
    texts = f"tensor({target}), number({scope.real(mean)}), number({scope.real(std)}), none()"
    scope.line(f'call("aten::normal_", "", {{{texts}}}, nullptr, 1);')
    return True


def _is_whole_sum(step: steps.CallOperator) -> bool:
    """Returns whether the operands are two integral tensors of one type."""
    values = _values(step)
    dtypes = [v.type.dtype for v in (values["self"], values["other"]) if ir.is_tensor(v)]
    same = len(dtypes) == 2 and dtypes[0] == dtypes[1]
    return same and values["alpha"] == Int(1) and is_whole(dtypes[0])


def _add_whole(step: steps.CallOperator, target: str, scope: FunctionScope) -> bool:
    first, second = (_values(step)[name] for name in ("self", "other"))
    assert ir.is_tensor(first)
    assert ir.is_tensor(second)
    dtype = dtype_text(first.type.dtype)
    scope.line(f"add_whole({target}, {scope.handle(first)}, {scope.handle(second)}, {dtype});")
    return True


def _add_into(step: steps.CallOperator, scope: FunctionScope) -> bool:
    """Writes a sum and a copy: torch's shim has no function for `add.out`."""
    values = _values(step)
    target = f"t[{scope.slot('sum')}]"
    scope.numbers_made.append(target)
    if _is_whole_sum(step):
        _add_whole(step, target, scope)
    else:
        handles = [scope.handle(v) for v in (values["self"], values["other"]) if isinstance(v, ir.Value)]
        alpha = values["alpha"]
        if len(handles) != 2 or not isinstance(alpha, Expr):
            return False
        function = _ADD.format(_device_type(step, scope))
        scope.module.shims[function] = f"int32_t {function}({_ADD_PARAMETERS});"
        texts = ", ".join([*handles, scope.real(alpha), f"&{target}"])
        scope.line(f'ok({function}({texts}), "aten::add.Tensor");')
    out = values["out"]
    assert isinstance(out, ir.Value)
    scope.line(f"copy({scope.handle(out)}, {target});")
    return True
