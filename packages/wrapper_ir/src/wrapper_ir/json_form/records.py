"""The codecs of programs and signatures: what their annotations do not say."""

from __future__ import annotations

import dataclasses
import hashlib
from collections.abc import Callable
from functools import cache
from typing import Any, get_args

from wrapper_ir.expr import Expr, Float
from wrapper_ir.json_form.codec import Codec, Codecs, ref
from wrapper_ir.json_form.context import Decoder, Encoder
from wrapper_ir.json_form.exprs import encode_arg, encode_expr, encode_number
from wrapper_ir.json_form.leaf_schemas import leaf_schemas
from wrapper_ir.json_form.ops import op_codec
from wrapper_ir.json_form.reading import Fault, Json, fault, string
from wrapper_ir.kernels import KernelDef, KernelNames, KernelParam
from wrapper_ir.ops import OPS, Arg, Op, OpSet
from wrapper_ir.program import Function, SymbolDef
from wrapper_ir.schemas import ExternDef
from wrapper_ir.types import Device, DType, Layout, MemoryFormat
from wrapper_ir.values import Value

__all__ = ["CODECS", "codecs_of", "decode_kernel", "encode_kernel"]


def _float(d: Decoder, x: Json) -> float:
    e = d.expr(x)
    return e.value if isinstance(e, Float) else fault("expected a float")


def _sha256(_: Encoder | None, data: bytes) -> Json:
    """Bytes are stored beside a document; reading it gives their hash."""
    return hashlib.sha256(data).hexdigest()


_LEAVES: dict[Any, Codec] = {  # Any: annotations are any objects
    float: Codec(lambda _, x: encode_number(x), _float, ref("float")),
    Expr: Codec(lambda _, x: encode_expr(x), Decoder.expr, ref("expr")),
    Arg: Codec(lambda _, x: encode_arg(x), Decoder.arg, ref("arg")),
    bytes: Codec(_sha256, lambda _, x: string(x).encode(), {"type": "string"}),
    Value: Codec(Encoder.define, Decoder.define, ref("result"), defines=True),
}


def _checked(check: Callable[[Decoder, Any], None]) -> Callable[[Codec], Codec]:
    """A codec that looks at what it has read. Any: of whatever class it is."""

    def wrap(codec: Codec) -> Codec:
        def decode(d: Decoder, x: Json) -> Any:
            made = codec.decode(d, x)
            check(d, made)
            return made

        return dataclasses.replace(codec, decode=decode)

    return wrap


def _at(*path: str | int, code: str, message: str) -> Fault:
    error = Fault(code, message)
    error.path.extend(reversed(path))
    return error


def _declare(d: Decoder, symbol: SymbolDef) -> None:
    if symbol.name in d.kinds:
        fault(f"symbol {symbol.name!r} is declared twice", "WIR506")
    if symbol.hint != symbol.hint:
        raise _at("hint", code="WIR521", message="expected a number that equals itself")
    d.kinds[symbol.name] = symbol.kind


def _check_schema(_: Decoder, extern: ExternDef) -> None:
    if "(" not in extern.schema:
        raise _at("schema", code="WIR521", message="this is not an operator schema")


def _check_captures(d: Decoder, function: Function) -> None:
    for number, name in enumerate(function.captures):
        if name not in d.kinds:
            raise _at("captures", number, code="WIR551", message=f"symbol {name!r} is not declared")


def _own_values(codec: Codec) -> Codec:
    """A function's values are its own, beside the program's constants."""

    def decode(d: Decoder, x: Json) -> Any:  # Any: see Codec
        outer = d.values
        d.values = dict(outer)
        function = codec.decode(d, x)
        d.values = outer
        return function

    return _checked(_check_captures)(dataclasses.replace(codec, decode=decode))


def _own_names(codec: Codec) -> Codec:
    """Expressions of a kernel are over its own names, those of a block over whole numbers."""

    def decode(d: Decoder, x: Json) -> Any:  # Any: see Codec
        outer = d.kinds
        d.kinds = KernelNames()
        made = codec.decode(d, x)
        d.kinds = outer
        if isinstance(made, KernelParam):
            outer.update(KernelNames((made,)))
        return made

    return dataclasses.replace(codec, decode=decode)


@cache
def codecs_of(ops: OpSet) -> Codecs:
    """The codecs of programs with these ops, and of everything in and around them."""
    codecs = Codecs(
        leaves=_LEAVES,
        wraps={
            SymbolDef: _checked(_declare),
            ExternDef: _checked(_check_schema),
            Function: _own_values,
            KernelParam: _own_names,
            **dict.fromkeys(get_args(KernelDef), _own_names),
        },
    )
    codecs.definitions.update(leaf_schemas())
    for named in (Device, DType, MemoryFormat, Layout):  # which the schema of arguments mentions
        codecs.of(named)
    codecs.add(Op, op_codec(codecs, ops))
    return codecs


CODECS = codecs_of(OPS)
_KERNEL = CODECS.of(KernelDef)


def encode_kernel(kernel: KernelDef) -> dict[str, Json]:
    """The JSON of a kernel; everything is in it."""
    o = _KERNEL.encode(Encoder(), kernel)
    assert isinstance(o, dict)
    return o


def decode_kernel(x: Json) -> KernelDef:
    """The inverse of `encode_kernel`. Raises Fault."""
    kernel: KernelDef = _KERNEL.decode(Decoder(), x)
    return kernel
