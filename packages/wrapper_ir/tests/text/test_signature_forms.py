"""Random signatures survive JSON, and fit the schema."""

from __future__ import annotations

import json

from hypothesis import given, settings
from hypothesis import strategies as st
from jsonschema import Draft202012Validator

from wrapper_ir import ir
from wrapper_ir.expr import Bool, Float, Int
from wrapper_ir.json import signature_from_json, signature_schema, signature_to_json

SCHEMA = Draft202012Validator(signature_schema())

text = st.text(st.characters(exclude_categories=["Cs"]), max_size=8)
number = st.integers(0, 2**40)
numbers = st.lists(number, max_size=3).map(tuple)
devices = st.builds(ir.Device, text, st.none() | number)
floats = st.floats().map(Float)
plain: st.SearchStrategy[ir.Arg] = st.one_of(
    st.none(),
    text,
    st.integers().map(Int),
    st.booleans().map(Bool),
    floats,
    st.builds(ir.Complex, floats, floats),
    st.sampled_from(ir.DType),
    st.sampled_from(ir.Layout),
    st.sampled_from(ir.MemoryFormat),
    devices,
)
literals = st.recursive(plain, lambda inner: st.lists(inner, max_size=3).map(tuple), max_leaves=6)
leaves = st.just(ir.TreeSpec(kind=ir.TreeKind.LEAF))


def _node(children: st.SearchStrategy[ir.TreeSpec]) -> st.SearchStrategy[ir.TreeSpec]:
    return st.builds(
        ir.TreeSpec,
        kind=st.sampled_from(ir.TreeKind),
        children=st.lists(children, max_size=3).map(tuple),
        keys=st.lists(text, max_size=3).map(tuple),
        type_name=text,
        context=text,
    )


trees = st.recursive(leaves, _node, max_leaves=8)
subclasses = st.builds(
    ir.SubclassSpec,
    type_name=text,
    attributes=st.lists(text, max_size=3).map(tuple),
    context=text,
    sizes=st.lists(st.none() | number, max_size=3).map(tuple),
    strides=st.lists(st.none() | number, max_size=3).map(tuple),
)
bindings: st.SearchStrategy[ir.OutputBinding] = st.recursive(
    st.one_of(
        st.builds(ir.ResultOutput, index=number),
        st.builds(ir.InputOutput, leaf=number),
        st.builds(ir.ConstantOutput, value=literals),
        st.builds(ir.InputView, index=number, leaf=number),
        st.builds(ir.ResultView, index=number, base=number),
    ),
    lambda inner: st.builds(
        ir.WrappedOutput, subclass=subclasses, parts=st.lists(inner, max_size=3).map(tuple)
    ),
    max_leaves=5,
)
places = st.builds(ir.SharedLeaf, leaf=number, sizes=numbers, strides=numbers, offset=number)


def _some(items: st.SearchStrategy[object]) -> st.SearchStrategy[tuple[object, ...]]:
    return st.lists(items, max_size=2).map(tuple)


signatures = st.builds(
    ir.Signature,
    inputs=trees,
    params=numbers,
    outputs=trees,
    bindings=_some(bindings),
    names=_some(text),
    parameters=_some(
        st.builds(
            ir.Parameter,
            name=text,
            kind=st.sampled_from(ir.ParameterKind),
            required=st.booleans(),
            default=literals,
        )
    ),
    statics=_some(st.builds(ir.StaticInput, leaf=number, value=literals)),
    unwraps=_some(st.builds(ir.Unwrap, leaf=number, subclass=subclasses)),
    same=_some(st.builds(ir.SameTensor, leaves=numbers)),
    shared=_some(st.builds(ir.SharedStorage, param=number, places=_some(places))),
    written=numbers,
    write_backs=_some(
        st.builds(ir.WriteBack, result=number, leaf=number, kind=st.sampled_from(ir.WriteBackKind))
    ),
    random=_some(st.builds(ir.RandomState, device=devices, source=st.sampled_from(ir.RandomSource))),
)


@settings(max_examples=150)
@given(signatures)
def test_round_trip(signature: ir.Signature) -> None:
    document = signature_to_json(signature)
    assert signature_from_json(document) == signature
    assert signature_to_json(signature_from_json(document)) == document
    SCHEMA.validate(json.loads(document))
