"""Signatures that do not fit their program: every rule refuses one, by its own code."""

from __future__ import annotations

import dataclasses
import random
from typing import Any

import pytest

from wrapper_ir import check, ir, parse_program, verify
from wrapper_ir.artifact import Artifact, bare_artifact
from wrapper_ir.errors import VerificationError
from wrapper_ir.expr import Int, Sym
from wrapper_ir.verifier import SIGNATURE_RULES
from wrapper_ir_tools.testing import random_artifact

PROGRAM = parse_program("""wir 0.5
target cpu
extern "aten::bernoulli_.float(Tensor(a!) self, float p=0.5, *, Generator? generator=None) -> Tensor(a!)" tags(random)
extern "aten::relu(Tensor self) -> Tensor"
func @main(%x: f32[4], %y: f32[4], %memory: f32[6]) {
  call aten::bernoulli_.float(%x)
  call aten::bernoulli_.float(%memory)
  %half = view %x : f32[2]
  drop %x
  %own = call aten::relu(%y) : f32[4]
  drop %y
  %part = view %own : f32[2]
  drop %memory
  return %half, %own, %part, 3
}
""")
LEAF = ir.TreeSpec(kind=ir.TreeKind.LEAF)
WRAPPER = ir.SubclassSpec(type_name="module:Wrapper", attributes=("a", "b"), sizes=(4, None), strides=(1, 1))
# The arguments are x, y, two that overlap, a wrapper of two, and a fixed value.
ARGS = ir.TreeSpec(kind=ir.TreeKind.TUPLE, children=(LEAF,) * 6)
VALID = ir.Signature(
    inputs=ir.TreeSpec(kind=ir.TreeKind.TUPLE, children=(ARGS, ir.TreeSpec(kind=ir.TreeKind.DICT))),
    params=(0, 1, 2),
    outputs=ir.TreeSpec(kind=ir.TreeKind.LIST, children=(LEAF,) * 5),
    bindings=(
        ir.InputView(index=0, leaf=0),
        ir.ResultOutput(index=1),
        ir.ResultView(index=2, base=1),
        ir.WrappedOutput(
            subclass=WRAPPER,
            parts=(ir.InputOutput(leaf=6), ir.ConstantOutput(value=None), ir.ResultOutput(index=3)),
        ),
        ir.ConstantOutput(value="text"),
    ),
    names=("x", "y", "low", "high", "w", "mode", "w.a", "w.b", "w.size"),
    parameters=(
        ir.Parameter(name="x", kind=ir.ParameterKind.POSITIONAL),
        *(ir.Parameter(name=name) for name in ("y", "low", "high", "w", "mode")),
        ir.Parameter(name="flag", kind=ir.ParameterKind.KEYWORD, required=False, default=Int(1)),
    ),
    statics=(ir.StaticInput(leaf=5, value="sum"),),
    unwraps=(ir.Unwrap(leaf=4, subclass=WRAPPER),),
    shared=(
        ir.SharedStorage(
            param=2,
            places=(
                ir.SharedLeaf(leaf=2, sizes=(4,), strides=(1,), offset=0),
                ir.SharedLeaf(leaf=3, sizes=(2, 2), strides=(2, 1), offset=2),
            ),
        ),
    ),
    written=(0, 2, 3),
    write_backs=(
        ir.WriteBack(result=0, leaf=0, kind=ir.WriteBackKind.METADATA),
        ir.WriteBack(result=1, leaf=1),
    ),
    random=(ir.RandomState(device=ir.CPU),),
)


def changed(**fields: Any) -> Artifact:  # Any: whatever a field takes
    return Artifact(program=PROGRAM, signature=dataclasses.replace(VALID, **fields))


def tree(kind: ir.TreeKind, **fields: Any) -> ir.TreeSpec:  # Any: as above
    return ir.TreeSpec(
        kind=ir.TreeKind.LIST, children=(ir.TreeSpec(kind=kind, **fields), LEAF, LEAF, LEAF, LEAF)
    )


def wrapper(**fields: Any) -> tuple[ir.Unwrap, ...]:  # Any: as above
    return (ir.Unwrap(leaf=4, subclass=dataclasses.replace(WRAPPER, **fields)),)


def shared(*places: ir.SharedLeaf, param: int = 2) -> tuple[ir.SharedStorage, ...]:
    return (ir.SharedStorage(param=param, places=places),)


LOW, HIGH = VALID.shared[0].places
BINDINGS = VALID.bindings
CASES = [
    ("WIR101", {"inputs": ARGS}),
    ("WIR102", {"params": (0, 1)}),
    ("WIR102", {"random": (ir.RandomState(device=ir.CPU, source=ir.RandomSource.PHILOX),)}),
    ("WIR103", {"params": (0, 1, 9)}),
    ("WIR103", {"bindings": (*BINDINGS[:4], ir.InputOutput(leaf=-1))}),
    ("WIR103", {"written": (0, 2, 3, 40)}),
    ("WIR104", {"params": (0, 0, 2)}),
    ("WIR104", {"statics": (ir.StaticInput(leaf=1, value=None),)}),
    ("WIR105", {"bindings": (*BINDINGS[:4], ir.ResultOutput(index=4))}),
    ("WIR105", {"bindings": (*BINDINGS[:4], ir.ResultView(index=2, base=-1))}),
    ("WIR106", {"bindings": BINDINGS[:4]}),
    ("WIR107", {"outputs": tree(ir.TreeKind.LEAF, keys=("a",))}),
    ("WIR107", {"outputs": tree(ir.TreeKind.DICT, children=(LEAF,), keys=("not json",))}),
    ("WIR107", {"outputs": tree(ir.TreeKind.DICT, children=(LEAF,), keys=("[]",))}),
    ("WIR107", {"outputs": tree(ir.TreeKind.DICT, children=(LEAF, LEAF), keys=("1", "1"))}),
    (
        "WIR107",
        {"outputs": tree(ir.TreeKind.NAMEDTUPLE, children=(LEAF,), keys=("a",), type_name="os.system")},
    ),
    ("WIR107", {"outputs": tree(ir.TreeKind.DATACLASS, children=(LEAF,), keys=("a", "b"), type_name="m:C")}),
    ("WIR107", {"outputs": tree(ir.TreeKind.CUSTOM, type_name="m:C()")}),
    ("WIR108", {"parameters": (ir.Parameter(name="x"), *VALID.parameters)}),
    ("WIR108", {"parameters": (ir.Parameter(name="not one"), *VALID.parameters[1:])}),
    ("WIR108", {"names": ("name",) * 10}),
    ("WIR109", {"parameters": VALID.parameters[::-1]}),
    ("WIR109", {"parameters": (*VALID.parameters[:6], ir.Parameter(name="new"))}),
    ("WIR110", {"bindings": (ir.InputView(index=0, leaf=1), *BINDINGS[1:])}),
    ("WIR110", {"bindings": (ir.InputView(index=1, leaf=0), *BINDINGS[1:])}),
    ("WIR110", {"bindings": (ir.ResultView(index=0, base=1), *BINDINGS[1:])}),
    ("WIR110", {"bindings": (ir.ResultView(index=3, base=1), *BINDINGS[1:])}),
    ("WIR111", {"unwraps": wrapper(type_name="Wrapper")}),
    ("WIR111", {"unwraps": wrapper(attributes=("a", "a"))}),
    ("WIR111", {"unwraps": wrapper(sizes=(-4, None))}),
    ("WIR111", {"unwraps": (*VALID.unwraps, *VALID.unwraps)}),
    ("WIR111", {"unwraps": (ir.Unwrap(leaf=7, subclass=WRAPPER),)}),
    ("WIR111", {"bindings": (*BINDINGS[:4], ir.WrappedOutput(subclass=WRAPPER, parts=()))}),
    ("WIR112", {"shared": shared(LOW)}),
    ("WIR112", {"shared": shared(HIGH, LOW)}),
    ("WIR112", {"shared": shared(LOW, dataclasses.replace(HIGH, offset=3))}),
    ("WIR112", {"shared": shared(LOW, HIGH, param=7)}),
    ("WIR112", {"same": (ir.SameTensor(leaves=(0, 2)),)}),
    ("WIR112", {"same": (ir.SameTensor(leaves=(4,)),)}),
    ("WIR113", {"written": (0, 2)}),
    ("WIR113", {"written": (0, 1, 2, 3)}),
    ("WIR114", {"write_backs": (ir.WriteBack(result=0, leaf=5),)}),
    ("WIR114", {"write_backs": (ir.WriteBack(result=1, leaf=0, kind=ir.WriteBackKind.METADATA),)}),
    ("WIR114", {"write_backs": (ir.WriteBack(result=3, leaf=0),)}),
    ("WIR115", {"random": ()}),
    ("WIR115", {"random": (ir.RandomState(device=ir.CPU), ir.RandomState(device=ir.Device("cuda", 0)))}),
    ("WIR116", {"statics": (ir.StaticInput(leaf=5, value=(Int(1), Sym("s0"))),)}),
    ("WIR117", {"params": None}),
    ("WIR117", {"params": [0, 1, 2]}),
    ("WIR117", {"params": (False, True, 2)}),
    ("WIR117", {"params": (0, 1, 2.0)}),
    ("WIR117", {"written": (0, 2, "3")}),
    ("WIR117", {"written": (False, 2, 3)}),
    ("WIR117", {"statics": (ir.StaticInput(leaf=5.0, value="sum"),)}),  # type: ignore[arg-type]  # the point of it
    ("WIR117", {"unwraps": (ir.Unwrap(leaf=True, subclass=WRAPPER),)}),
    ("WIR117", {"unwraps": wrapper(sizes=(True, None))}),
    ("WIR117", {"unwraps": wrapper(attributes="ab")}),
    ("WIR117", {"same": (ir.SameTensor(leaves=(True, 1)),)}),
    ("WIR117", {"shared": (ir.SharedStorage(param=True, places=VALID.shared[0].places),)}),
    ("WIR117", {"shared": shared(LOW, dataclasses.replace(HIGH, offset=True))}),
    ("WIR117", {"shared": shared(LOW, dataclasses.replace(HIGH, sizes=(2, True)))}),
    ("WIR117", {"bindings": (*BINDINGS[:4], ir.ResultOutput(index=True))}),
    ("WIR117", {"bindings": (*BINDINGS[:4], ir.InputOutput(leaf=False))}),
    ("WIR117", {"bindings": (*BINDINGS[:4], 3)}),
    ("WIR117", {"bindings": (ir.InputView(index=False, leaf=0), *BINDINGS[1:])}),
    ("WIR117", {"bindings": (*BINDINGS[:2], ir.ResultView(index=2, base=True), *BINDINGS[3:])}),
    ("WIR117", {"bindings": (*BINDINGS[:4], ir.WrappedOutput(subclass=WRAPPER, parts=(0, 1, 2)))}),  # type: ignore[arg-type]  # as above
    ("WIR117", {"write_backs": (ir.WriteBack(result=False, leaf=0),)}),
    ("WIR117", {"write_backs": (ir.WriteBack(result=1, leaf=0, kind="copy"),)}),  # type: ignore[arg-type]  # as above
    ("WIR117", {"names": (1, 2)}),
    ("WIR117", {"random": ("cpu",)}),
    ("WIR117", {"parameters": ("x",)}),
    ("WIR117", {"outputs": None}),
    ("WIR118", {"written": (0, 2, 3, 3)}),
    ("WIR118", {"write_backs": (ir.WriteBack(result=1, leaf=1), ir.WriteBack(result=1, leaf=1))}),
    ("WIR118", {"shared": (*VALID.shared, *VALID.shared)}),
    ("WIR112", {"same": (ir.SameTensor(leaves=(0, 5)),)}),
    ("WIR112", {"same": (ir.SameTensor(leaves=(0, 4)),)}),
    ("WIR112", {"same": (ir.SameTensor(leaves=(1, 1)),)}),
    ("WIR103", {"same": (ir.SameTensor(leaves=(0, 99)),)}),
    ("WIR103", {"shared": shared(LOW, dataclasses.replace(HIGH, leaf=-1))}),
    ("WIR103", {"unwraps": (ir.Unwrap(leaf=99, subclass=WRAPPER),)}),
    ("WIR103", {"statics": (ir.StaticInput(leaf=-1, value="sum"),)}),
    ("WIR103", {"write_backs": (ir.WriteBack(result=0, leaf=99),)}),
    ("WIR105", {"write_backs": (ir.WriteBack(result=-1, leaf=0),)}),
    ("WIR105", {"bindings": (ir.InputView(index=9, leaf=0), *BINDINGS[1:])}),
    ("WIR116", {"bindings": (*BINDINGS[:4], ir.ConstantOutput(value=PROGRAM.main.params[0].value))}),
]


def test_the_valid_one_is() -> None:
    assert check(changed()) == ()
    verify(changed())


@pytest.mark.parametrize(("code", "fields"), CASES)
def test_refused_with_its_code(code: str, fields: dict[str, Any]) -> None:
    diagnostics = check(changed(**fields))
    assert [d.code for d in diagnostics][:1] == [code], "\n".join(map(str, diagnostics))
    assert diagnostics[0].check == SIGNATURE_RULES[code].check
    with pytest.raises(VerificationError, match=code):
        verify(changed(**fields))


def test_every_rule_has_a_case() -> None:
    assert {code for code, _ in CASES} == SIGNATURE_RULES.keys()


def test_a_broken_program_is_reported_first() -> None:
    broken = dataclasses.replace(PROGRAM, functions=())
    assert [d.code for d in check(Artifact(program=broken, signature=VALID))] == ["WIR007"]


def test_bare_artifacts_are_valid() -> None:
    assert check(bare_artifact(PROGRAM)) == ()
    assert bare_artifact(PROGRAM).signature.written == (0, 2)
    assert bare_artifact(PROGRAM).signature.random == (ir.RandomState(device=ir.CPU),)


def test_random_artifacts_are_valid() -> None:
    for seed in range(20):
        diagnostics = check(random_artifact(random.Random(seed), 12))
        assert diagnostics == (), "\n".join(map(str, diagnostics))
