"""Random signatures survive JSON, and fit the schema."""

from __future__ import annotations

import json

from hypothesis import given, settings
from hypothesis import strategies as st
from jsonschema import Draft202012Validator

from wrapper_ir.expr import Bool, Float, Int
from wrapper_ir.ir.ops import Arg, Complex
from wrapper_ir.ir.signature import (
    ConstantOutput,
    InputOutput,
    InputView,
    OutputBinding,
    Parameter,
    ParameterKind,
    RandomSource,
    RandomState,
    ResultOutput,
    ResultView,
    SameTensor,
    SharedLeaf,
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
from wrapper_ir.ir.types import Device, DType, Layout, MemoryFormat
from wrapper_ir.json import signature_from_json, signature_schema, signature_to_json

SCHEMA = Draft202012Validator(signature_schema())

text = st.text(st.characters(exclude_categories=["Cs"]), max_size=8)
number = st.integers(0, 2**40)
numbers = st.lists(number, max_size=3).map(tuple)
devices = st.builds(Device, text, st.none() | number)
floats = st.floats().map(Float)
plain: st.SearchStrategy[Arg] = st.one_of(
    st.none(),
    text,
    st.integers().map(Int),
    st.booleans().map(Bool),
    floats,
    st.builds(Complex, floats, floats),
    st.sampled_from(DType),
    st.sampled_from(Layout),
    st.sampled_from(MemoryFormat),
    devices,
)
literals = st.recursive(plain, lambda inner: st.lists(inner, max_size=3).map(tuple), max_leaves=6)
leaves = st.just(TreeSpec(kind=TreeKind.LEAF))


def _node(children: st.SearchStrategy[TreeSpec]) -> st.SearchStrategy[TreeSpec]:
    return st.builds(
        TreeSpec,
        kind=st.sampled_from(TreeKind),
        children=st.lists(children, max_size=3).map(tuple),
        keys=st.lists(text, max_size=3).map(tuple),
        type_name=text,
        context=text,
    )


trees = st.recursive(leaves, _node, max_leaves=8)
subclasses = st.builds(
    SubclassSpec,
    type_name=text,
    attributes=st.lists(text, max_size=3).map(tuple),
    context=text,
    sizes=st.lists(st.none() | number, max_size=3).map(tuple),
    strides=st.lists(st.none() | number, max_size=3).map(tuple),
)
bindings: st.SearchStrategy[OutputBinding] = st.recursive(
    st.one_of(
        st.builds(ResultOutput, index=number),
        st.builds(InputOutput, leaf=number),
        st.builds(ConstantOutput, value=literals),
        st.builds(InputView, index=number, leaf=number),
        st.builds(ResultView, index=number, base=number),
    ),
    lambda inner: st.builds(WrappedOutput, subclass=subclasses, parts=st.lists(inner, max_size=3).map(tuple)),
    max_leaves=5,
)
places = st.builds(SharedLeaf, leaf=number, sizes=numbers, strides=numbers, offset=number)


def _some(items: st.SearchStrategy[object]) -> st.SearchStrategy[tuple[object, ...]]:
    return st.lists(items, max_size=2).map(tuple)


signatures = st.builds(
    Signature,
    inputs=trees,
    params=numbers,
    outputs=trees,
    bindings=_some(bindings),
    names=_some(text),
    parameters=_some(
        st.builds(
            Parameter,
            name=text,
            kind=st.sampled_from(ParameterKind),
            required=st.booleans(),
            default=literals,
        )
    ),
    statics=_some(st.builds(StaticInput, leaf=number, value=literals)),
    unwraps=_some(st.builds(Unwrap, leaf=number, subclass=subclasses)),
    same=_some(st.builds(SameTensor, leaves=numbers)),
    shared=_some(st.builds(SharedStorage, param=number, places=_some(places))),
    written=numbers,
    write_backs=_some(st.builds(WriteBack, result=number, leaf=number, kind=st.sampled_from(WriteBackKind))),
    random=_some(st.builds(RandomState, device=devices, source=st.sampled_from(RandomSource))),
)


@settings(max_examples=150)
@given(signatures)
def test_round_trip(signature: Signature) -> None:
    document = signature_to_json(signature)
    assert signature_from_json(document) == signature
    assert signature_to_json(signature_from_json(document)) == document
    SCHEMA.validate(json.loads(document))
