"""Operator schemas: every schema that torch registers, against torch's own parser and torchgen's."""

from __future__ import annotations

import re
from functools import cache
from typing import Any

import pytest
import torch
from torchgen.model import FunctionSchema  # type: ignore[import-untyped]  # published without types

from wrapper_ir import ir
from wrapper_ir.errors import SchemaError
from wrapper_ir.expr import Expr
from wrapper_ir_lowering.arguments import default_value

# Any, in this file: torch's FunctionSchema and its parts are pybind classes without type information.


@cache
def registered() -> tuple[Any, ...]:
    """Every operator schema in this process, as torch parsed it."""
    schemas: tuple[Any, ...] = tuple(torch._C._jit_get_all_schemas())
    assert len(schemas) > 3000
    return schemas


@cache
def parsed() -> tuple[tuple[ir.OpSchema, Any], ...]:
    """Returns (our schema, torch's) for every schema that names all of its values."""
    return tuple((ir.parse_schema(str(s)), s) for s in registered() if "..." not in str(s))


def alias_sets(part: Any) -> frozenset[str]:
    """Returns the names of the sets before the call, without torch's prefix `alias::`."""
    info = part.alias_info
    return frozenset() if info is None else frozenset(s.rpartition(":")[2] for s in info.before_set)


def is_written(part: Any) -> bool:
    info = part.alias_info
    return bool(info is not None and info.is_write)


ELEMENT_SET = re.compile(r"Tensor\([^()]*\)\[\]")


def annotates_elements(text: str, part: ir.SchemaArg | ir.SchemaReturn) -> bool:
    """Returns whether this is a list with the alias set at its elements, `Tensor(a)[]`."""
    return part.type == "Tensor[]" and bool(ELEMENT_SET.search(text))


def test_only_variadic_schemas_are_refused() -> None:
    refused = {}
    for schema in registered():
        try:
            ir.parse_schema(str(schema))
        except SchemaError as error:
            refused[str(schema)] = error.code
    assert refused == {str(s): "WIR603" for s in registered() if "..." in str(s)}


def test_names_agree() -> None:
    for ours, theirs in parsed():
        overload = f".{theirs.overload_name}" if theirs.overload_name else ""
        assert ours.name == theirs.name + overload
        assert ir.ExternDef(schema=str(theirs)).name == ours.name


def test_arguments_agree() -> None:
    for ours, theirs in parsed():
        assert [(a.name, a.keyword_only, a.written, a.default is not None) for a in ours.args] == [
            (a.name, a.kwarg_only, is_written(a), a.has_default_value()) for a in theirs.arguments
        ], str(theirs)


def test_returns_agree() -> None:
    for ours, theirs in parsed():
        assert [(r.name, r.written) for r in ours.returns] == [
            (r.name, is_written(r)) for r in theirs.returns
        ], str(theirs)


def test_alias_sets_agree() -> None:
    """Compares alias sets, except those of list elements, which torch does not show: see the next test."""
    count = 0
    for ours, theirs in parsed():
        pairs: list[tuple[ir.SchemaArg | ir.SchemaReturn, Any]] = [
            *zip(ours.args, theirs.arguments, strict=True),
            *zip(ours.returns, theirs.returns, strict=True),
        ]
        for mine, part in pairs:
            if not annotates_elements(str(theirs), mine):
                assert mine.aliases == alias_sets(part), (str(theirs), mine.name)
                count += bool(mine.aliases)
    assert count > 3000


def test_alias_sets_of_lists_agree_with_torchgen() -> None:
    count = 0
    for ours, theirs in parsed():
        text = str(theirs)
        if not text.startswith("aten::") or not ELEMENT_SET.search(text):
            continue
        reference = FunctionSchema.parse(text.removeprefix("aten::"))
        expected = {
            a.name: frozenset(a.annotation.alias_set)
            for a in reference.arguments.flat_all
            if a.annotation is not None
        }
        assert {a.name: a.aliases for a in ours.args if a.aliases} == expected, text
        assert [r.aliases for r in ours.returns] == [
            frozenset(r.annotation.alias_set if r.annotation else ()) for r in reference.returns
        ], text
        count += 1
    assert count > 100


def test_tensors_are_told_from_the_rest() -> None:
    """`is_tensor` is true exactly for arguments whose type torch prints with `Tensor` in a list or
    optional."""
    holds_tensors = re.compile(r"((List|Optional)\[)*Tensor\b")
    for ours, theirs in parsed():
        for mine, part in zip(ours.args, theirs.arguments, strict=True):
            assert mine.is_tensor == bool(holds_tensors.match(part.type.annotation_str)), (str(theirs), mine)


def test_simple_defaults_are_the_values() -> None:
    """Compares numbers, bools, None, and strings without escapes."""
    words = {"None": None, "True": True, "False": False}
    count = 0
    for ours, theirs in parsed():
        for mine, part in zip(ours.args, theirs.arguments, strict=True):
            if mine.default is None or mine.type not in {"int", "SymInt", "float", "bool", "Tensor?", "int?"}:
                continue
            value = words[mine.default] if mine.default in words else float(mine.default)
            assert value == part.default_value, (str(theirs), mine)
            count += 1
    assert count > 1000


# --- single forms, for the reader and for the error codes ------------------------------------------------------


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("Tensor x", ir.SchemaArg(name="x", type="Tensor")),
        ("Tensor(a!) x", ir.SchemaArg(name="x", type="Tensor", aliases=frozenset("a"), written=True)),
        ("Tensor(a -> *) x", ir.SchemaArg(name="x", type="Tensor", aliases=frozenset("a"))),
        ("Tensor(a!)[] x", ir.SchemaArg(name="x", type="Tensor[]", aliases=frozenset("a"), written=True)),
        ("Tensor(a|b)? x", ir.SchemaArg(name="x", type="Tensor?", aliases=frozenset("ab"))),
        ("Tensor[](a!) x", ir.SchemaArg(name="x", type="Tensor[]", aliases=frozenset("a"), written=True)),
        ("bool[3] x", ir.SchemaArg(name="x", type="bool[3]")),
        ("SymInt[1]? x=None", ir.SchemaArg(name="x", type="SymInt[1]?", default="None")),
        ("int[2] x=[1, 2]", ir.SchemaArg(name="x", type="int[2]", default="[1, 2]")),
        ('str x="a, (b"', ir.SchemaArg(name="x", type="str", default='"a, (b"')),
        (r'str x="\", \\"', ir.SchemaArg(name="x", type="str", default=r'"\", \\"')),
        ("Dict(str, t)(a!) x", ir.SchemaArg(name="x", type="Dict(str, t)", aliases=frozenset("a"), written=True)),
        ("Future(t) x", ir.SchemaArg(name="x", type="Future(t)")),
        ("(str, Tensor(a))[] x", ir.SchemaArg(name="x", type="(str, Tensor(a))[]", aliases=frozenset("a"))),
        ("__torch__.torch.classes.c10d.ProcessGroup x", ir.SchemaArg(name="x", type="__torch__.torch.classes.c10d.ProcessGroup")),
    ],
)  # fmt: skip
def test_one_argument(text: str, expected: ir.SchemaArg) -> None:
    schema = ir.parse_schema(f"t::f({text}) -> ()")
    assert schema.args == (expected,)
    assert schema.argument("x") is schema.args[0]


@pytest.mark.parametrize(
    ("aliases", "alias"),
    [(frozenset(), ""), (frozenset("a"), "a"), (frozenset("*"), "*"), (frozenset("ab"), "*")],
)
def test_alias_of_several_sets_is_any(aliases: frozenset[str], alias: str) -> None:
    assert ir.SchemaArg(name="x", type="Tensor", aliases=aliases).alias == alias
    assert ir.SchemaReturn(type="Tensor", aliases=aliases).alias == alias


@pytest.mark.parametrize(
    ("text", "returns"),
    [
        ("()", ()),
        ("Tensor", (ir.SchemaReturn(type="Tensor"),)),
        (
            "Tensor(a!) out",
            (ir.SchemaReturn(type="Tensor", aliases=frozenset("a"), written=True, name="out"),),
        ),
        (
            "(Tensor values, int)",
            (ir.SchemaReturn(type="Tensor", name="values"), ir.SchemaReturn(type="int")),
        ),
        ("Tensor(a)[]", (ir.SchemaReturn(type="Tensor[]", aliases=frozenset("a")),)),
    ],
)
def test_returns(text: str, returns: tuple[ir.SchemaReturn, ...]) -> None:
    assert ir.parse_schema(f"t::f(Tensor(a) x) -> {text}").returns == returns


@pytest.mark.parametrize(
    ("text", "code"),
    [
        ("", "WIR601"),
        ("aten::add", "WIR601"),
        ("aten::add(Tensor self", "WIR601"),
        ("aten::add(Tensor self)", "WIR601"),
        ("(Tensor self) -> Tensor", "WIR601"),
        ("aten::add(Tensor) -> Tensor", "WIR601"),
        ("aten::add(Tensor 1x) -> Tensor", "WIR601"),
        ("aten::add(Tensor{a} x) -> Tensor", "WIR601"),
        ("aten::add(Dict(str x) -> Tensor", "WIR601"),
        ("aten::add(3 x) -> Tensor", "WIR601"),
        ("aten::add(Tensor x) -> Tensor!", "WIR601"),
        ("aten::format(str self, ...) -> str", "WIR603"),
        ("prim::f() -> ...", "WIR603"),
    ],
)
def test_refusals(text: str, code: str) -> None:
    with pytest.raises(SchemaError) as caught:
        ir.parse_schema(text)
    assert caught.value.code == code


def test_unknown_argument() -> None:
    with pytest.raises(SchemaError, match=r"WIR602.*no argument 'z'"):
        ir.parse_schema("t::f(Tensor x) -> Tensor").argument("z")


def _plain(value: Any) -> Any:
    """Returns the Python value of an argument, in the form of torch's defaults."""
    match value:
        case Expr():
            return value.constant
        case tuple():
            return [_plain(item) for item in value]
        case _:
            return value


def test_defaults_are_those_that_torch_reads() -> None:
    """Compares a plan's default of an omitted argument with torch's."""
    compared = 0
    for ours, theirs in parsed():
        for mine, other in zip(ours.args, theirs.arguments, strict=True):
            assert (mine.default is not None) == other.has_default_value(), ours.name
            if mine.default is not None:
                assert repr(_plain(default_value(mine))) == repr(other.default_value), (ours.name, mine)
                compared += 1
    assert compared > 2500
