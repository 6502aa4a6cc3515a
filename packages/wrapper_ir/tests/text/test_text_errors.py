"""Every refusal of the text parser: its code, its place, and the excerpt."""

from __future__ import annotations

import pytest

from wrapper_ir import parse_program
from wrapper_ir.errors import ParseError

HEAD = "wir 0.5\nsymbol s0 : int backed\n"

REFUSED_TEXTS = [
    ("", "WIR500", 1, 1),
    ("wir", "WIR501", 1, 4),
    ("# nothing", "WIR500", 1, 10),
    ("wir 0.9\n", "WIR501", 1, 5),
    ('wir "0.9"\n', "WIR501", 1, 5),
    ("wir 0.5 0.1\n", "WIR500", 1, 9),
    ("wir 0.5\ntarget %x\n", "WIR500", 2, 8),
    ("wir 0.5\nsymbol u0 : float unbacked hint nan\n", "WIR500", 2, 33),
    ("wir 0.5\ntarget cpu:x\n", "WIR500", 2, 11),
    ("wir 0.5\ntarget cpu:%x\n", "WIR500", 2, 12),
    ("wir 0.5\nsymbols s0 : int\n", "WIR503", 2, 1),
    ("wir 0.5\nsymbol s0 : complex backed\n", "WIR503", 2, 13),
    ("wir 0.5\nsymbol s0 : int bcked\n", "WIR503", 2, 17),
    ("wir 0.5\nsymbol s0 : int backed [1, x]\n", "WIR500", 2, 28),
    ("wir 0.5\nsymbol s0 : int backed hint x\n", "WIR500", 2, 29),
    (f"wir 0.5\nsymbol s0 : int backed hint {'9' * 5000}\n", "WIR500", 2, 29),
    (f"{HEAD}symbol s0 : int backed\n", "WIR506", 3, 8),
    ("wir 0.5\nconst %w : f32[2]\nconst %w : f32[2]\n", "WIR506", 3, 7),
    ("wir 0.5\nmutable %w : f32[2]\n", "WIR500", 2, 9),
    ('wir 0.5\nextern "relu"\n', "WIR500", 2, 8),
    ('wir 0.5\nextern "relu() -> ()" tags(randm)\n', "WIR503", 2, 28),
    ("wir 0.5\nextern relu\n", "WIR500", 2, 8),
    ("wir 0.5\nkernel cuda @k\n", "WIR503", 2, 8),
    ('wir 0.5\nkernel cpp @k entry "k" (read f33 x) {{{\n}}}\n', "WIR503", 2, 31),
    ('wir 0.5\nkernel cpp @k entry "k" () {{{\nint x;\n', "WIR504", 2, 28),
    ('wir 0.5\nkernel cpp @k entry "k" () {{{{\nint x;\n}}}\n', "WIR504", 2, 28),
    ('wir 0.5\nkernel cpp @k entry "k" ()\n', "WIR500", 2, 27),
    ('wir 0.5\nkernel cpp @k entry "k\n', "WIR502", 2, 21),
    ('wir 0.5\nkernel cpp @k entry "\\q" () {{{\n}}}\n', "WIR502", 2, 21),
    ('wir 0.5\nkernel cpp @k entry "\\U00110000" () {{{\n}}}\n', "WIR502", 2, 21),
    ("wir 0.5\nfunc main() {\n}\n", "WIR500", 2, 6),
    ("wir 0.5\nfunc @main() {\n", "WIR500", 3, 1),
    ("wir 0.5\nfunc @main() { return\n}\n", "WIR500", 2, 16),
    ("wir 0.5\nfunc @main(%x: f32[2], %x: f32[2]) {\n}\n", "WIR506", 2, 24),
    ("wir 0.5\nfunc @main() captures(s0) {\n}\n", "WIR551", 2, 23),
    ("wir 0.5\nconst %w : f32[2]\nfunc @main(%w: f32[2]) {\n}\n", "WIR506", 3, 12),
    ("wir 0.5\nprovenance\n  #1 nodes(relu)\n", "WIR500", 3, 12),
    ('wir 0.5\nprovenance\n  #1 nodes("a")\n  #1 nodes("b")\n', "WIR506", 4, 3),
    ('wir 0.5\nprovenance\n  #1 frontend("a", "b")\n', "WIR500", 3, 18),
    ("wir 0.5\nprovenance\nfunc @main() {\n}\n", "WIR500", 3, 1),
]

REFUSED_OPS = [
    ("fre %x", "WIR503", 1),
    ("%a", "WIR500", 3),
    ("= view %x", "WIR500", 1),
    ("%a, = view %x", "WIR500", 5),
    ("free %y", "WIR552", 6),
    ('free %"y', "WIR502", 6),
    ("free x", "WIR500", 6),
    ("free %x, %x", "WIR500", 8),
    ("free %x + 2", "WIR500", 9),
    ("free %x #9", "WIR507", 9),
    ("%a = free %x", "WIR505", 1),
    ("%x = view %x : f32[2]", "WIR506", 1),
    ("%a, %a = call_subgraph @f() : int, int", "WIR506", 5),
    ("%a, %b = call_subgraph @f() : int", "WIR505", 1),
    ("%a, %b = view %x : f32[2]", "WIR505", 1),
    ("view %x : f32[2]", "WIR505", 1),
    ("alloc f32[2]", "WIR505", 1),
    ("%a = alloc f32", "WIR500", 15),
    ("%a = alloc int", "WIR500", 12),
    ("%a = alloc f32[2]{1, 1}", "WIR500", 12),
    ("%a = alloc f32[2] zero(always)", "WIR503", 24),
    ("%a = alloc f31[2]", "WIR503", 12),
    ("%a = alloc f32[s9]", "WIR551", 16),
    ("%a = alloc f32[2", "WIR500", 17),
    ("%a = alloc f32[2 2]", "WIR500", 18),
    ("%a = alloc_storage", "WIR550", 19),
    ("%a = view %x + : f32[2]", "WIR550", 16),
    ("%a = view %x : storage(8, fast)", "WIR503", 27),
    ("%a = unpack %x[] : f32[2]", "WIR500", 16),
    ("%a = unpack %x[s0] : f32[2]", "WIR500", 16),
    ("%a = ensure_aligned %x, 1.5", "WIR500", 25),
    ("launch k(%x)", "WIR500", 8),
    ("launch @k(%x", "WIR500", 13),
    ("launch @k(%x,\n\n%y)", "WIR552", None),
    ("launch @k(%x %x)", "WIR500", 14),
    ("launch @k(%y)", "WIR552", 11),
    ("launch @k(%x) stream(s0)", "WIR500", 22),
    ("launch @k(size(%y, 0))", "WIR552", 16),
    ("launch @k(size(%x))", "WIR550", 18),
    ("launch @k(foo(s0))", "WIR550", 11),
    ("launch @k(" + "[" * 300 + "]" * 300 + ")", "WIR553", 111),
    ("launch @k(" + "(" * 300 + "1" + ")" * 300 + ")", "WIR553", None),
    ("call f(x=1, 2)", "WIR500", 13),
    ("call f(memory_format(big))", "WIR503", 22),
    ("call f(complex(1, 2.0))", "WIR500", 16),
    ("call f(complex(1.0, s0))", "WIR500", 16),
    ("call f(complex(1.0))", "WIR500", 19),
    ("call f(layout(big))", "WIR503", 15),
    ("call %x()", "WIR500", 6),
    ("define s9 = 1", "WIR551", 8),
    ("define s0 = s0 s0", "WIR500", 16),
    ("assert s0 < 2 < 3", "WIR550", 15),
    ('assert s0 "a" "b"', "WIR500", 15),
    ("assert_layout %x [8]", "WIR500", 21),
    ("cond true then @f", "WIR500", 18),
    ("while @c do @b", "WIR500", 15),
    ("%h = collective f() : f32[2]", "WIR500", 21),
    ("debug show %x", "WIR503", 7),
    ("comment hello", "WIR500", 9),
    ("return %x %x", "WIR500", 11),
    ("return $", "WIR550", 8),
]


@pytest.mark.parametrize(("text", "code", "line", "column"), REFUSED_TEXTS)
def test_refused_texts(text: str, code: str, line: int, column: int) -> None:
    _refused(text, code, line, column)


@pytest.mark.parametrize(("op", "code", "column"), REFUSED_OPS)
def test_refused_ops(op: str, code: str, column: int | None) -> None:
    _refused(f"{HEAD}func @main(%x: f32[8]) {{\n{op}\n}}\n", code, 4 + op.count("\n"), column)


def _refused(text: str, code: str, line: int, column: int | None) -> None:
    with pytest.raises(ParseError) as caught:
        parse_program(text)
    error = caught.value
    assert (error.code, error.line) == (code, line), error
    assert column in (None, error.column), error
    *_, shown, caret = [row for row in error.message.splitlines() if "hint:" not in row]
    assert caret.strip() == "^"
    wanted = text.splitlines()[line - 1] if text.splitlines()[line - 1 :] else ""
    if len(wanted) < 80:
        assert shown == f"  {wanted}"
        assert caret.index("^") == error.column + 1


def test_whole_message() -> None:
    with pytest.raises(ParseError) as caught:
        parse_program("wir 0.5\nfunc @main(%x: f32[8]) {\n  fre %x\n}\n")
    assert str(caught.value) == (
        "[WIR503] line 3, column 3: unknown op `fre`\n    fre %x\n    ^\n  hint: did you mean `free`?"
    )


def test_long_lines_are_cut() -> None:
    with pytest.raises(ParseError) as caught:
        parse_program(f"{HEAD}func @main(%x: f32[8]) {{\nlaunch @k({'%x, ' * 500}%y)\n}}\n")
    excerpt, caret = caught.value.message.splitlines()[1:3]
    assert len(excerpt) < 130
    assert excerpt[caret.index("^") :].startswith("%y)")


def test_place_behind_a_source_block() -> None:
    block = 'kernel cpp @k entry "k" () {{{\nline\n\nline\n}}}\n'
    with pytest.raises(ParseError) as caught:
        parse_program(f"wir 0.5\n{block}{block.replace('@k', '@l')}func @main() {{\n  oops\n}}\n")
    assert (caught.value.line, caught.value.column) == (13, 3)
