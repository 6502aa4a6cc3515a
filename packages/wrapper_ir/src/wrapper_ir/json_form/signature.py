"""Signatures as JSON."""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeVar, assert_never

from wrapper_ir.json_form.devices import decode_device, encode_device
from wrapper_ir.json_form.exprs import ArgDecoder, encode_arg
from wrapper_ir.json_form.reading import (
    MAX_DEPTH,
    Json,
    dump,
    each,
    fault,
    field,
    integer,
    load,
    member,
    members_of,
    obj,
    only,
    string,
    strings,
    truth,
)
from wrapper_ir.ops import Arg
from wrapper_ir.program import SCHEMA_VERSION
from wrapper_ir.signature import (
    ConstantOutput,
    InputOutput,
    InputView,
    OutputBinding,
    Parameter,
    ParameterKind,
    Place,
    RandomSource,
    RandomState,
    ResultOutput,
    ResultView,
    SameTensor,
    SharedStorage,
    Signature,
    StaticInput,
    SubclassSpec,
    TreeKind,
    TreeSpec,
    Unwrap,
    WrappedOutput,
    WriteBack,
    WriteBackKind,
)

__all__ = ["SIGNATURE_FORMAT", "signature_from_json", "signature_to_json"]

T = TypeVar("T")

SIGNATURE_FORMAT = "wrapper-ir-signature"

_tree_kind = member(members_of(TreeKind), "container")
_parameter_kind = member(members_of(ParameterKind), "kind of parameter")
_write_back_kind = member(members_of(WriteBackKind), "write-back")
_random_source = member(members_of(RandomSource), "source of random numbers")


def signature_to_json(signature: Signature) -> str:
    """The canonical JSON of a signature; its schema is `schema/signature.schema.json`."""
    return dump(
        {
            "format": SIGNATURE_FORMAT,
            "version": SCHEMA_VERSION,
            "inputs": _encode_tree(signature.inputs),
            "params": list(signature.params),
            "outputs": _encode_tree(signature.outputs),
            "bindings": [_encode_binding(b) for b in signature.bindings],
            "names": list(signature.names),
            "parameters": [_encode_parameter(p) for p in signature.parameters],
            "statics": [{"leaf": s.leaf, "value": encode_arg(s.value)} for s in signature.statics],
            "unwraps": [
                {"leaf": u.leaf, "subclass": _encode_subclass(u.subclass)} for u in signature.unwraps
            ],
            "same": [list(s.leaves) for s in signature.same],
            "shared": [_encode_shared(s) for s in signature.shared],
            "written": list(signature.written),
            "write_backs": [
                {"result": w.result, "leaf": w.leaf, "kind": w.kind.value} for w in signature.write_backs
            ],
            "random": [
                {"device": encode_device(r.device), "source": r.source.value} for r in signature.random
            ],
        }
    )


def _encode_tree(tree: TreeSpec) -> Json:
    return {
        "kind": tree.kind.value,
        "children": [_encode_tree(c) for c in tree.children],
        "keys": list(tree.keys),
        "type_name": tree.type_name,
        "context": tree.context,
    }


def _encode_parameter(parameter: Parameter) -> Json:
    return {
        "name": parameter.name,
        "kind": parameter.kind.value,
        "required": parameter.required,
        "default": encode_arg(parameter.default),
    }


def _encode_subclass(spec: SubclassSpec) -> Json:
    return {
        "type_name": spec.type_name,
        "attributes": list(spec.attributes),
        "context": spec.context,
        "sizes": list(spec.sizes),
        "strides": list(spec.strides),
    }


def _encode_shared(shared: SharedStorage) -> Json:
    places: list[Json] = [
        {"leaf": p.leaf, "sizes": list(p.sizes), "strides": list(p.strides), "offset": p.offset}
        for p in shared.places
    ]
    return {"param": shared.param, "places": places}


def _encode_binding(binding: OutputBinding) -> Json:
    match binding:
        case ResultOutput(index=index):
            return {"result": index}
        case InputOutput(leaf=leaf):
            return {"input": leaf}
        case ConstantOutput(value=value):
            return {"constant": encode_arg(value)}
        case InputView(index=index, leaf=leaf):
            return {"input_view": {"result": index, "leaf": leaf}}
        case ResultView(index=index, base=base):
            return {"result_view": {"result": index, "base": base}}
        case WrappedOutput(subclass=subclass, parts=parts):
            listed: list[Json] = [_encode_binding(p) for p in parts]
            return {"wrapped": {"subclass": _encode_subclass(subclass), "parts": listed}}
        case _:
            assert_never(binding)


_TOP = (
    "format", "version", "inputs", "params", "outputs", "bindings", "names", "parameters", "statics", "unwraps",
    "same", "shared", "written", "write_backs", "random",
)  # fmt: skip


def signature_from_json(text: str) -> Signature:
    """The signature in `text`. Raises ParseError as `from_json` does."""
    return load(text, _decode)


def _decode(o: dict[str, Json]) -> Signature:
    if o.get("format") != SIGNATURE_FORMAT:
        fault(f'this is no signature: "format" is not "{SIGNATURE_FORMAT}"')
    version = field(o, "version", string)
    if version != SCHEMA_VERSION:
        fault(f"this is JSON of version {version[:40]!r}, not {SCHEMA_VERSION}", "WIR501")
    only(o, _TOP)
    return Signature(
        inputs=field(o, "inputs", _decode_tree),
        params=field(o, "params", _integers),
        outputs=field(o, "outputs", _decode_tree),
        bindings=_list(o, "bindings", _decode_binding),
        names=field(o, "names", strings),
        parameters=_list(o, "parameters", _decode_parameter),
        statics=_list(o, "statics", _decode_static),
        unwraps=_list(o, "unwraps", _decode_unwrap),
        same=_list(o, "same", lambda s: SameTensor(leaves=_integers(s))),
        shared=_list(o, "shared", _decode_shared),
        written=field(o, "written", _integers),
        write_backs=_list(o, "write_backs", _decode_write_back),
        random=_list(o, "random", _decode_random),
    )


def _list(o: dict[str, Json], name: str, read: Callable[[Json], T]) -> tuple[T, ...]:
    return field(o, name, lambda items: each(items, read))


def _integers(x: Json) -> tuple[int, ...]:
    return each(x, integer)


def _record(x: Json, *names: str) -> dict[str, Json]:
    o = obj(x)
    only(o, names)
    return o


def _decode_tree(x: Json, depth: int = 0) -> TreeSpec:
    if depth > MAX_DEPTH:
        fault(f"nests deeper than {MAX_DEPTH}", "WIR553")
    o = _record(x, "kind", "children", "keys", "type_name", "context")
    return TreeSpec(
        kind=field(o, "kind", _tree_kind),
        children=_list(o, "children", lambda t: _decode_tree(t, depth + 1)),
        keys=field(o, "keys", strings),
        type_name=field(o, "type_name", string),
        context=field(o, "context", string),
    )


def _literal(x: Json) -> Arg:
    """An argument in which no value and no symbol can occur."""
    return ArgDecoder().arg(x)


def _decode_parameter(x: Json) -> Parameter:
    o = _record(x, "name", "kind", "required", "default")
    return Parameter(
        name=field(o, "name", string),
        kind=field(o, "kind", _parameter_kind),
        required=field(o, "required", truth),
        default=field(o, "default", _literal),
    )


def _decode_subclass(x: Json) -> SubclassSpec:
    o = _record(x, "type_name", "attributes", "context", "sizes", "strides")
    return SubclassSpec(
        type_name=field(o, "type_name", string),
        attributes=field(o, "attributes", strings),
        context=field(o, "context", string),
        sizes=_list(o, "sizes", _known),
        strides=_list(o, "strides", _known),
    )


def _known(x: Json) -> int | None:
    return None if x is None else integer(x)


def _decode_unwrap(x: Json) -> Unwrap:
    o = _record(x, "leaf", "subclass")
    return Unwrap(leaf=field(o, "leaf", integer), subclass=field(o, "subclass", _decode_subclass))


def _decode_shared(x: Json) -> SharedStorage:
    o = _record(x, "param", "places")
    return SharedStorage(param=field(o, "param", integer), places=_list(o, "places", _decode_place))


def _decode_place(x: Json) -> Place:
    o = _record(x, "leaf", "sizes", "strides", "offset")
    return Place(
        leaf=field(o, "leaf", integer),
        sizes=field(o, "sizes", _integers),
        strides=field(o, "strides", _integers),
        offset=field(o, "offset", integer),
    )


def _decode_binding(x: Json, depth: int = 0) -> OutputBinding:
    if depth > MAX_DEPTH:
        fault(f"nests deeper than {MAX_DEPTH}", "WIR553")
    o = obj(x)
    match list(o):
        case ["result"]:
            return ResultOutput(index=field(o, "result", integer))
        case ["input"]:
            return InputOutput(leaf=field(o, "input", integer))
        case ["constant"]:
            return ConstantOutput(value=field(o, "constant", _literal))
        case ["input_view"]:
            index, leaf = field(o, "input_view", lambda v: _pair(v, "leaf"))
            return InputView(index=index, leaf=leaf)
        case ["result_view"]:
            index, base = field(o, "result_view", lambda v: _pair(v, "base"))
            return ResultView(index=index, base=base)
        case ["wrapped"]:
            return field(o, "wrapped", lambda w: _decode_wrapped(w, depth))
        case _:
            return fault(
                "an output is an object of one key: result, input, constant, input_view, result_view or wrapped"
            )


def _decode_wrapped(x: Json, depth: int) -> WrappedOutput:
    o = _record(x, "subclass", "parts")
    return WrappedOutput(
        subclass=field(o, "subclass", _decode_subclass),
        parts=_list(o, "parts", lambda p: _decode_binding(p, depth + 1)),
    )


def _decode_static(x: Json) -> StaticInput:
    o = _record(x, "leaf", "value")
    return StaticInput(leaf=field(o, "leaf", integer), value=field(o, "value", _literal))


def _decode_write_back(x: Json) -> WriteBack:
    o = _record(x, "result", "leaf", "kind")
    return WriteBack(
        result=field(o, "result", integer),
        leaf=field(o, "leaf", integer),
        kind=field(o, "kind", _write_back_kind),
    )


def _decode_random(x: Json) -> RandomState:
    o = _record(x, "device", "source")
    return RandomState(device=field(o, "device", decode_device), source=field(o, "source", _random_source))


def _pair(x: Json, other: str) -> tuple[int, int]:
    o = _record(x, "result", other)
    return field(o, "result", integer), field(o, other, integer)
