"""Ops as data, and structural access to them; only the samples are specific to ops."""

from __future__ import annotations

import dataclasses
import pkgutil
import typing
from collections.abc import Iterator
from importlib import import_module
from typing import TypeVar

import pytest
from hypothesis import given
from hypothesis import strategies as st
from packages.wrapper_ir.tests.core.op_samples import PROV, SAMPLES, W, X, Y, Z, tensor

import wrapper_ir.ir.ops
import wrapper_ir.ir.ops.base
from wrapper_ir import ir, parse_program
from wrapper_ir.expr import Expr, Int, Sym, mul

T = TypeVar("T")
FAMILIES = [m.name for m in pkgutil.iter_modules(wrapper_ir.ir.ops.__path__) if m.name != "base"]


def ids(op: ir.Op) -> str:
    return type(op).__name__


# --- the closed world --------------------------------------------------------------------------------------------


def test_the_union_holds_every_op_class() -> None:
    for family in FAMILIES:
        import_module(f"wrapper_ir.ir.ops.{family}")
    # by name: a class with slots is made anew by @dataclass, and its first version lives on
    # without the classes of tests
    ours = {c for c in ir.OpBase.__subclasses__() if c.__module__.startswith("wrapper_ir.")}
    assert {c.__qualname__ for c in ir.OPS} == {c.__qualname__ for c in ours}
    assert len(ir.OPS) == len(set(ir.OPS))


def test_every_op_is_exported() -> None:
    assert {cls.__name__ for cls in ir.OPS} <= set(ir.__all__)


def test_there_is_one_sample_of_every_op() -> None:
    assert [type(op) for op in SAMPLES] == list(ir.OPS)


@pytest.mark.parametrize("op", SAMPLES, ids=ids)
def test_samples_leave_no_field_at_its_default(op: ir.Op) -> None:
    for field in dataclasses.fields(op):
        assert getattr(op, field.name) != field.default, field.name
    assert op.prov == PROV
    assert op.prov != ir.UNKNOWN


@pytest.mark.parametrize("op", SAMPLES, ids=ids)
def test_ops_are_plain_data(op: ir.Op) -> None:
    """Checks that ops are frozen, slotted, hashable, equal by content, and define no method except
    `effects`."""
    assert not hasattr(op, "__dict__")
    for field in dataclasses.fields(op):
        with pytest.raises(dataclasses.FrozenInstanceError):
            setattr(op, field.name, getattr(op, field.name))
    assert dataclasses.replace(op) == op
    assert hash(dataclasses.replace(op)) == hash(op)
    assert dataclasses.replace(op, prov=ir.UNKNOWN) != op
    own = {n for n, x in vars(type(op)).items() if callable(x) or isinstance(x, property)}
    assert {n for n in own if not n.startswith("__")} <= {"effects"}


@pytest.mark.parametrize("cls", ir.OPS, ids=lambda c: c.__name__)
def test_docstrings_show_the_text_form(cls: type[ir.OpBase]) -> None:
    doc = cls.__doc__ or ""
    assert "Text: `" in doc
    assert doc.count("`") % 2 == 0


# --- roles -------------------------------------------------------------------------------------------------------


def expected_role(hint: object) -> ir.Role:
    """Returns the role of a field: the `Role` in its annotation, otherwise EXPR if it can contain an Expr."""
    for extra in getattr(hint, "__metadata__", ()):
        if isinstance(extra, ir.Role):
            return extra
    mentioned = set(leaf_types(hint))
    assert ir.Value not in mentioned, f"{hint} holds values but has no role"
    return ir.Role.EXPR if Expr in mentioned else ir.Role.DATA


def leaf_types(hint: object) -> Iterator[object]:
    inner = typing.get_args(hint)
    if inner:
        for part in inner:
            yield from leaf_types(part)
    else:
        yield hint


@pytest.mark.parametrize("cls", ir.OPS, ids=lambda c: c.__name__)
def test_every_annotation_has_the_role_it_says(cls: type[ir.OpBase]) -> None:
    hints = typing.get_type_hints(cls, include_extras=True)
    names = [f.name for f in dataclasses.fields(cls) if f.name != "prov"]
    assert [(f.name, f.role) for f in ir.op_spec(cls).fields] == [(n, expected_role(hints[n])) for n in names]


# --- results, operands, expressions ------------------------------------------------------------------------------


def found_in(x: object, cls: type[T]) -> list[T]:
    """Returns all instances of `cls` in a field, including the values of atoms."""
    if isinstance(x, cls):
        return [x]
    if isinstance(x, tuple):
        return [hit for item in x for hit in found_in(item, cls)]
    if isinstance(x, Expr):
        return [v for v in sorted(ir.free_values(x), key=lambda v: v.name) if isinstance(v, cls)]
    return []


@pytest.mark.parametrize("op", SAMPLES, ids=ids)
def test_every_value_is_a_result_or_an_operand(op: ir.Op) -> None:
    """Compares the values by roles with a walk over all fields."""
    everywhere = [v for f in dataclasses.fields(op) for v in found_in(getattr(op, f.name), ir.Value)]
    assert sorted([*ir.results(op), *ir.operands(op)], key=repr) == sorted(everywhere, key=repr)


@pytest.mark.parametrize("op", SAMPLES, ids=ids)
def test_every_expression_is_found(op: ir.Op) -> None:
    everywhere = [e for f in dataclasses.fields(op) for e in found_in(getattr(op, f.name), Expr)]
    assert sorted(map(str, ir.exprs(op))) == sorted(map(str, everywhere))


def test_operands_keep_order_and_repetitions() -> None:
    op = ir.CallExtern(target="t::f", args=(X, (Y, X), None, "x"), kwargs=(("out", Z), ("k", Int(1))))
    assert ir.operands(op) == (X, Y, X, Z)
    assert ir.results(op) == ()
    assert ir.exprs(op) == (Int(1),)


def test_types_are_not_operands() -> None:
    """Sizes in a result's type are not evaluated by the op."""
    result = tensor("v", Sym("s0"))
    op = ir.View(source=X, result=result, offset=mul(Sym("s0"), 4))
    assert ir.exprs(op) == (mul(Sym("s0"), 4),)


# --- rebuilding --------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("op", SAMPLES, ids=ids)
def test_mapping_to_itself_changes_nothing(op: ir.Op) -> None:
    assert ir.map_values(op, lambda v: v) == op
    assert ir.map_values(op, lambda v: v, lambda v: v) == op


@pytest.mark.parametrize("op", SAMPLES, ids=ids)
def test_renaming_reaches_every_value_and_nothing_else(op: ir.Op) -> None:
    def use(v: ir.Value) -> ir.Value:
        return ir.Value(v.name + "_used", v.type)

    def define(v: ir.Value) -> ir.Value:
        return ir.Value(v.name + "_made", v.type)

    def back(v: ir.Value) -> ir.Value:
        return ir.Value(v.name.removesuffix("_used").removesuffix("_made"), v.type)

    renamed = ir.map_values(op, use, define)
    assert ir.operands(renamed) == tuple(map(use, ir.operands(op)))
    assert ir.results(renamed) == tuple(map(define, ir.results(op)))
    spec = ir.op_spec(type(op))
    for field in spec.fields:
        if field not in (*spec.operands, *spec.nested, *spec.results):
            assert field.get(renamed) == field.get(op)
    assert renamed.prov == op.prov
    assert ir.map_values(renamed, back, back) == op
    assert ir.results(ir.map_values(op, use)) == ir.results(op)


def arguments() -> st.SearchStrategy[ir.Arg]:
    """Returns nested call arguments."""
    leaves: st.SearchStrategy[ir.Arg] = st.one_of(
        st.sampled_from((X, Y, W)),
        st.integers(-3, 3).map(Int),
        st.sampled_from((ir.SizeOf(X, 0), mul(Sym("s0"), 4))),
        st.text(max_size=3),
        st.sampled_from((ir.DType.F32, ir.CPU, ir.MemoryFormat.PRESERVE, ir.Layout.STRIDED)),
        st.none(),
    )
    return st.recursive(leaves, lambda inner: st.lists(inner, max_size=3).map(tuple), max_leaves=8)


@given(st.lists(arguments(), max_size=4), st.lists(arguments(), max_size=2))
def test_nested_arguments_survive_renaming(args: list[ir.Arg], values: list[ir.Arg]) -> None:
    op = ir.CallExtern(
        target="t::f", args=tuple(args), kwargs=tuple((f"k{i}", v) for i, v in enumerate(values))
    )
    swap: dict[ir.Value, ir.Value] = {X: Y, Y: W, W: X}
    back = {b: a for a, b in swap.items()}
    mapped = ir.map_values(op, swap.__getitem__)
    assert ir.operands(mapped) == tuple(swap[v] for v in ir.operands(op))
    assert ir.map_values(mapped, back.__getitem__) == op


# --- ops by class ---------------------------------------------------------------------------------------------------


def test_ops_are_selected_by_class_and_union() -> None:
    function = ir.Function(name="main", params=(), body=tuple(SAMPLES))
    assert function.has(ir.EndOp)
    assert function.has(ir.Launch, ir.Barrier)
    rest = function.without(ir.EndOp, ir.Launch)
    assert not rest.has(ir.EndOp, ir.Launch)
    removed = (*function.ops_of(ir.Drop, ir.Free, ir.Launch),)
    assert len(rest.body) + len(removed) == len(function.body)
    assert rest.without(ir.EndOp) is rest


@pytest.mark.parametrize("op", SAMPLES, ids=ids)
def test_only_calls_of_outside_code_have_its_name(op: ir.Op) -> None:
    assert bool(ir.callee_name(op)) is isinstance(op, ir.OutsideCall)


def test_the_name_of_outside_code_is_that_of_its_kernel_or_operator() -> None:
    assert ir.callee_name(ir.Launch(kernel="k", args=())) == "k"
    assert ir.callee_name(ir.CallExtern(target="aten::relu", args=())) == "aten::relu"


def test_the_last_return_of_a_body() -> None:
    function = parse_program("wir 0.5\ntarget cpu\nfunc @main() {\n  return\n}\n").main
    assert function.last_return is function.returns is function.body[-1]
    assert function.with_body(()).last_return is None
