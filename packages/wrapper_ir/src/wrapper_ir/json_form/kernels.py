"""Kernels as JSON."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import assert_never

from wrapper_ir.expr import Bool, Expr, Float, Int
from wrapper_ir.json_form.exprs import ArgDecoder, encode_expr, encode_number
from wrapper_ir.json_form.reading import (
    Json,
    each,
    fault,
    field,
    integer,
    member,
    members_of,
    obj,
    only,
    string,
    strings,
    truth,
)
from wrapper_ir.kernels import (
    Access,
    Choice,
    ConstantValue,
    CppKernel,
    Derivation,
    ForeignKernel,
    KernelDef,
    KernelNames,
    KernelParam,
    MultiKernel,
    OperatorConstant,
    OperatorKernel,
    ParamKind,
    TritonConfig,
    TritonKernel,
    Variant,
)
from wrapper_ir.types import DType

__all__ = ["CONFIG_FIELDS", "KERNEL_FIELDS", "VARIANT_FIELDS", "decode_kernel", "encode_kernel"]

_dtype = member(members_of(DType), "element type")
_access = member(members_of(Access), "access")
_param_kind = member(members_of(ParamKind), "kind of parameter")
_choice = member(members_of(Choice), "way to choose")
_derivation = member(members_of(Derivation), "rule")

_COMMON = ("kind", "name", "params")
_PARAM = ("name", "kind", "dtype", "access", "may_alias", "divisible", "block")
KERNEL_FIELDS: Mapping[str, tuple[str, ...]] = {
    CppKernel.kind: (*_COMMON, "source", "entry", "isa"),
    TritonKernel.kind: (
        *_COMMON,
        "source",
        "entry",
        "order",
        "configs",
        "grid",
        "grid_params",
        "constants",
        "derive",
        "options",
        "restore",
        "reset",
        "size_hints",
        "heuristic",
        "cooperative",
        "multiprocessors",
    ),
    MultiKernel.kind: (*_COMMON, "variants", "choice", "grid_params"),
    OperatorKernel.kind: (*_COMMON, "schema", "constants"),
    ForeignKernel.kind: (*_COMMON, "runtime", "payload"),
}
"""The fields of each kind's object."""
VARIANT_FIELDS = ("kernel", "args", "grid", "hints")
CONFIG_FIELDS = ("meta", "num_warps", "num_stages", "options", "grid")


def encode_kernel(kernel: KernelDef) -> dict[str, Json]:
    """A kernel; everything is in it."""
    out: dict[str, Json] = {
        "kind": kernel.kind,
        "name": kernel.name,
        "params": [_encode_param(p) for p in kernel.params],
    }
    match kernel:
        case CppKernel():
            return {**out, "source": kernel.source, "entry": kernel.entry, "isa": list(kernel.isa)}
        case TritonKernel():
            return {**out, **_encode_triton(kernel)}
        case MultiKernel():
            variants = [_encode_variant(v) for v in kernel.variants]
            choice = kernel.choice.value
            return {**out, "variants": [*variants], "choice": choice, "grid_params": [*kernel.grid_params]}
        case OperatorKernel():
            constants = [[name, _encode_operator_constant(value)] for name, value in kernel.constants]
            return {**out, "schema": kernel.schema, "constants": [*constants]}
        case ForeignKernel():
            return {**out, "runtime": kernel.runtime, "payload": kernel.payload}
        case _:
            assert_never(kernel)


def _encode_param(param: KernelParam) -> Json:
    return {
        "name": param.name,
        "kind": param.kind.value,
        "dtype": param.dtype.value,
        "access": param.access.value,
        "may_alias": list(param.may_alias),
        "divisible": param.divisible,
        "block": _encode_exprs(param.block),
    }


def _encode_variant(variant: Variant) -> Json:
    return {
        "kernel": variant.kernel,
        "args": [*variant.args],
        "grid": [*variant.grid],
        "hints": [[*sizes] for sizes in variant.hints],
    }


def _encode_triton(kernel: TritonKernel) -> dict[str, Json]:
    return {
        "source": kernel.source,
        "entry": kernel.entry,
        "order": list(kernel.order),
        "configs": [
            {
                "meta": _encode_named(c.meta),
                "num_warps": c.num_warps,
                "num_stages": c.num_stages,
                "options": _encode_named(c.options),
                "grid": _encode_exprs(c.grid),
            }
            for c in kernel.configs
        ],
        "grid": _encode_exprs(kernel.grid),
        "grid_params": list(kernel.grid_params),
        "constants": _encode_named(kernel.constants),
        "derive": [d.value for d in kernel.derive],
        "options": _encode_named(kernel.options),
        "restore": list(kernel.restore),
        "reset": list(kernel.reset),
        "size_hints": [[name, hint] for name, hint in kernel.size_hints],
        "heuristic": kernel.heuristic,
        "cooperative": kernel.cooperative,
        "multiprocessors": kernel.multiprocessors,
    }


def _encode_exprs(exprs: Iterable[Expr]) -> list[Json]:
    return [encode_expr(e) for e in exprs]


def _encode_named(pairs: Iterable[tuple[str, ConstantValue]]) -> list[Json]:
    return [[name, _encode_constant(value)] for name, value in pairs]


def _encode_constant(value: ConstantValue) -> Json:
    match value:
        case DType():
            return {"dtype": value.value}
        case str():
            return {"str": value}
        case _:
            return encode_number(value)


def _encode_operator_constant(value: OperatorConstant) -> Json:
    return {"ints": [*value]} if isinstance(value, tuple) else _encode_constant(value)


# --- reading


def decode_kernel(x: Json) -> KernelDef:
    """Raises ParseError WIR521 for another structure, WIR522 for an unknown kind."""
    o = obj(x)
    kind, name = field(o, "kind", string), field(o, "name", string)
    if kind not in KERNEL_FIELDS:
        fault(f"unknown kind of kernel {kind[:40]!r}", "WIR522")
    params = field(o, "params", lambda p: each(p, _decode_param))
    only(o, KERNEL_FIELDS[kind])
    if kind == ForeignKernel.kind:
        runtime, payload = field(o, "runtime", string), field(o, "payload", string)
        return ForeignKernel(name=name, params=params, runtime=runtime, payload=payload)
    if kind == OperatorKernel.kind:
        return OperatorKernel(
            name=name,
            params=params,
            schema=field(o, "schema", string),
            constants=field(o, "constants", lambda c: each(c, _decode_operator_constant)),
        )
    if kind == MultiKernel.kind:
        return MultiKernel(
            name=name,
            params=params,
            variants=field(o, "variants", lambda v: each(v, _decode_variant)),
            choice=field(o, "choice", _choice),
            grid_params=field(o, "grid_params", strings),
        )
    source, entry = field(o, "source", string), field(o, "entry", string)
    if kind == CppKernel.kind:
        return CppKernel(name=name, params=params, source=source, entry=entry, isa=field(o, "isa", strings))
    return _decode_triton(o, name, params, source, entry)


def _decode_param(x: Json) -> KernelParam:
    o = obj(x)
    only(o, _PARAM)
    return KernelParam(
        name=field(o, "name", string),
        kind=field(o, "kind", _param_kind),
        dtype=field(o, "dtype", _dtype),
        access=field(o, "access", _access),
        may_alias=field(o, "may_alias", strings),
        divisible=field(o, "divisible", integer),
        block=field(o, "block", lambda b: each(b, _decoder(()).expr)),
    )


def _decoder(params: Iterable[KernelParam]) -> ArgDecoder:
    decoder = ArgDecoder()
    decoder.kinds = KernelNames(params)
    return decoder


def _decode_triton(
    o: dict[str, Json], name: str, params: tuple[KernelParam, ...], source: str, entry: str
) -> TritonKernel:
    d = _decoder(params)
    return TritonKernel(
        name=name,
        params=params,
        source=source,
        entry=entry,
        order=field(o, "order", strings),
        configs=field(o, "configs", lambda c: each(c, lambda one: _decode_config(one, d))),
        grid=field(o, "grid", lambda g: each(g, d.expr)),
        grid_params=field(o, "grid_params", strings),
        constants=field(o, "constants", _decode_named),
        derive=field(o, "derive", lambda r: each(r, _derivation)),
        options=field(o, "options", _decode_named),
        restore=field(o, "restore", strings),
        reset=field(o, "reset", strings),
        size_hints=field(o, "size_hints", lambda h: each(h, _decode_hint)),
        heuristic=field(o, "heuristic", string),
        cooperative=field(o, "cooperative", truth),
        multiprocessors=field(o, "multiprocessors", _optional),
    )


def _decode_variant(x: Json) -> Variant:
    o = obj(x)
    only(o, VARIANT_FIELDS)
    return Variant(
        kernel=field(o, "kernel", string),
        args=field(o, "args", lambda a: each(a, integer)),
        grid=field(o, "grid", lambda g: each(g, integer)),
        hints=field(o, "hints", lambda h: each(h, lambda sizes: each(sizes, _optional))),
    )


def _optional(x: Json) -> int | None:
    return None if x is None else integer(x)


def _decode_config(x: Json, d: ArgDecoder) -> TritonConfig:
    o = obj(x)
    only(o, CONFIG_FIELDS)
    return TritonConfig(
        meta=field(o, "meta", _decode_named),
        num_warps=field(o, "num_warps", integer),
        num_stages=field(o, "num_stages", integer),
        options=field(o, "options", _decode_named),
        grid=field(o, "grid", lambda g: each(g, d.expr)),
    )


def _decode_named(x: Json) -> tuple[tuple[str, ConstantValue], ...]:
    def named(pair: Json) -> tuple[str, ConstantValue]:
        name, value = _pair(pair)
        return name, _decode_constant(value)

    return each(x, named)


def _decode_hint(x: Json) -> tuple[str, int]:
    name, value = _pair(x)
    return name, integer(value)


def _pair(x: Json) -> tuple[str, Json]:
    if not isinstance(x, list) or len(x) != 2:
        fault("expected a name and a value")
    return string(x[0]), x[1]


def _decode_operator_constant(x: Json) -> tuple[str, OperatorConstant]:
    name, value = _pair(x)
    if isinstance(value, dict) and [*value] == ["ints"]:
        return name, each(value["ints"], integer)
    return name, _decode_constant(value)


def _decode_constant(x: Json) -> ConstantValue:
    if x is None:
        return None
    if isinstance(x, dict) and [*x] == ["dtype"]:
        return _dtype(x["dtype"])
    if isinstance(x, dict) and [*x] == ["str"]:
        return string(x["str"])
    e = ArgDecoder().expr(x)
    if not isinstance(e, Int | Float | Bool):
        fault("expected a constant")
    return e.value
