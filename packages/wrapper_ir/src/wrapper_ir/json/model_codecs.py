"""The codecs of programs and signatures: leaves, roles and scopes that annotations do not determine."""

from __future__ import annotations

import dataclasses
import hashlib
import types
from collections.abc import Callable
from functools import cache, partial
from typing import TypeVar, get_args

from wrapper_ir import ir
from wrapper_ir.expr import Expr, Float
from wrapper_ir.json.codec import Codec, Codecs, Decode, Schema, array_of, keyed, object_schema, ref, union_of
from wrapper_ir.json.decode import fault, field, integer, obj, string, within
from wrapper_ir.json.exprs import ExprDecoder, encode_expr, encode_number, expr_schemas
from wrapper_ir.support.json_value import Json

T = TypeVar("T")
_STRING: Schema = {"type": "string"}
_INDEX: Schema = {"type": "integer", "minimum": 0}


# --- contexts of a document: its tables and scopes


class Encoder:
    """Context of encoding, which collects the types and provenances of ops."""

    def __init__(self) -> None:
        self.types: dict[ir.Type, int] = {}
        self.provenances: dict[ir.Provenance, int] = {}

    def define(self, value: ir.Value) -> Json:
        """Encodes a result with the index of its type."""
        return {"name": value.name, "type": self.types.setdefault(value.type, len(self.types))}

    def provenance(self, prov: ir.Provenance) -> Json:
        """Encodes a provenance as its index."""
        return self.provenances.setdefault(prov, len(self.provenances))


class Decoder(ExprDecoder):
    """Context of decoding: the scopes of `ExprDecoder`, and the program's tables."""

    types: tuple[ir.Type, ...] = ()
    provenances: tuple[ir.Provenance, ...] = ()

    def define(self, x: Json) -> ir.Value:
        """Defines a new value in scope; a second one of the same name is WIR506."""
        o = obj(x)
        name, type = field(o, "name", string), field(o, "type", self._type)
        if len(o) != 2:
            fault("a result has a name and a type, nothing else")
        if name in self.values:
            fault(f"value {name!r} is defined twice", "WIR506")
        value = self.values[name] = ir.Value(name, type)
        return value

    def _type(self, x: Json) -> ir.Type:
        return _at(self.types, integer(x), "type", "WIR521")

    def provenance(self, x: Json) -> ir.Provenance:
        """Returns the provenance at an index; a missing one is WIR507."""
        return _at(self.provenances, integer(x), "provenance", "WIR507")


def _at(table: tuple[T, ...], index: int, what: str, code: str) -> T:
    return table[index] if 0 <= index < len(table) else fault(f"there is no {what} {index}", code)


# --- leaves


_FLOAT = Codec(lambda _, x: encode_number(x), lambda d, x: d.float(x).value, ref("float"))
_EXPR = Codec(lambda _, x: encode_expr(x), ExprDecoder.expr, ref("expr"))
_OPERAND = Codec(lambda _, x: x.name, ExprDecoder.use, _STRING)
_LEAVES: dict[object, Codec] = {
    float: _FLOAT,
    Expr: _EXPR,
    # A document contains the hash of bytes, which are stored separately.
    bytes: Codec(lambda _, x: hashlib.sha256(x).hexdigest(), lambda _, x: string(x).encode(), _STRING),
}


def _arg(codecs: Codecs) -> Codec:
    """Returns the codec of arguments: an expression, null, or an object of one key, as `{"value": "x"}`."""
    parts = codecs.of(tuple[float, float])
    inner: dict[type, tuple[str, Codec]] = {
        ir.Value: ("value", _OPERAND),
        tuple: ("list", array_of(Codecs.nested(lambda: arg, ref("arg")))),
        str: ("str", codecs.of(str)),
        ir.Complex: (
            "complex",
            Codec(
                lambda e, x: parts.encode(e, (x.real.value, x.imag.value)),
                lambda d, x: ir.Complex(*map(Float, parts.decode(d, x))),
                parts.schema,
            ),
        ),
        **{
            cls: (ir.tag_of(cls), codecs.of(cls)) for cls in (ir.DType, ir.Device, ir.MemoryFormat, ir.Layout)
        },
    }
    keys = {cls: (key, keyed(key, codec)) for cls, (key, codec) in inner.items()}
    arg = union_of("", {}, keys, {types.NoneType: codecs.of(types.NoneType)}, _EXPR)
    codecs.definitions["arg"] = arg.schema
    return dataclasses.replace(arg, schema=ref("arg"))


# --- fields of a role


def _accepted(codec: Codec, code: str) -> Callable[[ir.FieldSpec], Codec]:
    """Returns a function from a field to the codec of its values, which refuses other types with `code`."""

    def of(field: ir.FieldSpec) -> Codec:
        read, accepts = codec.decode, field.accepts

        def decode(d: Decoder, x: Json) -> ir.Value:
            value: ir.Value = read(d, x)
            if type(value.type) not in accepts:
                fault(ir.misfit(value), code)
            return value

        return codec if accepts == get_args(ir.Type) else dataclasses.replace(codec, decode=decode)

    return of


_ROLES: dict[ir.Role, Callable[[ir.FieldSpec], Codec]] = {
    ir.Role.DEF: _accepted(Codec(Encoder.define, Decoder.define, ref("result")), "WIR014"),
    ir.Role.USE: _accepted(_OPERAND, "WIR013"),
    ir.Role.SYMBOL: lambda _: Codec(lambda _, x: x, ExprDecoder.symbol, _STRING),
    ir.Role.PROVENANCE: lambda _: Codec(Encoder.provenance, Decoder.provenance, _INDEX),
}


# --- dataclasses


def _reading(change: Callable[[Decode, Decoder, Json], object], codec: Codec) -> Codec:
    """Returns a codec that decodes by `change`, whose first argument is the original decoder."""
    return dataclasses.replace(codec, decode=partial(change, codec.decode))


def _symbol(read: Decode, d: Decoder, x: Json) -> ir.SymbolDef:
    """Decodes a symbol and declares it."""
    symbol: ir.SymbolDef = read(d, x)
    if symbol.name in d.kinds:
        fault(f"symbol {symbol.name!r} is declared twice", "WIR506")
    if symbol.hint != symbol.hint:
        within("hint", fault, "expected a number that equals itself")
    d.kinds[symbol.name] = symbol.kind
    return symbol


def _extern(read: Decode, d: Decoder, x: Json) -> ir.ExternDef:
    extern: ir.ExternDef = read(d, x)
    return extern if "(" in extern.schema else within("schema", fault, "this is not an operator schema")


def _function(read: Decode, d: Decoder, x: Json) -> ir.Function:
    """Decodes a function in a new scope of values inside that of the program's constants."""
    outer = d.values
    d.values = dict(outer)
    function: ir.Function = read(d, x)
    d.values = outer
    return function


def _tensor(read: Decode, d: Decoder, x: Json) -> ir.TensorType:
    """Decodes a tensor type of limited rank, because analyses of layouts recurse over dimensions."""
    type: ir.TensorType = read(d, x)
    if max(len(type.sizes), len(type.strides)) > ir.MAX_RANK:
        fault(f"a tensor of {len(type.sizes)} dimensions; {ir.MAX_RANK} are read", "WIR553")
    return type


def _own_names(read: Decode, d: Decoder, x: Json) -> object:
    """Decodes a kernel or a parameter; expressions use the kernel's names, which are ints in blocks."""
    outer = d.kinds
    d.kinds = ir.KernelNames()
    value = read(d, x)
    d.kinds = outer
    if type(value) is ir.KernelParam:
        outer.update(ir.KernelNames((value,)))
    return value


_READERS: dict[type, Callable[[Decode, Decoder, Json], object]] = {
    ir.SymbolDef: _symbol,
    ir.ExternDef: _extern,
    ir.Function: _function,
    ir.TensorType: _tensor,
    **dict.fromkeys((ir.KernelParam, *get_args(ir.KernelDef)), _own_names),
}


@cache
def codecs_of(ops: ir.OpSet) -> Codecs:
    """Returns the codecs of programs with these ops, signatures, and their parts."""
    codecs = Codecs(_LEAVES, _ROLES, {cls: partial(_reading, read) for cls, read in _READERS.items()})
    codecs.definitions |= expr_schemas()
    codecs.definitions["result"] = object_schema({"name": _STRING, "type": _INDEX}, ["name", "type"])
    codecs.add(ir.Arg, _arg(codecs))
    codecs.add(ir.Op, _op(codecs, ops))
    return codecs


def _op(codecs: Codecs, ops: ir.OpSet) -> Codec:
    """Returns the codec of ops. Its schema selects an op's definition by the tag."""
    members = {cls: (spec.tag, codecs.of_class(cls, "op", "op_")) for cls, spec in ops.specs.items()}
    tags = list[Json](sorted(ops.by_tag))
    choices: list[Json] = [
        {"if": {"properties": {"op": {"const": tag}}, "required": ["op"]}, "then": codec.schema}
        for tag, codec in members.values()
    ]
    whole: Schema = {
        "type": "object",
        "properties": {"op": {"enum": tags}},
        "required": ["op"],
        "allOf": choices,
    }
    codecs.definitions["op"] = whole
    return dataclasses.replace(union_of("op", members, {}, {}), schema=ref("op"))


# --- documents of one object

CODECS = codecs_of(ir.OPS)


def encode(hint: type[T], x: T) -> dict[str, Json]:
    """Returns the JSON of an object of this class."""
    return obj(CODECS.of(hint).encode(Encoder(), x))


def decode(hint: type[T], x: Json, names: ir.KernelNames | None = None) -> T:
    """Decodes the result of `encode`; expressions use `names`. Raises Fault."""
    d = Decoder()
    d.kinds = ir.KernelNames() if names is None else names
    value: T = CODECS.of(hint).decode(d, x)
    return value


def encode_kernel(kernel: ir.KernelDef) -> dict[str, Json]:
    """Returns the complete JSON of a kernel."""
    return obj(CODECS.of(ir.KernelDef).encode(Encoder(), kernel))


def decode_kernel(x: Json) -> ir.KernelDef:
    """Decodes the result of `encode_kernel`. Raises Fault."""
    kernel: ir.KernelDef = CODECS.of(ir.KernelDef).decode(Decoder(), x)
    return kernel
