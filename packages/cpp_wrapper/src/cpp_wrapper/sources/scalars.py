"""`Scalar` arguments of operators, passed to functions of torch without a change of meaning.

The C shim accepts a `Scalar` as a `double`; the stable dispatcher accepts none. An integer passed as a
`double` changes the element type of results. It is passed only if all tensors are floating point, or if the
operator converts numbers to a known element type. Otherwise the number becomes a tensor without dimensions,
for the overload with a tensor. Its element type promotes as the number does
(torch/aten/src/ATen/native/TypeProperties.cpp).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from cpp_wrapper.sources.scope import FunctionScope, dtype_text
from wrapper_ir import ir
from wrapper_ir.expr import Bool, Expr, Int, SymKind
from wrapper_ir_lowering import steps

_BINARY = (
    *(
        "bitwise_and",
        "bitwise_or",
        "bitwise_xor",
        "copysign",
        "div",
        "eq",
        "fmod",
        "ge",
        "gt",
        "le",
        "lt",
        "mul",
    ),
    *("ne", "remainder", "masked_fill", "fill", "lerp"),
)
_POLYNOMIALS = (
    *(f"{kind}_polynomial_{letter}" for kind in ("chebyshev", "shifted_chebyshev") for letter in "tuvw"),
    *("hermite_polynomial_h", "hermite_polynomial_he", "laguerre_polynomial_l", "legendre_polynomial_p"),
)
TENSOR_OVERLOADS: Mapping[str, str] = {
    **{f"aten::{name}.Scalar": f"aten::{name}.Tensor" for name in _BINARY},
    **{
        f"aten::{name}.Scalar_Tensor": f"aten::{name}.Tensor"
        for name in ("bitwise_and", "bitwise_or", "bitwise_xor", "remainder")
    },
    **{
        f"aten::bitwise_{side}_shift.{kinds}": f"aten::bitwise_{side}_shift.Tensor"
        for side in ("left", "right")
        for kinds in ("Tensor_Scalar", "Scalar_Tensor")
    },
    **{
        f"aten::special_{name}.{which}_scalar": f"aten::special_{name}"
        for name in ("zeta", "xlog1py", "xlogy")
        for which in ("other", "self")
    },
    **{
        f"aten::special_{name}.{which}_scalar": f"aten::special_{name}"
        for name in _POLYNOMIALS
        for which in ("x", "n")
    },
    **{f"aten::xlogy.Scalar_{which}": "aten::xlogy.Tensor" for which in ("Self", "Other")},
    "aten::div.Scalar_mode": "aten::div.Tensor_mode",
    "aten::float_power.Scalar": "aten::float_power.Tensor_Tensor",
    "aten::float_power.Tensor_Scalar": "aten::float_power.Tensor_Tensor",
    "aten::floor_divide.Scalar": "aten::floor_divide",
    "aten::clamp": "aten::clamp.Tensor",
    "aten::clamp_max": "aten::clamp_max.Tensor",
    "aten::clamp_min": "aten::clamp_min.Tensor",
    "aten::index_fill.int_Scalar": "aten::index_fill.int_Tensor",
    "aten::isin.Scalar_Tensor": "aten::isin.Tensor_Tensor",
    "aten::isin.Tensor_Scalar": "aten::isin.Tensor_Tensor",
    "aten::pow.Scalar": "aten::pow.Tensor_Tensor",
    "aten::pow.Tensor_Scalar": "aten::pow.Tensor_Tensor",
    "aten::where.ScalarOther": "aten::where.self",
    "aten::where.ScalarSelf": "aten::where.self",
}  # fmt: skip
"""Overloads with a tensor in place of a number; the other arguments are the same."""

_CONVERTING = frozenset(
    {
        *("aten::addbmm", "aten::addmm.out", "aten::addmv", "aten::baddbmm.out", "aten::fill_.Scalar"),
        *("aten::full", "aten::scatter.value_out", "aten::constant_pad_nd", "prims::normal"),
        *("aten::segment_reduce", "aten::_segment_reduce_backward", "aten::_unsafe_masked_index"),
    }
)
"""Operators with a function that convert numbers to the element type of a tensor, or of an argument."""
_EXACT = 2**53
"""Up to this value every integer is a `double`."""
_ORDER = {SymKind.BOOL: 0, SymKind.INT: 1, SymKind.FLOAT: 2}
_DEFAULTS = (ir.DType.BOOL, ir.DType.I64, ir.DType.F32, ir.DType.C64)
_WIDEST = (ir.DType.BOOL, ir.DType.I64, ir.DType.F64, ir.DType.C128)


def tensor_overload(step: steps.CallOperator | steps.StartCollective) -> str:
    """Returns the overload with tensors in place of the call's numbers; '' for none."""
    name = step.operator.extern.name
    if name == "aten::pow.Tensor_Scalar":
        exponent = step.arguments[
            1
        ].value  # negative exponents of integers are an error in this overload only
        if not isinstance(exponent, Int) or exponent.value < 0:
            return ""
    return TENSOR_OVERLOADS.get(name, "")


def has_whole_scalars(step: steps.CallOperator | steps.StartCollective) -> bool:
    """Returns whether a `Scalar` is an integer or a bool."""
    return any(
        a.schema.type.startswith("Scalar") and not a.schema.type.startswith("ScalarType")
        and isinstance(a.value, Expr) and a.value.kind is not SymKind.FLOAT
        for a in step.arguments
    )  # fmt: skip


def keeps_meaning(step: steps.CallOperator | steps.StartCollective) -> bool:
    """Returns whether the operator's integers can be passed as `double`s."""
    tensors = _tensors(step)
    if tensors and all(t.dtype.is_floating or t.dtype.is_complex for t in tensors):
        return True
    if step.operator.extern.name not in _CONVERTING:
        return False
    values = {a.schema.name: a.value for a in step.arguments}
    if values.get("dtype", ir.DType.I64) is None:
        return False
    numbers = [
        a.value for a in step.arguments if a.schema.type.startswith("Scalar") and a.schema.name != "dtype"
    ]
    return all(
        not isinstance(n, Expr)
        or n.kind is SymKind.FLOAT
        or (isinstance(n, Int | Bool) and abs(int(n.value)) <= _EXACT)
        for n in numbers
    )


def _tensors(step: steps.CallOperator | steps.StartCollective) -> list[ir.TensorType]:
    """Returns the types of all tensors among a call's arguments."""
    types: list[ir.TensorType] = []
    for argument in step.arguments:
        values = argument.value if isinstance(argument.value, tuple) else (argument.value,)
        types += [v.type for v in values if ir.is_tensor(v)]
    return types


def _category(dtype: ir.DType) -> int:
    if dtype.is_complex:
        return 3
    return 2 if dtype.is_floating else 0 if dtype is ir.DType.BOOL else 1


@dataclass(frozen=True, slots=True)
class _Number:
    """A number as a tensor: its element type, and the order of its kind: bool, int, float, complex."""

    dtype: ir.DType
    order: int


def _order(value: ir.Arg) -> int | None:
    match value:
        case ir.Complex():
            return 3
        case Expr():
            return _ORDER[value.kind]
        case _:
            return None


def _number(value: ir.Arg, beside: Sequence[ir.TensorType]) -> _Number | None:
    """Returns the element type with which a tensor without dimensions promotes as the number; None if
    none does.
    """
    order = _order(value)
    if order is None or not beside:
        return None
    highest = max(_category(t.dtype) for t in beside)
    if order > highest:
        return _Number(_DEFAULTS[order], order)
    if any(t.sizes and _category(t.dtype) == highest for t in beside):
        return _Number(_WIDEST[order], order)
    # All tensors are without dimensions, so the new tensor's element type counts as much as theirs.
    own = {t.dtype for t in beside if _category(t.dtype) == highest}
    return _Number(own.pop(), order) if len(own) == 1 else None


def number_tensor(
    value: ir.Arg, step: steps.CallOperator | steps.StartCollective, scope: FunctionScope
) -> str:
    """Writes a number as a tensor and returns its handle, which the caller drops; '' if no tensor is
    equivalent.
    """
    number = _number(value, _tensors(step))
    return "" if number is None else _write_number(value, number, scope)


def wide_number(value: ir.Arg, scope: FunctionScope) -> str:
    """Writes a number as a tensor of the widest type of its kind and returns its handle; '' for other
    values.
    """
    order = _order(value)
    return "" if order is None else _write_number(value, _Number(_WIDEST[order], order), scope)


def is_whole(dtype: ir.DType) -> bool:
    """Returns whether an element type is integral or bool."""
    return _category(dtype) < 2


def _write_number(value: ir.Arg, number: _Number, scope: FunctionScope) -> str:
    name = f"t[{scope.slot('number')}]"
    if isinstance(value, ir.Complex):
        text = f"{scope.number(value.real)}, {scope.number(value.imag)}"
    else:
        assert isinstance(value, Expr)
        text = f"Int({scope.number(value)})" if number.order == 1 else scope.number(value)
    scope.line(f"number_tensor({name}, {text}, {dtype_text(number.dtype)});")
    return name
