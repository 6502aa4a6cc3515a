"""The JSON form: golden, canonical, described by its schema, refused with a path."""

from __future__ import annotations

import json
import random
from collections.abc import Callable
from importlib.resources import files
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from jsonschema import Draft202012Validator
from packages.wrapper_ir.tests.text.form_context import GOLDEN, every_op, program_of
from packages.wrapper_ir.tests.text.form_strategies import programs

from wrapper_ir import Program, from_json, ir, parse_program, to_json
from wrapper_ir.errors import ParseError
from wrapper_ir.expr import Float, Int
from wrapper_ir.json import program_schema, signature_from_json, signature_schema, signature_to_json
from wrapper_ir_tools.testing import random_artifact, random_program

Json = Any  # Any: a parsed document

PROGRAMS = Draft202012Validator(program_schema())
SIGNATURES = Draft202012Validator(signature_schema())


def test_golden_program(update_golden: bool) -> None:
    document = json.loads(to_json(parse_program(every_op())))
    path = GOLDEN / "every_op.json"
    if update_golden:
        path.write_text(
            json.dumps(document, indent=1, sort_keys=True, ensure_ascii=False) + "\n", encoding="utf-8"
        )
    golden = path.read_text(encoding="utf-8")
    assert json.loads(golden) == document
    assert from_json(golden) == parse_program(every_op())


@pytest.mark.parametrize(
    ("name", "schema"), [("program.schema.json", program_schema), ("signature.schema.json", signature_schema)]
)
def test_shipped_schemas(name: str, schema: Callable[[], object], update_golden: bool) -> None:
    text = json.dumps(schema(), indent=2, sort_keys=True) + "\n"
    path = files("wrapper_ir") / "schema" / name
    if update_golden:
        (GOLDEN.parents[2] / "src" / "wrapper_ir" / "schema" / name).write_text(text, encoding="utf-8")
    assert path.read_text(encoding="utf-8") == text
    Draft202012Validator.check_schema(json.loads(text))


def test_tags_are_distinct() -> None:
    assert len(ir.OPS.by_tag) == len(ir.OPS)


def test_golden_fits_the_schema() -> None:
    PROGRAMS.validate(json.loads(to_json(parse_program(every_op()))))


@pytest.mark.slow
@settings(max_examples=60)
@given(st.integers(0, 2**32))
def test_valid_programs_fit_the_schema(seed: int) -> None:
    PROGRAMS.validate(json.loads(to_json(random_program(random.Random(seed), 10))))


@settings(max_examples=60)
@given(programs())
def test_any_programs_fit_the_schema(program: Program) -> None:
    PROGRAMS.validate(json.loads(to_json(program)))


def test_canonical() -> None:
    text = to_json(parse_program(every_op()))
    assert text == json.dumps(json.loads(text), sort_keys=True, separators=(",", ":"), ensure_ascii=False)
    assert to_json(from_json(json.dumps(json.loads(text), indent=3))) == text


def test_every_expression_node_survives() -> None:
    lines = """define s0 = where(a < b and not (a == 3 or b >= 4), min(a, b, 3), max(a, -2))
define s0 = to_int(a*b//3 + ceildiv(a, 2) % 5 - 2**b) / 1.5 + sqrt(floor(c))
define s0 = size(%x, 0) + stride(%x, 1) - offset(%x) + item(%x)
define s0 = bit_and(abs(a), round_to(b, 2)) + where(true, nan, -inf)
define s0 = -0.0"""
    program = program_of(lines)
    nodes = [e for op in program.main.body for e in _nodes(op.expr)]  # type: ignore[union-attr]  # all are Define
    assert set(ir.NODE_TYPES) == set(map(type, nodes))
    assert from_json(to_json(program)) == program


def _nodes(e: Any) -> list[Any]:  # Any: expressions
    return [e, *(n for child in e.args for n in _nodes(child))]


def test_surrogates() -> None:
    lone = program_of('comment "\\ud800"')
    assert from_json(to_json(lone)) == lone
    to_json(lone).encode()
    pair = program_of('comment "\\ud800\\udc00"')
    with pytest.raises(ParseError, match="WIR523"):
        to_json(pair)


def _changed(change: Callable[[Json], None]) -> str:
    document = json.loads(to_json(parse_program(every_op())))
    change(document)
    return json.dumps(document)


def _op(tag: str, change: Callable[[Json], None]) -> Callable[[Json], None]:
    """Returns a change of the first op with this tag."""
    return lambda d: change(next(op for op in d["functions"][0]["body"] if op["op"] == tag))


def _set(key: str, value: Json) -> Callable[[Json], None]:
    return lambda d: d.__setitem__(key, value)


REFUSED = [
    (_set("format", "zip"), "WIR521", "$"),
    (_set("version", "0.1"), "WIR501", "$"),
    (_set("version", 2), "WIR521", "$.version"),
    (_set("extra", 1), "WIR521", "$"),
    (lambda d: d.pop("types"), "WIR521", "$"),
    (_set("functions", {}), "WIR521", "$.functions"),
    (_set("target", {"device": {"index": 0}, "arch": ""}), "WIR521", "$.target.device"),
    (_set("target", "cpu"), "WIR521", "$.target"),
    (_set("target", {"device": {"type": "cpu", "index": "0"}}), "WIR521", "$.target.device.index"),
    (lambda d: d["symbols"].append(d["symbols"][0]), "WIR506", "$.symbols[7]"),
    (lambda d: d["symbols"][0].update(lower=1.0), "WIR521", "$.symbols[0].lower"),
    (lambda d: d["symbols"][0].update(hint="x"), "WIR521", "$.symbols[0].hint"),
    (lambda d: d["symbols"][0].update(hint={"floating": 1.5}), "WIR521", "$.symbols[0].hint"),
    (lambda d: d["symbols"][0].pop("name"), "WIR521", "$.symbols[0]"),
    (lambda d: d["symbols"][0].update(backed=1), "WIR521", "$.symbols[0].backed"),
    (lambda d: d["symbols"][0].update(hint={"float": "nan"}), "WIR521", "$.symbols[0].hint"),
    (lambda d: d["constants"].append(d["constants"][0]), "WIR506", "$.constants[4].value"),
    (lambda d: d["constants"][0]["value"].update(type=-1), "WIR521", "$.constants[0].value.type"),
    (lambda d: d["constants"][0]["value"].update(type=True), "WIR521", "$.constants[0].value.type"),
    (lambda d: d["externs"][0].update(schema="relu"), "WIR521", "$.externs[0].schema"),
    (lambda d: d["externs"][1].update(tags=["randm"]), "WIR522", "$.externs[1].tags[0]"),
    (lambda d: d["kernels"][0].update(kind="cuda"), "WIR522", "$.kernels[0].kind"),
    (lambda d: d["kernels"][0].update(kind=None), "WIR521", "$.kernels[0].kind"),
    (lambda d: d["kernels"][0].pop("kind"), "WIR521", "$.kernels[0]"),
    (lambda d: d["kernels"].append("cpp"), "WIR521", "$.kernels[4]"),
    (lambda d: d["kernels"][0].update(options=[]), "WIR521", "$.kernels[0]"),
    (lambda d: d["kernels"][0]["params"][0].update(dtype="f31"), "WIR522", "$.kernels[0].params[0].dtype"),
    (lambda d: d["types"][0].update({"class": "array"}), "WIR522", "$.types[0].class"),
    (lambda d: d["types"][0].update(dtype={"dtype": "f32"}), "WIR521", "$.types[0].dtype"),
    (lambda d: d["types"][0].update(sizes=["s9"]), "WIR551", "$.types[0].sizes[0]"),
    (lambda d: d["types"][0].update(sizes=[["item", "x"]]), "WIR552", "$.types[0].sizes[0]"),
    (lambda d: d["types"][0].update(sizes=[["add", 1]]), "WIR521", "$.types[0].sizes[0]"),
    (lambda d: d["types"][0].update(sizes=[["mod", 1, 2, 3]]), "WIR521", "$.types[0].sizes[0]"),
    (lambda d: d["types"][0].update(sizes=[["plus", 1, 2]]), "WIR522", "$.types[0].sizes[0]"),
    (lambda d: d["types"][0].update(sizes=[[]]), "WIR521", "$.types[0].sizes[0]"),
    (lambda d: d["types"][0].update(sizes=[{"float": 10**400}]), "WIR521", "$.types[0].sizes[0]"),
    (lambda d: d["types"][0].update(sizes=[{"float": True}]), "WIR521", "$.types[0].sizes[0]"),
    (lambda d: d["types"][0].update(sizes=[None]), "WIR521", "$.types[0].sizes[0]"),
    (lambda d: d["functions"][1].update(captures=["s9"]), "WIR551", "$.functions[1].captures[0]"),
    (_op("launch", _set("op", "lunch")), "WIR522", "$.functions[0].body[24].op"),
    (_op("launch", _set("prov", 99)), "WIR507", "$.functions[0].body[24].prov"),
    (_op("launch", _set("grid", 3)), "WIR521", "$.functions[0].body[24].grid"),
    (_op("launch", _set("extra", 3)), "WIR521", "$.functions[0].body[24]"),
    (_op("launch", _set("args", [{"value": "y"}])), "WIR552", "$.functions[0].body[24].args[0].value"),
    (_op("launch", _set("args", [{"value": "x", "str": ""}])), "WIR521", "$.functions[0].body[24].args[0]"),
    (_op("launch", _set("args", [{"tensor": "x"}])), "WIR522", "$.functions[0].body[24].args[0]"),
    (_op("launch", _set("args", [{"dtype": "f31"}])), "WIR522", "$.functions[0].body[24].args[0].dtype"),
    (_op("launch", lambda op: op.pop("kernel")), "WIR521", "$.functions[0].body[24]"),
    (_op("view", _set("source", "nothing")), "WIR552", "$.functions[0].body[8].source"),
    (_op("view", _set("source", "a")), "WIR552", "$.functions[0].body[8].source"),
    (_op("view", _set("source", "n")), "WIR013", "$.functions[0].body[8].source"),
    (_op("unpack", _set("source", "x")), "WIR013", "$.functions[0].body[30].source"),
    (_op("view", _set("result", {"name": "new", "type": 6})), "WIR014", "$.functions[0].body[8].result"),
    (_op("wait", _set("result", {"name": "new", "type": 6})), "WIR014", "$.functions[0].body[55].result"),
    (_op("define", _set("symbol", "s9")), "WIR551", "$.functions[0].body[0].symbol"),
    (_op("unpack", _set("path", [1.5])), "WIR521", "$.functions[0].body[30].path[0]"),
]


_CONTEXT = {"WIR013", "WIR014", "WIR506", "WIR507", "WIR551", "WIR552"}
"""Faults that depend on the rest of the document, which a JSON Schema cannot express."""
_VALUES = ("lower", "hint", "schema", "sizes[0]")
"""Fields where a schema accepts what the decoder does not: 1.0 for 1, NaN, 10**400, an operator without
parentheses."""


@pytest.mark.slow
@pytest.mark.parametrize(("change", "code", "place"), REFUSED)
def test_the_schema_refuses_the_same_places(change: Callable[[Json], None], code: str, place: str) -> None:
    places = [error.json_path for error in PROGRAMS.iter_errors(json.loads(_changed(change)))]
    if not places:
        assert code in _CONTEXT or place.endswith(_VALUES)
    else:
        assert any(f"{place}.".startswith((f"{p}.", f"{p}[")) or p.startswith(place) for p in places)


@pytest.mark.parametrize(("change", "code", "place"), REFUSED)
def test_refused_documents(change: Callable[[Json], None], code: str, place: str) -> None:
    with pytest.raises(ParseError) as caught:
        from_json(_changed(change))
    assert caught.value.code == code
    assert caught.value.message.startswith(f"at {place}: "), caught.value.message


@pytest.mark.parametrize(
    ("text", "code"),
    [
        ("", "WIR520"),
        ("nul", "WIR520"),
        ("[]", "WIR521"),
        ("{}", "WIR521"),
        ('{"a": 1, "a": 1}', "WIR520"),
        ('{"a": NaN}', "WIR520"),
        ('{"a": ' + "9" * 5000 + "}", "WIR520"),
        ('{"a":' * 100_000, "WIR553"),
        ("[" * 100_000, "WIR553"),
    ],
)
def test_refused_texts(text: str, code: str) -> None:
    for read in (from_json, signature_from_json):
        with pytest.raises(ParseError) as caught:
            read(text)
        assert caught.value.code == code


@pytest.mark.parametrize("count", [190, 250])
def test_deep_expressions(count: int) -> None:
    deep: Json = 1
    for _ in range(count):
        deep = ["add", 1, deep]
    text = _changed(lambda d: d["types"][0].update(sizes=[deep]))
    if count < 200:
        assert from_json(to_json(from_json(text))) == from_json(text)
        return
    with pytest.raises(ParseError, match="WIR553"):
        from_json(text)


LEAF = ir.TreeSpec(kind=ir.TreeKind.LEAF)
NESTED: ir.Arg = (Int(1), Float(float("nan")), (None, "x", ir.DType.F32, ir.CPU))
WRAPPER = ir.SubclassSpec(
    type_name="module:Class",
    attributes=("a", "größe"),
    context='{"tuple": [1]}',
    sizes=(4, None),
    strides=(None, 1),
)
SIGNATURE = ir.Signature(
    inputs=ir.TreeSpec(
        kind=ir.TreeKind.TUPLE,
        children=(
            ir.TreeSpec(kind=ir.TreeKind.LIST, children=(LEAF, LEAF)),
            ir.TreeSpec(kind=ir.TreeKind.DICT, children=(LEAF,), keys=('"größe"',)),
            ir.TreeSpec(kind=ir.TreeKind.NONE),
        ),
    ),
    params=(1, 0),
    outputs=ir.TreeSpec(
        kind=ir.TreeKind.CUSTOM, children=(LEAF, LEAF, LEAF), type_name="module:Class", context='{"a": 1}'
    ),
    bindings=(
        ir.ResultOutput(index=1),
        ir.InputOutput(leaf=0),
        ir.ConstantOutput(value=NESTED),
        ir.InputView(index=2, leaf=1),
        ir.ResultView(index=3, base=1),
        ir.WrappedOutput(subclass=WRAPPER, parts=(ir.ResultOutput(index=0), ir.ConstantOutput(value=Int(4)))),
    ),
    names=("x", "y"),
    parameters=(
        ir.Parameter(name="x", kind=ir.ParameterKind.POSITIONAL),
        ir.Parameter(name="größe", required=False, default=Int(2)),
    ),
    statics=(ir.StaticInput(leaf=2, value="mode"),),
    unwraps=(ir.Unwrap(leaf=1, subclass=WRAPPER),),
    same=(ir.SameTensor(leaves=(0, 1)),),
    shared=(
        ir.SharedStorage(param=0, places=(ir.SharedLeaf(leaf=0, sizes=(2, 3), strides=(3, 1), offset=4),)),
    ),
    written=(0, 1),
    write_backs=(
        ir.WriteBack(result=0, leaf=1),
        ir.WriteBack(result=0, leaf=0, kind=ir.WriteBackKind.METADATA),
    ),
    random=(
        ir.RandomState(device=ir.CPU),
        ir.RandomState(device=ir.Device("cuda", 0), source=ir.RandomSource.PHILOX),
    ),
)


def test_signatures_survive() -> None:
    text = signature_to_json(SIGNATURE)
    assert signature_from_json(text) == SIGNATURE
    assert signature_to_json(signature_from_json(text)) == text
    SIGNATURES.validate(json.loads(text))


def test_signatures_of_random_artifacts_survive() -> None:
    for seed in range(20):
        signature = random_artifact(random.Random(seed), 3).signature
        assert signature_from_json(signature_to_json(signature)) == signature


@pytest.mark.parametrize(
    ("change", "place"),
    [
        (_set("format", "zip"), "$"),
        (_set("extra", 1), "$"),
        (_set("params", [1.5]), "$.params[0]"),
        (_set("bindings", [{"class": "result_output", "leaf": 2}]), "$.bindings[0]"),
        (_set("bindings", [{"class": "result", "index": 2}]), "$.bindings[0].class"),
        (_set("bindings", [{"index": 2}]), "$.bindings[0]"),
        (_set("bindings", [2]), "$.bindings[0]"),
        (_set("names", "xy"), "$.names"),
        (_set("version", "0.1"), "$"),
        (_set("statics", [{"leaf": 0, "value": {"value": "x"}}]), "$.statics[0].value.value"),
        (lambda d: d["inputs"].update(kind="set"), "$.inputs.kind"),
        (lambda d: d["inputs"]["children"][0].pop("kind"), "$.inputs.children[0]"),
        (lambda d: d["bindings"][3].pop("leaf"), "$.bindings[3]"),
        (
            lambda d: d["bindings"][5]["parts"].append({"class": "result_output", "index": "x"}),
            "$.bindings[5].parts[2].index",
        ),
        (lambda d: d["parameters"][0].update(kind="odd"), "$.parameters[0].kind"),
        (lambda d: d["parameters"][0].update(required=1), "$.parameters[0].required"),
        (lambda d: d["unwraps"][0]["subclass"].update(sizes=["x"]), "$.unwraps[0].subclass.sizes[0]"),
        (lambda d: d["same"].append({"leaves": [True]}), "$.same[1].leaves[0]"),
        (lambda d: d["shared"][0]["places"][0].pop("offset"), "$.shared[0].places[0]"),
        (_set("written", [None]), "$.written[0]"),
        (lambda d: d["write_backs"][0].update(kind="move"), "$.write_backs[0].kind"),
        (lambda d: d["random"][0].update(source="dice"), "$.random[0].source"),
    ],
)
def test_refused_signatures(change: Callable[[Json], None], place: str) -> None:
    document = json.loads(signature_to_json(SIGNATURE))
    change(document)
    with pytest.raises(ParseError) as caught:
        signature_from_json(json.dumps(document))
    assert caught.value.message.startswith(f"at {place}: "), caught.value.message


def test_bindings_of_a_class_include_parts() -> None:
    assert [b.index for b in SIGNATURE.bindings_of(ir.ResultOutput)] == [1, 0]
    assert [b.value for b in SIGNATURE.bindings_of(ir.ConstantOutput)] == [NESTED, Int(4)]
    assert [b.index for b in SIGNATURE.bindings_of(ir.InputView, ir.ResultView)] == [2, 3]
