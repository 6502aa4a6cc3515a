"""Operators without a suitable C function in torch, written as equivalent calls.

`full` is `fill_` of new memory, `add` of integers a sum, `add.out` a sum and a copy, `addmm` is `addmm.out`
into new memory, `constant_pad_nd` is `pad`, and a correction of 0 or 1 a bool. `prims` that Inductor calls,
which are registered in Python, are written as their Python code does.
"""

from __future__ import annotations

from collections.abc import Mapping

from cpp_wrapper.sources.matmuls import write_matmul
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


def write_exactly(step: steps.CallOperator, scope: FunctionScope) -> bool:
    """Writes equivalent calls. Returns False if there are none."""
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
    values = (a.value for a in step.arguments)
    types = (v.type for v in values if isinstance(v, ir.Value))
    device = next(t.device for t in types if isinstance(t, ir.TensorType))
    return "cuda" if scope.on_gpu(device) else "cpu"


def _given(step: steps.CallOperator) -> Mapping[str, ir.Arg]:
    return {a.schema.name: a.value for a in step.arguments}


def _new(step: steps.CallOperator, scope: FunctionScope) -> str:
    """Allocates memory for the result and returns its handle; '' if the result is not a tensor."""
    result = step.result
    if result is None or not ir.is_tensor(result):
        return ""
    layout, place = scope.layout(result.type), scope.place(result.type.device)
    made = scope.bind(result)
    scope.line(f"allocate({made}, {layout}, {dtype_text(result.type.dtype)}{place});")
    return made


def _full(step: steps.CallOperator, scope: FunctionScope) -> bool:
    given, result = _given(step), step.result
    if result is None or not ir.is_tensor(result) or given["dtype"] not in (None, result.type.dtype):
        return False
    if not (number := wide_number(given["fill_value"], scope)):
        return False
    made = _new(step, scope)
    scope.numbers_made.append(number)
    scope.line(f'call("aten::fill_", "Tensor", {{tensor({made}), tensor({number})}}, nullptr, 1);')
    return True


def _addmm(step: steps.CallOperator, scope: FunctionScope) -> bool:
    """Writes `addmm.out` into new memory: matmuls convert their factors to the element type."""
    given = _given(step)
    handles = [scope.handle(v) for n in ("self", "mat1", "mat2") if isinstance(v := given[n], ir.Value)]
    factors = [scope.real(v) for n in ("beta", "alpha") if isinstance(v := given[n], Expr)]
    if len(handles) != 3 or len(factors) != 2 or not (made := _new(step, scope)):
        return False
    if write_matmul(step, [made, *handles, *factors], scope):
        return True
    function = _ADDMM.format(_device_type(step, scope))
    scope.module.shims[function] = f"int32_t {function}({_ADDMM_PARAMETERS});"
    scope.line(f'ok({function}({", ".join([made, *handles, *factors])}), "aten::addmm.out");')
    return True


def _pad(step: steps.CallOperator, scope: FunctionScope) -> bool:
    """Writes `pad` with a number, which it converts to the element type."""
    given = _given(step)
    source, pad, value, result = given["self"], given["pad"], given["value"], step.result
    if not isinstance(source, ir.Value) or not isinstance(pad, tuple) or result is None:
        return False
    if not isinstance(value, Int | Float) or abs(value.value) > 2**53:
        return False
    texts = ", ".join(f"integer({scope.number(n)})" for n in pad if isinstance(n, Expr))
    arguments = f'tensor({scope.handle(source)}), list({{{texts}}}), string("constant", 8), some(number({scope.real(value)}))'
    scope.line(f'call("aten::pad", "", {{{arguments}}}, &{scope.bind(result)}, 1);')
    return True


def _spread(step: steps.CallOperator, count: int, scope: FunctionScope) -> bool:
    """Writes the overload with a bool that selects correction by one."""
    given, result = _given(step), step.result
    source, dims, keep = given["self"], given["dim"], given["keepdim"]
    correction = Int(1) if given["correction"] is None else given["correction"]
    if not isinstance(source, ir.Value) or result is None or not isinstance(keep, Expr):
        return False
    if not isinstance(correction, Int | Float) or correction.value not in (0, 1):
        return False
    chosen = "none()"
    if isinstance(dims, tuple):
        chosen = (
            f"some(list({{{', '.join(f'integer({scope.number(n)})' for n in dims if isinstance(n, Expr))}}}))"
        )
    unbiased = "true" if correction.value else "false"
    texts = f"tensor({scope.handle(source)}), {chosen}, truth({unbiased}), truth({scope.truth(keep)})"
    made = scope.bind(result, count)
    if count > 1:
        name = scope.live[result]
        scope.places[result] = {(0,): made, (1,): f"t[{name} + 1]"}
    base = step.operator.extern.name.partition(".")[0]
    scope.line(f'call("{base}", "dim", {{{texts}}}, &{made}, {count});')
    return True


def _convert(step: steps.CallOperator, scope: FunctionScope) -> bool:
    """Writes a copy into new memory, as torch's Python code does."""
    source = step.arguments[0].value
    if not isinstance(source, ir.Value) or not (made := _new(step, scope)):
        return False
    scope.line(f"copy({made}, {scope.handle(source)});")
    return True


def _normal(step: steps.CallOperator, scope: FunctionScope) -> bool:
    """Writes `normal_` of new memory, as torch's Python code does."""
    given = _given(step)
    mean, std = given["mean"], given["std"]
    if not isinstance(mean, Expr) or not isinstance(std, Expr) or given.get("generator") is not None:
        return False
    if not (made := _new(step, scope)):
        return False
    texts = f"tensor({made}), number({scope.real(mean)}), number({scope.real(std)}), none()"
    scope.line(f'call("aten::normal_", "", {{{texts}}}, nullptr, 1);')
    return True


def _is_whole_sum(step: steps.CallOperator) -> bool:
    """Returns whether the operands are two integral tensors of one type."""
    given = _given(step)
    types = [v.type for v in (given["self"], given["other"]) if isinstance(v, ir.Value)]
    tensors = [t for t in types if isinstance(t, ir.TensorType)]
    same = len(tensors) == 2 and tensors[0].dtype == tensors[1].dtype
    return same and given["alpha"] == Int(1) and is_whole(tensors[0].dtype)


def _add_whole(step: steps.CallOperator, made: str, scope: FunctionScope) -> bool:
    first, second = (_given(step)[name] for name in ("self", "other"))
    assert isinstance(first, ir.Value)
    assert isinstance(second, ir.Value)
    assert ir.is_tensor(first)
    dtype = dtype_text(first.type.dtype)
    scope.line(f"add_whole({made}, {scope.handle(first)}, {scope.handle(second)}, {dtype});")
    return True


def _add_into(step: steps.CallOperator, scope: FunctionScope) -> bool:
    """Writes a sum and a copy: torch's shim has no function for `add.out`."""
    given = _given(step)
    made = f"t[{scope.slot('sum')}]"
    scope.numbers_made.append(made)
    if _is_whole_sum(step):
        _add_whole(step, made, scope)
    else:
        handles = [scope.handle(v) for v in (given["self"], given["other"]) if isinstance(v, ir.Value)]
        alpha = given["alpha"]
        if len(handles) != 2 or not isinstance(alpha, Expr):
            return False
        function = _ADD.format(_device_type(step, scope))
        scope.module.shims[function] = f"int32_t {function}({_ADD_PARAMETERS});"
        scope.line(f'ok({function}({", ".join(handles)}, {scope.real(alpha)}, &{made}), "aten::add.Tensor");')
    out = given["out"]
    assert isinstance(out, ir.Value)
    scope.line(f"copy({scope.handle(out)}, {made});")
    return True
