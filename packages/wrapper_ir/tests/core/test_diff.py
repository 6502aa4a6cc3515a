"""Comparison of two programs side by side, and as a unified diff."""

from __future__ import annotations

import random

from packages.wrapper_ir_tools.tests.view.view_samples import TEXT, sample_program

from wrapper_ir import ir, parse_program
from wrapper_ir.text import print_lines
from wrapper_ir_passes.memory.plan_memory import PlanMemory
from wrapper_ir_tools.diff import diff_programs, pair_lines, program_parts
from wrapper_ir_tools.testing import random_program


def _shown(old: ir.Program, new: ir.Program, *, names: bool = False) -> list[str]:
    """Returns the different lines of functions, with `-` and `+` for lines of one side."""
    lines = []
    for part in program_parts(old, new, names=names):
        if part.kind != "func":
            continue
        sides = [
            next(
                (
                    [line.text.strip() for line in print_lines(f, p)]
                    for f in p.functions
                    if f.name == part.name
                ),
                [],
            )
            for p in (old, new)
        ]
        for pair in pair_lines(part, names=names):
            a, b = (side[n] if n >= 0 else "" for side, n in zip(sides, (pair.old, pair.new), strict=True))
            if not pair.same:
                lines.append(f"{a} | {b}" if a and b else f"- {a}" if a else f"+ {b}")
    return lines


def test_equal_programs_have_no_difference() -> None:
    program = sample_program()
    assert _shown(program, program) == []
    assert next(iter(program_parts(program, program))).kind == "func"


def test_names_are_no_difference_unless_asked() -> None:
    program = parse_program(TEXT.replace("%w", "%x9").replace(", %x9)", ", %b)"))
    other = parse_program(TEXT.replace("%w", "%x9").replace(", %x9)", ", %b)").replace("%a", "%zz"))
    assert _shown(program, other) == []
    assert "%a = alloc f32[64] | %zz = alloc f32[64]" in _shown(program, other, names=True)


def test_a_value_in_between_changes_no_later_line() -> None:
    old = parse_program(TEXT)
    new = parse_program(TEXT.replace("  %c = view", "  %t = alloc f32[2]\n  free %t.s\n  %c = view"))
    assert _shown(old, new) == ["+ %t = alloc f32[2]", "+ free %t.s"]
    assert (
        diff_programs(old, new)
        == """\
--- old func @main
+++ new func @main
@@ -4,6 +4,8 @@
   %b = alloc f32[64]
   launch @k(%a, %b) extents(256, 256)
   free %a.s
+  %t = alloc f32[2]
+  free %t.s
   %c = view %b : f32[8, 8]
   launch @twice(%c, 64) extents(256)
   %d = call aten::add(%b, %w) : f32[64]"""
    )


def test_swapped_arguments_are_a_difference() -> None:
    new = parse_program(TEXT.replace("launch @k(%a, %b)", "launch @k(%x, %b)"))
    assert _shown(parse_program(TEXT), new) == [
        "launch @k(%a, %b) extents(256, 256) | launch @k(%x, %b) extents(256, 256)"
    ]


def test_another_constant_is_a_difference() -> None:
    two = TEXT.replace("extern", 'const %u : f32[64] parameter names("u")\n\nextern', 1)
    old, new = parse_program(two), parse_program(two.replace("(%b, %w)", "(%b, %u)"))
    assert _shown(old, new) == [
        "%d = call aten::add(%b, %w) : f32[64] | %d = call aten::add(%b, %u) : f32[64]"
    ]


def test_layers_stand_beside_themselves() -> None:
    """Distinguishes layers by their constants."""
    weights = "".join(f"const %w{n} : f32[64]\n" for n in range(6))
    head = TEXT.replace("extern", f"{weights}\nextern", 1)[: TEXT.index("func @main") + len(weights) + 1]

    def program(first: int, in_between: str) -> ir.Program:
        steps = [f"  %v{n} = alloc f32[64]\n{in_between}  launch @k(%w{n}, %v{n}) extents(256, 256)\n  free %v{n}.s\n" for n in range(first, 6)]  # fmt: skip
        return parse_program(f"{head}func @main() {{\n{''.join(steps)}  return\n}}\n")

    lines = _shown(program(0, ""), program(1, '  comment "x"\n'))
    alone = [line for line in lines if "launch" in line and " | " not in line]
    assert alone == ["- launch @k(%w0, %v0) extents(256, 256)"]
    assert all(a == b for a, b in (line.split(" | ") for line in lines if " | launch" in line))
    assert lines.count('+ comment "x"') == 5


def test_functions_of_one_side() -> None:
    old = parse_program(TEXT)
    new = parse_program(TEXT.replace("else @branch", "else @other").replace("func @branch", "func @other", 1)
                        + TEXT[TEXT.index("func @branch"):])  # fmt: skip
    lines = _shown(old, new)
    assert [line for line in lines if "cond" in line] == [
        "%e = cond %p then @branch else @branch (%d) : f32[16] | %e = cond %p then @branch else @other (%d) : f32[16]"
    ]
    assert [line for line in lines if line.startswith("+ ")] == [
        "+ func @other(%x: f32[64]) {", "+ %r = alloc f32[16]", "+ launch @head(%x, %r) extents(64, 64)", "+ return %r", "+ }"]  # fmt: skip


def test_kernels_and_declarations_that_differ() -> None:
    new = parse_program(TEXT.replace("// one element", "// 1").replace("hint 8", "hint 9"))
    parts = [p for p in program_parts(parse_program(TEXT), new) if p.kind != "func"]
    assert [(p.kind, p.name) for p in parts] == [("declarations", ""), ("kernel", "k")]
    for part in parts:
        (changed,) = [p for p in pair_lines(part) if not p.same]
        assert part.old[changed.old] != part.new[changed.new]


def test_unified_diffs() -> None:
    """Prints hunks with context, old lines before new ones, with each program's names; nothing for equal
    programs."""
    old = parse_program(TEXT)
    assert diff_programs(old, parse_program(TEXT.replace("%a", "%zz"))) == ""
    assert "+  %zz = alloc f32[64]" in diff_programs(
        old, parse_program(TEXT.replace("%a", "%zz")), names=True
    )
    text = TEXT.replace("%a", "%zz").replace("extents(256, 256)\n  free", "extents(256, 512)\n  free")
    new = parse_program(text.replace("launch @head(%x, %r)", "launch @head(%r, %r)"))
    assert (
        diff_programs(old, new, context=1)
        == """\
--- old func @main
+++ new func @main
@@ -4,3 +4,3 @@
   %b = alloc f32[64]
-  launch @k(%a, %b) extents(256, 256)
+  launch @k(%zz, %b) extents(256, 512)
   free %a.s
--- old func @branch
+++ new func @branch
@@ -2,3 +2,3 @@
   %r = alloc f32[16]
-  launch @head(%x, %r) extents(64, 64)
+  launch @head(%r, %r) extents(64, 64)
   return %r"""
    )


def test_a_diff_turns_one_text_into_the_other() -> None:
    """Applies the diff as `patch` does: the result is the new text, except for names of values."""
    for seed in range(4):
        old = random_program(random.Random(seed), size=20)
        for new in (PlanMemory().run(old), random_program(random.Random(seed + 100), size=20)):
            for name in {f.name for f in (*old.functions, *new.functions)}:
                whole = diff_programs(old, new, context=10_000, names=True)
                title = f"+++ new func @{name}\n"
                if title not in whole:
                    continue
                lines = whole.partition(title)[2].partition("\n--- old ")[0].splitlines()[1:]
                sides = [
                    [line.text for f in p.functions if f.name == name for line in print_lines(f, p)]
                    for p in (old, new)
                ]
                assert [x[1:] for x in lines if x[0] != "+"] == sides[0]
                assert [x[1:] for x in lines if x[0] != "-"] == sides[1]


def test_every_line_once_and_in_order() -> None:
    for seed in range(6):
        old = random_program(random.Random(seed), size=30)
        for new in (PlanMemory().run(old), random_program(random.Random(seed + 100), size=30)):
            for part in program_parts(old, new):
                pairs = pair_lines(part)
                assert [p.old for p in pairs if p.old >= 0] == list(range(len(part.old)))
                assert [p.new for p in pairs if p.new >= 0] == list(range(len(part.new)))
                assert all(not p.same for p in pairs if p.old < 0 or p.new < 0)
