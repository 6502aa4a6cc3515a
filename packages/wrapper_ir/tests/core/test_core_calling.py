"""Calling conventions without a tensor library: binding of arguments, classes by name, overlapping memory."""

from __future__ import annotations

import inspect
import itertools
import json
from collections import OrderedDict
from collections.abc import Mapping
from typing import Any, NamedTuple

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from wrapper_ir import ir
from wrapper_ir.analysis.overlap import Geometry, overlap
from wrapper_ir.errors import ExecutionError, NotSupportedError
from wrapper_ir.expr import Int
from wrapper_ir_runtime import Convention, literal
from wrapper_ir_runtime.parameters import arrange
from wrapper_ir_runtime.subclasses import Subclass, read_context
from wrapper_ir_runtime.trees import dataclass_of, flatten, namedtuple_of, unflatten

# Any in this file: arguments of any kind.

LEAF = ir.TreeSpec(kind=ir.TreeKind.LEAF)
KINDS = {
    ir.ParameterKind.POSITIONAL: inspect.Parameter.POSITIONAL_ONLY,
    ir.ParameterKind.ANY: inspect.Parameter.POSITIONAL_OR_KEYWORD,
    ir.ParameterKind.KEYWORD: inspect.Parameter.KEYWORD_ONLY,
}


class TestArrange:
    """Binds every valid form of a call to the captured one."""

    @settings(max_examples=200)
    @given(st.data())
    def test_as_python_binds(self, data: st.DataObject) -> None:
        kinds = sorted(data.draw(st.lists(st.sampled_from(list(KINDS)), max_size=5)), key=list(KINDS).index)
        names = [f"p{i}" for i in range(len(kinds))]
        captured = [data.draw(st.booleans()) for _ in kinds]
        parameters = tuple(
            ir.Parameter(name=n, kind=k, required=c, default=None if c else Int(7))
            for n, k, c in zip(names, kinds, captured, strict=True)
        )
        # The captured call: by position as far as possible, up to a random point.
        count = 0
        for kind, given_ in zip(kinds, captured, strict=True):
            if kind is ir.ParameterKind.KEYWORD or not given_ or not data.draw(st.booleans()):
                break
            count += 1
        rest = [n for n, k, c in zip(names, kinds, captured, strict=True) if c][count:]
        positional_only = {n for n, k in zip(names, kinds, strict=True) if k is ir.ParameterKind.POSITIONAL}
        if positional_only & set(rest):
            return  # no call of Python's gives these by keyword
        signature = _signature(count, rest, parameters)
        expected = _spelled(names[:count], rest)
        # Any spelling of the same call.
        python = inspect.Signature(
            [
                inspect.Parameter(p.name, KINDS[p.kind], default=inspect.Parameter.empty if p.required else 7)
                for p in parameters
            ]
            if _orderly(parameters)
            else []
        )
        cut = data.draw(st.integers(0, len(names)))
        args = [n if captured[i] else 7 for i, n in enumerate(names[:cut])]
        kwargs: dict[str, Any] = {n: n for i, n in enumerate(names[cut:], cut) if captured[i]}
        if data.draw(st.booleans()):
            kwargs |= {n: 7 for i, n in enumerate(names[cut:], cut) if not captured[i]}
        if not python.parameters:
            return
        try:
            python.bind(*args, **kwargs)
        except TypeError:
            with pytest.raises(ExecutionError, match="WIR926"):
                _bind(signature, args, kwargs)
        else:
            assert _bind(signature, args, kwargs) == expected

    def test_another_value_for_what_was_left_out(self) -> None:
        parameters = (ir.Parameter(name="x"), ir.Parameter(name="flag", required=False, default=Int(7)))
        signature = _signature(1, [], parameters)
        assert arrange(signature, ["x"], {"flag": 7}, literal) == (("x",), {})
        with pytest.raises(ExecutionError, match=r"WIR926.*flag"):
            arrange(signature, ["x"], {"flag": 8}, literal)

    def test_any_number(self) -> None:
        signature = _signature(3, ["named"], (ir.Parameter(name="x"),))
        assert arrange(signature, [1, 2, 3], {"named": 4}, literal) == ((1, 2, 3), {"named": 4})
        for args, kwargs in (([1, 2], {"named": 4}), ([1, 2, 3, 4], {"named": 4}), ([1, 2, 3], {})):
            with pytest.raises(ExecutionError, match="WIR926"):
                _bind(signature, args, kwargs)


def _signature(count: int, keywords: list[str], parameters: tuple[ir.Parameter, ...]) -> ir.Signature:
    args = ir.TreeSpec(kind=ir.TreeKind.TUPLE, children=(LEAF,) * count)
    keys = tuple(json.dumps(k) for k in keywords)
    kwargs = ir.TreeSpec(kind=ir.TreeKind.DICT, children=(LEAF,) * len(keys), keys=keys)
    inputs = ir.TreeSpec(kind=ir.TreeKind.TUPLE, children=(args, kwargs))
    return ir.Signature(inputs=inputs, params=(), outputs=LEAF, bindings=(), parameters=parameters)


def _spelled(args: list[str], kwargs: list[str]) -> list[str]:
    return [*args, *kwargs]


def _orderly(parameters: tuple[ir.Parameter, ...]) -> bool:
    """Returns whether Python accepts such parameters: no positional one without a default follows one
    with."""
    positional = [p.required for p in parameters if p.kind is not ir.ParameterKind.KEYWORD]
    return positional == sorted(positional, reverse=True)


def _bind(signature: ir.Signature, args: list[Any], kwargs: Mapping[str, Any]) -> list[Any]:
    return flatten(signature.inputs, arrange(signature, args, kwargs, literal))


# --- classes by name


class Fine(NamedTuple):
    """A class that a signature may name."""

    a: Any
    b: Any


@pytest.mark.parametrize(
    "type_name", ["os:system", "subprocess:run", "json:loads", "collections:OrderedDict", "builtins:eval"]
)
def test_nothing_is_called_for_its_name(type_name: str) -> None:
    """Checks that a signature can name only a class of its declared kind, and that nothing else is called."""
    for kind in (ir.TreeKind.NAMEDTUPLE, ir.TreeKind.DATACLASS):
        spec = ir.TreeSpec(kind=kind, children=(LEAF, LEAF), keys=("a", "b"), type_name=type_name)
        with pytest.raises(ExecutionError, match="WIR926"):
            unflatten(spec, ["echo", "nothing"])
    with pytest.raises(ExecutionError, match="WIR926"):
        Subclass(ir.SubclassSpec(type_name=type_name, attributes=("a",)), lambda arg: arg)


def test_classes_are_what_the_signature_says() -> None:
    name = f"{__name__}:Fine"
    assert namedtuple_of(name, ("a", "b"))(1, 2) == Fine(1, 2)
    with pytest.raises(ExecutionError, match="WIR926"):
        namedtuple_of(name, ("a",))
    with pytest.raises(ExecutionError, match="WIR926"):
        dataclass_of(name, ("a", "b"))
    with pytest.raises(ExecutionError, match=r"WIR926.*nowhere"):
        namedtuple_of("nowhere:Class", ())


class Wrapper:
    """Imitates a wrapper tensor subclass."""

    def __init__(self, a: Any, context: Any, shape: tuple[int, ...]) -> None:
        self.a, self.context, self.shape = a, context, shape

    def stride(self) -> tuple[int, ...]:
        return tuple(1 for _ in self.shape)

    def __tensor_flatten__(self) -> tuple[list[str], Any]:
        return ["a"], self.context

    @staticmethod
    def __tensor_unflatten__(inner: Mapping[str, Any], context: Any, sizes: Any, strides: Any) -> Wrapper:
        return Wrapper(inner["a"], context, sizes)


CONTEXT = '{"dict": [["block", {"tuple": [1, 32]}], ["dtype", {"dtype": "i8"}], ["eps", {"float": "inf"}]]}'


def test_wrappers() -> None:
    spec = ir.SubclassSpec(
        type_name=f"{__name__}:Wrapper", attributes=("a",), context=CONTEXT, sizes=(None, 3), strides=(1, 1)
    )
    subclass = Subclass(spec, lambda arg: arg)
    context = {"block": (1, 32), "dtype": ir.DType.I8, "eps": float("inf")}
    assert subclass.unwrap(Wrapper("inner", context, (5, 3))) == ["inner", 5]
    wrapped = subclass.wrap(["inner", 6])
    assert isinstance(wrapped, Wrapper)
    assert (wrapped.a, wrapped.context, wrapped.shape) == ("inner", context, (6, 3))
    for other in (Wrapper("inner", {}, (5, 3)), Wrapper("inner", context, (5, 4)), object()):
        with pytest.raises(ExecutionError, match=r"WIR926.*Wrapper"):
            subclass.unwrap(other)


@pytest.mark.parametrize(
    "text", ["{}", '{"object": 1}', '{"tuple": 1, "dict": 2}', "nul", '{"dtype": "f31"}']
)
def test_contexts_hold_nothing_else(text: str) -> None:
    with pytest.raises(ExecutionError, match="WIR926"):
        read_context(text, lambda arg: arg)


def test_contexts_of_every_kind() -> None:
    def native(arg: ir.Arg) -> Any:
        return arg

    assert read_context('{"device": "cuda:1"}', native) == ir.Device("cuda", 1)
    assert read_context('[null, true, 2, 2.5, "s", {"device": "cpu"}]', native) == [
        None,
        True,
        2,
        2.5,
        "s",
        ir.CPU,
    ]


def test_random_state_of_accelerators_is_refused() -> None:
    signature = ir.Signature(
        inputs=_signature(0, [], ()).inputs,
        params=(),
        outputs=LEAF,
        bindings=(),
        random=(ir.RandomState(device=ir.Device("cuda", 0), source=ir.RandomSource.PHILOX),),
    )
    with pytest.raises(NotSupportedError, match=r"WIR916.*cuda:0"):
        Convention(signature, None)  # type: ignore[arg-type]  # refused before it is asked anything


def test_ordered_dictionaries_are_no_dictionaries_of_the_signature() -> None:
    """Checks that a DICT accepts any mapping with its keys, in any order."""
    spec = ir.TreeSpec(kind=ir.TreeKind.DICT, children=(LEAF, LEAF), keys=('"a"', "2"))
    assert flatten(spec, OrderedDict([(2, "y"), ("a", "x")])) == ["x", "y"]


# --- memory


@st.composite
def geometries(draw: st.DrawFn) -> Geometry:
    dims = draw(st.integers(0, 3))
    return Geometry(
        storage=draw(st.sampled_from("ab")) if draw(st.integers(0, 9)) == 0 else "a",
        sizes=tuple(draw(st.integers(0 if draw(st.integers(0, 9)) == 0 else 1, 4)) for _ in range(dims)),
        strides=tuple(draw(st.integers(0, 9)) for _ in range(dims)),
        offset=draw(st.integers(0, 12)),
        itemsize=draw(st.sampled_from([1, 2, 4])),
    )


def touched(g: Geometry) -> set[int]:
    offsets = set()
    for index in itertools.product(*map(range, g.sizes)):
        element = g.offset + sum(i * s for i, s in zip(index, g.strides, strict=True))
        offsets |= set(range(element * g.itemsize, (element + 1) * g.itemsize))
    return offsets


@given(geometries(), geometries())
def test_overlap_is_exact(a: Geometry, b: Geometry) -> None:
    assert overlap(a, b) == (a.storage == b.storage and not touched(a).isdisjoint(touched(b)))


def test_overlap_of_large_tensors_is_quick() -> None:
    """Heads of one projection, slices of one cache: interleaved, and apart."""
    whole: dict[str, Any] = {"storage": 1, "itemsize": 4, "strides": (3 * 4096 * 512, 3 * 4096, 1)}
    query = Geometry(sizes=(8, 512, 4096), offset=0, **whole)
    key = Geometry(sizes=(8, 512, 4096), offset=4096, **whole)
    assert not overlap(query, key)
    assert overlap(query, Geometry(sizes=(8, 512, 4096), offset=4095, **whole))
    transposed = Geometry(storage=1, itemsize=4, sizes=(4096, 512), strides=(1, 3 * 4096), offset=2 * 4096)
    assert not overlap(query, transposed)
