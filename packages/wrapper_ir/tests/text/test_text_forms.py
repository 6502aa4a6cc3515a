"""Examples of the text form."""

from __future__ import annotations

import dataclasses
import difflib
import inspect
import re

import pytest
from packages.wrapper_ir.tests.text.form_context import GOLDEN, every_op, program_of

from wrapper_ir import ir, parse_program, print_program
from wrapper_ir.builder import ProgramBuilder, tensor_type
from wrapper_ir.support.quoting import quote, unquote
from wrapper_ir.text import print_excerpt, print_function, print_op
from wrapper_ir.text.ops import op_words


def test_golden_program(update_golden: bool) -> None:
    printed = print_program(parse_program(every_op()))
    if update_golden:
        (GOLDEN / "every_op.wir.txt").write_text(printed, encoding="utf-8")
    assert printed == every_op(), "\n".join(
        difflib.unified_diff(every_op().splitlines(), printed.splitlines())
    )


def test_every_op_has_a_documented_form() -> None:
    assert {name for name, _ in _documented()} == {cls.__name__ for cls in ir.OPS}


def test_the_golden_program_has_every_op() -> None:
    assert {type(op) for f in parse_program(every_op()).functions for op in f.body} == set(ir.OPS)


def _documented() -> list[tuple[str, str]]:
    """Returns (op class, form) of every form in an op's docstring after `Text:`."""
    examples = []
    for cls in ir.OPS:
        text = inspect.getdoc(cls) or ""
        for form in re.findall(r"`([^`]+)`", text[text.index("Text:") :]):
            if " = " in form or form.split()[0] in op_words(ir.OPS):
                examples.append((cls.__name__, form))
    return examples


@pytest.mark.parametrize(("name", "form"), _documented())
def test_forms_in_docstrings(name: str, form: str) -> None:
    ops = program_of(form).main.body
    assert name in [type(op).__name__ for op in ops]


@pytest.mark.parametrize(
    ("text", "printed"),
    [
        ("%a = alloc f32[4,4]{4,1}", "%a = alloc f32[4, 4]"),
        ("%a.s = alloc_storage 64\n%a = view %a.s : f32[4, 4]", "%a = alloc f32[4, 4]"),
        ("%a.s = alloc_storage 60\n%a = view %a.s : f32[4, 4]", None),
        ("%a.s = alloc_storage 64 pinned\n%a = view %a.s : f32[4, 4]", None),
        ("%a.s = alloc_storage 64\n%a = reuse %a.s : f32[4, 4]", None),
        ("%b.s = alloc_storage 64\n%a = view %b.s : f32[4, 4]", None),
        ('%a.s = alloc_storage 64\ncomment "x"\n%a = view %a.s : f32[4, 4]', None),
        ("return  s0 *2 ,none", "return s0*2, none"),
        ("free %x # a comment", "free %x"),
        ("launch @k(%x,\n   %y,\n)", "launch @k(%x, %y)"),
        ("define s0 = s1%s2", "define s0 = s1 % s2"),
        ('comment "\\u0041\\U0001f600\\t"', 'comment "A😀\\t"'),
        ("%a = view %x + 0 : f32[8]", "%a = view %x : f32[8]"),
    ],
)
def test_spelling(text: str, printed: str | None) -> None:
    lines = print_function(program_of(text).main, program_of(text)).splitlines()[1:-1]
    expected = text if printed is None else printed
    assert [line.strip() for line in lines] == expected.splitlines()


def test_line_ends_of_other_systems() -> None:
    text = every_op()
    assert print_program(parse_program(text.split("kernel cpp")[0].replace("\n", "\r\n"))).startswith(
        "wir 0.5"
    )


def test_device_is_left_out_where_it_is_the_targets() -> None:
    for target, suffix in ((ir.Device("cuda", 0), " @cpu"), (ir.Device("cpu"), "")):
        b = ProgramBuilder(ir.Target(device=target))
        f = b.function("main")
        x = f.param("x", tensor_type(ir.DType.F32, (8,)))
        f.ret((x,))
        assert f"%x: f32[8]{suffix})" in print_program(b.finish())


def test_provenance_is_numbered_by_first_use() -> None:
    program = program_of('comment "a"\ncomment "b"\ncomment "c"')
    relu, add = ir.Provenance(nodes=("relu",)), ir.Provenance(nodes=("add",))
    ops = [
        ir.Comment(text=t, prov=p) for t, p in (("a", add), ("b", ir.Provenance()), ("c", relu), ("d", add))
    ]
    text = print_program(_with_body(program, tuple(ops)))
    assert [line.strip() for line in text.splitlines() if "#" in line] == [
        'comment "a"  #1',
        'comment "c"  #2',
        'comment "d"  #1',
        '#1 nodes("add")',
        '#2 nodes("relu")',
    ]
    assert parse_program(text) == _with_body(program, tuple(ops))


def _with_body(program: ir.Program, body: tuple[ir.Op, ...]) -> ir.Program:
    main = dataclasses.replace(program.main, body=body)
    return dataclasses.replace(program, functions=(main,))


@pytest.mark.parametrize(
    "source",
    [
        "",
        "\n",
        "x",
        "x\n",
        "}}}",
        "}}}\n}}}}",
        "}}}  ",
        "a\n{{{\nb\n}}}\n",
        "\r\n",
        "\ufeff",
        "\ud800",
        'a"\\',
    ],
)
def test_sources_of_any_text(source: str) -> None:
    b = ProgramBuilder()
    b.kernel(ir.CppKernel(name="k", params=(), source=source, entry="k"))
    program = b.finish()
    text = print_program(program)
    assert parse_program(text) == program
    text.encode()


def test_print_op_and_excerpt() -> None:
    program = program_of("%a = alloc f32[4]\nfree %a.s\nreturn")
    body = program.main.body
    assert [type(op) for op in body[:3]] == [ir.AllocStorage, ir.View, ir.Free]
    assert [print_op(op, program) for op in body] == [
        "%a.s = alloc_storage 16",
        "%a = view %a.s : f32[4]",
        "free %a.s",
        "return",
    ]
    assert print_excerpt(program.main, 2, program, around=1) == (
        "func @main:\n  ...\n  %a = view %a.s : f32[4]\n  free %a.s\n  ^^^^^^^^^\n  return"
    )


def test_print_op_of_the_wrong_type() -> None:
    program = program_of("%s = alloc_storage 16")
    (op,) = program.main.body
    assert isinstance(op, ir.AllocStorage)
    assert isinstance(op.result.type, ir.StorageType)
    object.__setattr__(op.result, "type", tensor_type(ir.DType.F32, (4,)))
    assert print_op(op, program) == "%s = alloc_storage : f32[4]"


@pytest.mark.parametrize(
    "text", ["", "plain", 'a"b\\', "\n\t\r\0", "\u2028\x7f\xa0", "é漢😀", "\ud800\udc00"]
)
def test_quotes(text: str) -> None:
    quoted = quote(text)
    assert unquote(quoted) == text
    assert quoted.isprintable()
