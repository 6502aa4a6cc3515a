"""Codecs from annotations, on classes of this test, and upgrades between versions."""

from __future__ import annotations

import dataclasses
import enum
import hashlib
import json
from typing import Any, ClassVar

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from jsonschema import Draft202012Validator
from packages.wrapper_ir.tests.text.form_context import every_op
from packages.wrapper_ir.tests.text.kernel_strategies import configs

from wrapper_ir import Program, from_json, ir, parse_program, to_json
from wrapper_ir.errors import ParseError
from wrapper_ir.expr import Expr, Int, SymKind
from wrapper_ir.json.codec import Codecs
from wrapper_ir.json.decode import dump, load
from wrapper_ir.json.envelope import Envelope
from wrapper_ir.json.model_codecs import CODECS, decode, encode
from wrapper_ir.json.program import PROGRAM_ENVELOPE, decode_program, program_schema
from wrapper_ir.support.json_value import Json
from wrapper_ir.support.versions import Form, Upgrader


class Colour(enum.Enum):
    RED = "red"
    BLUE = "blue"


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class Circle:
    radius: int
    colour: Colour = Colour.RED


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class Group:
    shapes: tuple[Shape, ...] = ()
    label: str | None = None


Shape = Circle | Group


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class Steel:
    kind: ClassVar[str] = "metal"
    grade: int


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class Wood:
    kind: ClassVar[str] = "timber"


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class Chain:
    next: Chain | None = None


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class Drawing:
    name: str
    shape: Shape
    visible: bool = True
    size: tuple[int, str] = (1, "cm")
    notes: tuple[tuple[str, int | bool | str | Colour | tuple[int, ...] | None], ...] = ()
    material: Steel | Wood = Wood()
    chain: Chain = Chain()


TABLE = Codecs()
DRAWING = TABLE.of(Drawing)
SCHEMA = Draft202012Validator({**DRAWING.schema, "$defs": TABLE.definitions})

shapes = st.recursive(
    st.builds(Circle, radius=st.integers(), colour=st.sampled_from(Colour)),
    lambda inner: st.builds(
        Group, shapes=st.lists(inner, max_size=3).map(tuple), label=st.none() | st.text(max_size=2)
    ),
    max_leaves=5,
)
marks = st.one_of(
    st.integers(),
    st.booleans(),
    st.text(max_size=2),
    st.sampled_from(Colour),
    st.lists(st.integers(), max_size=2).map(tuple),
    st.none(),
)
drawings = st.builds(
    Drawing,
    name=st.text(max_size=3),
    shape=shapes,
    visible=st.booleans(),
    size=st.tuples(st.integers(0, 2), st.sampled_from(["cm", "mm"])),
    notes=st.lists(st.tuples(st.text(max_size=2), marks), max_size=3).map(tuple),
    material=st.builds(Steel, grade=st.integers()) | st.just(Wood()),
    chain=st.recursive(st.just(Chain()), lambda c: st.builds(Chain, next=c), max_leaves=3),
)


class Depth:
    """The context of these classes."""

    def __init__(self) -> None:
        self.depth = 0


def read(document: object) -> Drawing:
    drawing: Drawing = load(json.dumps({"it": document}), lambda o: DRAWING.decode(Depth(), o["it"]))
    return drawing


@pytest.mark.slow
@settings(max_examples=150)
@given(drawings)
def test_round_trip(drawing: Drawing) -> None:
    document = DRAWING.encode(None, drawing)
    assert read(document) == drawing
    assert repr(read(document)) == repr(drawing)  # == does not tell 1 from True
    SCHEMA.validate(document)


def test_the_form() -> None:
    drawing = Drawing(
        name="a",
        shape=Group(shapes=(Circle(radius=2, colour=Colour.BLUE),)),
        size=(2, "mm"),
        notes=(("b", Colour.RED), ("c", True), ("d", (1, 2)), ("e", None)),
        material=Steel(grade=3),
        chain=Chain(next=Chain()),
    )
    assert DRAWING.encode(None, drawing) == {
        "name": "a",
        "shape": {"class": "group", "shapes": [{"class": "circle", "radius": 2, "colour": "blue"}]},
        "size": [2, "mm"],
        "notes": [["b", {"colour": "red"}], ["c", True], ["d", [1, 2]], ["e", None]],
        "material": {"kind": "metal", "grade": 3},
        "chain": {"next": {}},
    }


PLAIN = {"name": "a", "shape": {"class": "circle", "radius": 1}}


@pytest.mark.parametrize(
    ("change", "code", "message"),
    [
        ({"shape": 1}, "WIR521", ".shape: expected circle or group"),
        ({"shape": {"radius": 1}}, "WIR521", ".shape: field 'class' is missing"),
        ({"shape": {"class": "square"}}, "WIR522", '.shape.class: unknown class "square"'),
        ({"shape": {"class": "circle"}}, "WIR521", ".shape: field 'radius' is missing"),
        ({"shape": {"class": "circle", "radius": True}}, "WIR521", ".shape.radius: expected an integer"),
        ({"shape": {"class": "circle", "radius": 1, "x": 1}}, "WIR521", ".shape: unknown field 'x'"),
        (
            {"shape": {"class": "circle", "radius": 1, "colour": "green"}},
            "WIR522",
            ".shape.colour: unknown colour",
        ),
        (
            {"shape": {"class": "group", "shapes": [{"class": "circle", "radius": ""}]}},
            "WIR521",
            ".shape.shapes[0].radius: expected an integer",
        ),
        ({"size": [1]}, "WIR521", ".size: expected a list of 2"),
        ({"size": [1, 2]}, "WIR521", ".size[1]: expected a string"),
        ({"notes": {}}, "WIR521", ".notes: expected a list"),
        ({"notes": [["a", 1.5]]}, "WIR521", ".notes[0][1]: expected colour or int or bool or str or list"),
        ({"notes": [["a", {"shade": "red"}]]}, "WIR521", ".notes[0][1]: expected colour"),
        ({"notes": [["a", {"colour": "green"}]]}, "WIR522", ".notes[0][1].colour: unknown colour"),
        ({"notes": [["a", ["b"]]]}, "WIR521", ".notes[0][1][0]: expected an integer"),
        ({"material": {"kind": "metal"}}, "WIR521", ".material: field 'grade' is missing"),
        ({"material": {"kind": "glass"}}, "WIR522", ".material.kind: unknown kind"),
        ({"visible": 1}, "WIR521", ".visible: expected true or false"),
        ({"chain": None}, "WIR521", ".chain: expected an object"),
        ({"extra": 1}, "WIR521", ": unknown field 'extra'"),
    ],
)
def test_refused(change: dict[str, object], code: str, message: str) -> None:
    document = {**PLAIN, **change}
    with pytest.raises(ParseError) as caught:
        load(json.dumps(document), lambda o: DRAWING.decode(Depth(), o))
    assert caught.value.code == code
    assert caught.value.message.startswith(f"at ${message}"), caught.value.message
    assert not SCHEMA.is_valid(document)


@pytest.mark.parametrize("depth", [195, 205])
def test_depth(depth: int) -> None:
    chain: dict[str, object] = {}
    for _ in range(depth):
        chain = {"next": chain}
    document = {**PLAIN, "chain": {"next": chain}}
    if depth < 200:
        assert read(document).chain.next is not None
    else:
        with pytest.raises(ParseError, match="WIR553"):
            read(document)


def test_what_has_no_json_form() -> None:
    for hint in (set[int], complex, object):
        with pytest.raises(TypeError, match="no JSON form"):
            Codecs().of(hint)


def test_one_definition_a_name() -> None:
    table = Codecs()
    table.of(Chain)
    other = dataclasses.make_dataclass("Chain", [("links", int)], frozen=True)
    with pytest.raises(TypeError, match="two definitions"):
        table.of(other)


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class TunedCppKernel(ir.CppKernel):
    """A kernel with a new field."""

    kind: ClassVar[str] = "tuned_cpp"
    unroll: tuple[int, ...] = ()


def test_a_new_field_needs_nothing_else() -> None:
    codec = CODECS.of_class(TunedCppKernel)
    kernel = TunedCppKernel(name="k", params=(), source="", entry="k", unroll=(4, 2))
    document = codec.encode(None, kernel)
    assert document == {
        "kind": "tuned_cpp",
        "name": "k",
        "params": [],
        "source": "",
        "entry": "k",
        "unroll": [4, 2],
    }
    assert codec.decode(Depth(), document) == kernel
    assert "unroll" in CODECS.definitions["tuned_cpp_kernel"]["properties"]  # type: ignore[operator]  # Json


# --- compiled kernels --------------------------------------------------------------------------------------------


def _every_field(cls: type[Any], **known: st.SearchStrategy[Any]) -> st.SearchStrategy[Any]:
    """Returns instances of a dataclass, with every field drawn by its annotation."""
    inferred: dict[str, Any] = dict.fromkeys((f.name for f in dataclasses.fields(cls)), ...)
    return st.builds(cls, **(inferred | known))


scratches = _every_field(ir.Scratch)
facts = _every_field(ir.LaunchFacts, scratch=scratches, profile=scratches)
driver_params = _every_field(ir.DriverParam, map=st.none() | _every_field(ir.TensorMap))
binaries = _every_field(
    ir.KernelBinary,
    config=st.none() | configs,
    facts=facts,
    params=st.lists(driver_params, max_size=3).map(tuple),
)


@settings(max_examples=60)
@given(binaries)
def test_compiled_kernels_survive(binary: ir.KernelBinary) -> None:
    document = encode(ir.KernelBinary, binary)
    image = hashlib.sha256(binary.image).hexdigest()
    assert document["image"] == image
    read_again = decode(ir.KernelBinary, json.loads(dump(document)))
    assert read_again == dataclasses.replace(binary, image=image.encode())
    assert {f.name for f in dataclasses.fields(ir.KernelBinary)} >= set(document)


# --- sets of ops -------------------------------------------------------------------------------------------------


ONE = Int(1)


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class Blend(ir.OpBase):
    """An op of this test."""

    first: ir.Use[ir.TensorType]
    others: ir.Uses[ir.TensorType] = ()
    weight: Expr = ONE
    colour: Colour = Colour.RED
    result: ir.Def[ir.TensorType]


X = ir.Value("x", ir.TensorType(ir.DType.F32, (Int(4),), (Int(1),)))
N = ir.Value("n", ir.ScalarType(SymKind.INT))
BLEND = Blend(first=X, others=(X,), weight=Int(3), colour=Colour.BLUE, result=ir.Value("y", X.type))
WIDER = ir.OPS.extended(Blend)


def _blending() -> Program:
    body: Any = (BLEND, ir.Return(values=(BLEND.result,)))  # Any: `Op` is the union of the IR's own ops
    return Program(
        functions=(ir.Function(name="main", params=(ir.Param(value=X), ir.Param(value=N)), body=body),)
    )


def test_an_op_of_a_wider_set_needs_only_its_class() -> None:
    text = to_json(_blending(), WIDER)
    assert from_json(text, WIDER) == _blending()
    assert to_json(from_json(text, WIDER), WIDER) == text
    document = json.loads(text)
    assert document["functions"][0]["body"][0] == {
        "op": "blend",
        "first": "x",
        "others": ["x"],
        "weight": 3,
        "colour": "blue",
        "result": {"name": "y", "type": 0},
    }
    Draft202012Validator(program_schema(WIDER)).validate(document)
    assert not Draft202012Validator(program_schema()).is_valid(document)
    with pytest.raises(ParseError, match="WIR522"):
        from_json(text)
    with pytest.raises(TypeError, match="Blend is not among"):
        to_json(_blending())


@pytest.mark.parametrize(
    ("change", "code", "place"),
    [
        ({"first": "n"}, "WIR013", "first"),
        ({"others": ["x", "n"]}, "WIR013", "others[1]"),
        ({"result": {"name": "y", "type": 1}}, "WIR014", "result"),
        ({"colour": "green"}, "WIR522", "colour"),
    ],
)
def test_its_values_are_judged(change: dict[str, object], code: str, place: str) -> None:
    document = json.loads(to_json(_blending(), WIDER))
    document["functions"][0]["body"][0].update(change)
    with pytest.raises(ParseError) as caught:
        from_json(json.dumps(document), WIDER)
    assert caught.value.code == code
    assert caught.value.message.startswith(f"at $.functions[0].body[0].{place}: ")


# --- versions ----------------------------------------------------------------------------------------------------


def _rename(document: dict[str, Json]) -> dict[str, Json]:
    return {"functions" if name == "procedures" else name: x for name, x in document.items()}


def _widen(document: dict[str, Json]) -> dict[str, Json]:
    target: Any = document["target"]  # Any: a parsed document
    return {**document, "target": {"device": {"type": target["device"]}, "arch": target.get("arch", "")}}


TEST = Envelope(
    PROGRAM_ENVELOPE.name,
    Form("JSON of a program", "t3", (Upgrader("t1", "t2", _rename), Upgrader("t2", "t3", _widen))),
)


def _older(version: str) -> dict[str, Json]:
    """Returns a program in the form of versions t1 and t2."""
    document: dict[str, Json] = json.loads(to_json(parse_program(every_op())))
    document |= {"version": version, "target": {"device": "cuda", "arch": "sm_90"}}
    if version == "t1":
        document["procedures"] = document.pop("functions")
    return document


@pytest.mark.parametrize("version", ["t1", "t2"])
def test_older_documents_are_upgraded_step_by_step(version: str) -> None:
    text = json.dumps(_older(version))
    program = load(text, lambda o: decode_program(o, TEST))
    expected = parse_program(every_op())
    assert (program.target.device.type, program.target.arch) == ("cuda", "sm_90")
    # optional fields are preserved
    assert dataclasses.replace(program, target=expected.target) == expected


def test_versions_without_a_way_are_refused_by_name() -> None:
    for version in ("t0", "t4", "0.1"):
        with pytest.raises(
            ParseError, match=f"version {version}, this package reads t3; make it again"
        ) as caught:
            load(json.dumps({**_older("t2"), "version": version}), lambda o: decode_program(o, TEST))
        assert caught.value.code == "WIR501"


def test_steps_that_lead_nowhere_end() -> None:
    def same(document: dict[str, Json]) -> dict[str, Json]:
        return document

    form = Form("JSON", "3", (Upgrader("1", "2", same), Upgrader("2", "1", same)))
    assert form.steps("1") is None
    assert form.steps("3") == ()
