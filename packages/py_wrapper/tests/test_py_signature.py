"""The model's own arguments and results, in emitted Python and in the interpreter."""

from __future__ import annotations

import json
from collections import OrderedDict
from collections.abc import Callable
from typing import Any, NamedTuple

import pytest
import torch
from torch.testing._internal.two_tensor import TwoTensor
from torch.utils import _pytree as pytree

import py_wrapper
from py_wrapper import TORCH_MACHINE
from py_wrapper.errors import EmitError
from wrapper_ir import ir, parse_program, verify
from wrapper_ir.artifact import Artifact
from wrapper_ir.errors import ExecutionError, NotSupportedError, WirError
from wrapper_ir.expr import Bool, Float, Int
from wrapper_ir_runtime.interp import Interpreter

LEAF = ir.TreeSpec(kind=ir.TreeKind.LEAF)
PROGRAM = parse_program("""wir 0.5
target cpu
extern "aten::relu(Tensor self) -> Tensor"
extern "aten::neg(Tensor self) -> Tensor"
func @main(%x: f32[2], %y: f32[2]) {
  %a = call aten::relu(%x) : f32[2]
  %b = call aten::neg(%y) : f32[2]
  return %a, %b
}
""")


class Pair(NamedTuple):
    left: Any
    right: Any


class Box:
    """A class that is a container only by its registration."""

    def __init__(self, items: list[Any], label: str) -> None:
        self.items, self.label = items, label


pytree.register_pytree_node(
    Box,
    lambda b: (b.items, b.label),
    lambda items, label: Box(list(items), label),
    serialized_type_name="tests.Box",
)


def tree(
    kind: ir.TreeKind, *children: ir.TreeSpec, keys: tuple[object, ...] = (), **more: Any
) -> ir.TreeSpec:
    return ir.TreeSpec(kind=kind, children=children, keys=tuple(json.dumps(k) for k in keys), **more)


def inputs(*args: ir.TreeSpec, **kwargs: ir.TreeSpec) -> ir.TreeSpec:
    return tree(
        ir.TreeKind.TUPLE,
        tree(ir.TreeKind.TUPLE, *args),
        tree(ir.TreeKind.DICT, *kwargs.values(), keys=tuple(kwargs)),
    )


BOTH = tree(ir.TreeKind.TUPLE, LEAF, LEAF)
RESULTS = (ir.ResultOutput(index=0), ir.ResultOutput(index=1))
BOX = f"{Box.__module__}:Box"
X, Y = torch.tensor([-1.0, 2.0]), torch.tensor([3.0, -4.0])
A, B = torch.relu(X), -Y


def engines(signature: ir.Signature) -> list[Callable[..., Any]]:
    artifact = Artifact(program=PROGRAM, signature=signature)
    return [py_wrapper.compile(artifact), Interpreter(artifact, TORCH_MACHINE)]


def make(ins: ir.TreeSpec, outs: ir.TreeSpec = BOTH, **more: Any) -> ir.Signature:
    return ir.Signature(inputs=ins, outputs=outs, **({"bindings": RESULTS, "params": (0, 1)} | more))


def assert_both(signature: ir.Signature, check: Callable[[Callable[..., Any]], None]) -> None:
    for engine in engines(signature):
        check(engine)


def same(got: Any, want: Any) -> None:
    torch.testing.assert_close(got, want)
    assert type(got) is type(want)


def test_positional() -> None:
    assert_both(make(inputs(LEAF, LEAF), names=("x", "y")), lambda f: same(f(X, Y), (A, B)))


def test_keywords_in_any_order() -> None:
    assert_both(make(inputs(x=LEAF, y=LEAF)), lambda f: same(f(y=Y, x=X), (A, B)))


@pytest.mark.parametrize(
    ("spec", "value"),
    [
        (tree(ir.TreeKind.LIST, LEAF, LEAF), [X, Y]),
        (tree(ir.TreeKind.TUPLE, LEAF, tree(ir.TreeKind.TUPLE, LEAF)), (X, (Y,))),
        (tree(ir.TreeKind.DICT, LEAF, LEAF, keys=("a", 2)), {2: Y, "a": X}),
        (
            ir.TreeSpec(
                kind=ir.TreeKind.NAMEDTUPLE,
                children=(LEAF, LEAF),
                keys=("left", "right"),
                type_name=f"{Pair.__module__}:Pair",
            ),
            Pair(X, Y),
        ),
        (tree(ir.TreeKind.CUSTOM, LEAF, LEAF, type_name=BOX, context='"lid"'), Box([X, Y], "lid")),
    ],
    ids=["list", "tuple", "dict", "namedtuple", "custom"],
)
def test_nested_inputs(spec: ir.TreeSpec, value: Any) -> None:
    assert_both(make(inputs(spec)), lambda f: same(f(value), (A, B)))


@pytest.mark.parametrize(
    ("spec", "want"),
    [
        (tree(ir.TreeKind.LIST, LEAF, LEAF), [A, B]),
        (tree(ir.TreeKind.DICT, LEAF, LEAF, keys=("a", "b")), {"a": A, "b": B}),
        (
            ir.TreeSpec(
                kind=ir.TreeKind.NAMEDTUPLE,
                children=(LEAF, LEAF),
                keys=("left", "right"),
                type_name=f"{Pair.__module__}:Pair",
            ),
            Pair(A, B),
        ),
        (
            tree(
                ir.TreeKind.CUSTOM,
                LEAF,
                LEAF,
                keys=("p", "q"),
                type_name="collections:OrderedDict",
                context='["p", "q"]',
            ),
            OrderedDict(p=A, q=B),
        ),
    ],
    ids=["list", "dict", "namedtuple", "ordered"],
)
def test_nested_outputs(spec: ir.TreeSpec, want: Any) -> None:
    assert_both(make(inputs(LEAF, LEAF), spec), lambda f: same(f(X, Y), want))


def test_custom_output() -> None:
    def check(f: Callable[..., Any]) -> None:
        got = f(X, Y)
        assert type(got) is Box
        assert got.label == "lid"
        same(got.items, [A, B])

    assert_both(
        make(inputs(LEAF, LEAF), tree(ir.TreeKind.CUSTOM, LEAF, LEAF, type_name=BOX, context='"lid"')), check
    )


def test_outputs_that_are_inputs_or_literals() -> None:
    values = (None, Int(3), Bool(True), Float(float("inf")), "text", (Int(1), Int(2)))
    outs = tree(ir.TreeKind.TUPLE, LEAF, *(LEAF for _ in values))
    bindings = (ir.InputOutput(leaf=1), *(ir.ConstantOutput(value=v) for v in values))

    def check(f: Callable[..., Any]) -> None:
        got = f(X, Y)
        assert got[0] is Y
        assert got[1:] == (None, 3, True, float("inf"), "text", [1, 2])

    assert_both(make(inputs(LEAF, LEAF), outs, bindings=bindings), check)


def test_write_back() -> None:
    signature = make(
        inputs(LEAF, LEAF), LEAF, bindings=RESULTS[1:], write_backs=(ir.WriteBack(result=0, leaf=0),)
    )

    def check(f: Callable[..., Any]) -> None:
        x = X.clone()
        same(f(x, Y), B)
        same(x, A)

    assert_both(signature, check)


def test_static_inputs() -> None:
    """A static input has its captured value as the default in Python, and refuses any other."""
    signature = make(
        inputs(LEAF, LEAF, flag=LEAF, mask=LEAF, scale=LEAF),
        names=("x", "y", "flag", "mask", "scale"),
        statics=(
            ir.StaticInput(leaf=2, value=Bool(True)),
            ir.StaticInput(leaf=3, value=None),
            ir.StaticInput(leaf=4, value=Int(2)),
        ),
    )

    def check(f: Callable[..., Any]) -> None:
        same(f(X, Y, flag=True, mask=None, scale=2), (A, B))
        for wrong in ({"flag": False}, {"mask": X}, {"scale": 2.0}):
            with pytest.raises(ExecutionError, match="WIR926"):
                f(X, Y, **({"flag": True, "mask": None, "scale": 2} | wrong))

    assert_both(signature, check)
    same(engines(signature)[0](X, Y), (A, B))


@pytest.mark.parametrize(
    ("args", "kwargs"),
    [
        ((X,), {}),
        ((X, Y, Y), {}),
        ((X, {"a": Y}), {}),
        ((X, {"a": Y, "b": Y}), {}),
        ((X, {"a": Y}), {"z": Y}),
    ],
)
def test_wrong_structure_is_refused(args: tuple[Any, ...], kwargs: dict[str, Any]) -> None:
    spec = inputs(LEAF, tree(ir.TreeKind.DICT, LEAF, keys=("a",)))
    for engine in engines(make(spec)):
        if (len(args), len(kwargs)) == (2, 0) and set(args[1]) == {"a"}:
            same(engine(*args), (A, B))
        else:
            with pytest.raises((WirError, TypeError)):
                engine(*args, **kwargs)


def test_a_keyword_that_python_cannot_spell_is_refused() -> None:
    with pytest.raises(EmitError, match="PY102"):
        py_wrapper.emit(Artifact(program=PROGRAM, signature=make(inputs(**{"not a name": LEAF, "y": LEAF}))))


def test_grad_and_autocast_do_not_apply() -> None:
    f = engines(make(inputs(LEAF, LEAF)))[0]
    with torch.autocast("cpu", dtype=torch.bfloat16):
        out = f(X, Y)
        (boxed, _) = f.boxed([X.clone().requires_grad_(), Y])  # type: ignore[attr-defined]  # the Emitter contract
    assert out[0].dtype is torch.float32
    assert not boxed.requires_grad
    assert torch.is_grad_enabled()


def test_gradients_are_never_lost_in_silence() -> None:
    """An input that requires a gradient is refused if gradients are recorded, and accepted otherwise."""
    signature = make(inputs(LEAF, LEAF), names=("left", "right"))

    def check(f: Callable[..., Any]) -> None:
        x = X.clone().requires_grad_()
        with pytest.raises(ExecutionError, match=r"WIR930.*right"):
            f(X, x)
        with torch.no_grad():
            out = f(x, Y)
        same(out, (A, B))
        assert not out[0].requires_grad

    assert_both(signature, check)


def test_the_callable_has_a_boxed_form() -> None:
    for engine in engines(make(inputs(LEAF, LEAF))):
        args = [X, Y]
        same(engine.boxed(args), (A, B))  # type: ignore[attr-defined]  # the Emitter contract
        assert args == []


def test_parameters_keep_their_names() -> None:
    """Also names that Python or the module uses otherwise."""
    names = ("input", "kernels", "torch", "caller", "list", "parts")
    leaves = (LEAF,) * len(names)
    signature = make(
        inputs(*leaves),
        bindings=(ir.InputView(index=0, leaf=0), ir.ResultOutput(index=1)),
        params=(0, 1),
        parameters=tuple(ir.Parameter(name=n) for n in names),
    )
    text = parse_program(VIEWS)

    def check(f: Callable[..., Any]) -> None:
        x = X.clone()
        got = f(x, Y, None, caller=None, list=None, parts=None)
        assert got[0].data_ptr() == x.data_ptr()
        same(got[1], B)
        if isinstance(f, Interpreter):  # emitted code needs the name `torch` itself: it is given by position
            same(f(input=x, kernels=Y, torch=None, caller=None, list=None, parts=None)[1], B)

    artifact = Artifact(program=text, signature=signature)
    for engine in (py_wrapper.compile(artifact), Interpreter(artifact, TORCH_MACHINE)):
        check(engine)


VIEWS = """wir 0.5
target cpu
extern "aten::neg(Tensor self) -> Tensor"
func @main(%x: f32[2], %y: f32[2]) {
  %a = view %x : f32[1]
  drop %x
  %b = call aten::neg(%y) : f32[2]
  drop %y
  return %a, %b
}
"""
WRAPPER = ir.SubclassSpec(
    type_name="torch.testing._internal.two_tensor:TwoTensor",
    attributes=("a", "b"),
    sizes=(None,),
    strides=(1,),
)


def test_wrappers_whose_size_each_call_has_anew() -> None:
    program = parse_program("""wir 0.5
target cpu
symbol s0 : int backed
extern "aten::neg(Tensor self) -> Tensor"
func @main(%a: f32[s0], %b: f32[s0], %n: int) {
  define s0 = size(%a, 0)
  %na = call aten::neg(%a) : f32[s0]
  drop %a
  %nb = call aten::neg(%b) : f32[s0]
  drop %b
  return %na, %nb, s0
}
""")
    signature = ir.Signature(
        inputs=inputs(LEAF),
        params=(1, 2, 3),
        outputs=LEAF,
        bindings=(
            ir.WrappedOutput(subclass=WRAPPER, parts=tuple(ir.ResultOutput(index=i) for i in range(3))),
        ),
        unwraps=(ir.Unwrap(leaf=0, subclass=WRAPPER),),
    )
    artifact = Artifact(program=program, signature=signature)
    verify(artifact)
    for engine in (py_wrapper.compile(artifact), Interpreter(artifact, TORCH_MACHINE)):
        for count in (2, 5):
            given = TwoTensor(torch.ones(count), torch.zeros(count))  # type: ignore[no-untyped-call]  # torch's
            got = engine(given)
            assert type(got) is TwoTensor
            assert got.size() == (count,)
            same(got.a, -torch.ones(count))
        with pytest.raises(ExecutionError, match=r"WIR926.*Tensor"):
            engine(X)


RANDOM = """wir 0.5
target cpu
extern "aten::bernoulli_.float(Tensor(a!) self, float p=0.5, *, Generator? generator=None) -> Tensor(a!)" tags(random)
func @main(%x: owned f32[2], %y: f32[2]STATE) {
  call aten::bernoulli_.float(%x)
  return %x, %yMORE
}
"""


def test_random_numbers_are_mentioned_and_foreign_states_refused() -> None:
    signature = make(inputs(LEAF, LEAF), random=(ir.RandomState(device=ir.CPU),))
    program = parse_program(RANDOM.replace("STATE", "").replace("MORE", ""))
    text = py_wrapper.emit(Artifact(program=program, signature=signature)).source
    assert "Draws random numbers from torch's default generator (cpu)." in text
    philox = make(inputs(LEAF, LEAF), random=(ir.RandomState(device=ir.CPU, source=ir.RandomSource.PHILOX),))
    program = parse_program(
        RANDOM.replace("STATE", ", %seed: int, %offset: int").replace("MORE", ", %offset")
    )
    artifact = Artifact(program=program, signature=philox)
    with pytest.raises(NotSupportedError, match="WIR916"):
        py_wrapper.emit(artifact)
    with pytest.raises(NotSupportedError, match="WIR916"):
        Interpreter(artifact, TORCH_MACHINE)(X, Y)
