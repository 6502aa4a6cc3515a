"""Programs for tests of views."""

from __future__ import annotations

import dataclasses
from pathlib import Path

from wrapper_ir import ir, parse_program

TEXT = """wir 0.5
target cpu

symbol n : int backed [2, 64] hint 8

const %w : f32[64] parameter names("layer.w")

extern "aten::add(Tensor self, Tensor other, *, Scalar alpha=1) -> Tensor"

kernel cpp @k entry "k" (read f32* src, write f32* dst) {{{
extern "C" void k(const float* src, float* dst) {
  dst[0] = src[0];  // one element
}
}}}

kernel cpp @twice entry "twice" (readwrite f32* data, i64 count) {{{
extern "C" void twice(float* data, long count) {}
}}}

kernel cpp @head entry "head" (read f32* src, write f32* dst) {{{
extern "C" void head(const float* src, float* dst) {}
}}}

func @main(%p: bool[], %x: f32[64]) {
  %a = alloc f32[64]
  launch @k(%x, %a) extents(256, 256)
  %b = alloc f32[64]
  launch @k(%a, %b) extents(256, 256)
  free %a.s
  %c = view %b : f32[8, 8]
  launch @twice(%c, 64) extents(256)
  %d = call aten::add(%b, %w) : f32[64]
  free %b.s
  %e = cond %p then @branch else @branch (%d) : f32[16]
  free %d
  return %e
}

func @branch(%x: f32[64]) {
  %r = alloc f32[16]
  launch @head(%x, %r) extents(64, 64)
  return %r
}
"""
_MODULES = ("encoder.layer.0", "encoder.layer.0", "encoder.layer.1", "encoder.layer.1.norm")


def _with_provenance(program: ir.Program, provenances: list[ir.Provenance]) -> ir.Program:
    """Assigns the provenances, in order, to the launches and calls of main."""
    remaining = iter(provenances)
    body = [
        dataclasses.replace(op, prov=next(remaining)) if type(op).__name__ in ("Launch", "CallExtern") else op
        for op in program.main.body
    ]
    return program.with_functions([program.main.with_body(body), *program.functions[1:]])


def sample_program() -> ir.Program:
    """A program of three launches and a call in two layers, from two lines of `model.py`."""
    provenances = [
        ir.Provenance(
            nodes=(f"node_{n}",),
            ops=("aten.add.Tensor",),
            modules=(module,),
            locations=(f"model.py:{2 + n // 2}",),
        )
        for n, module in enumerate(_MODULES)
    ]
    return _with_provenance(parse_program(TEXT), provenances)


def write_source(folder: Path) -> None:
    """Writes the source file of the program."""
    (folder / "model.py").write_text("def forward(x):\n    y = x + 1\n    return y + w\n")


HOSTILE = "</script><script>document.title='taken'</script><img src=x onerror=document.title='taken'>"


def hostile_program() -> ir.Program:
    """A program with markup in all of its text: names, kernel source, provenance, labels, symbols."""
    text = TEXT.replace("// one element", HOSTILE).replace('names("layer.w")', f'names("{HOSTILE}")')
    for name in ("%a", "%w"):
        text = text.replace(f"{name}.s", f'%"{HOSTILE}{name[1:]}.s"')
        text = text.replace(f"{name})", f'%"{HOSTILE}{name[1:]}")').replace(
            f"{name} ", f'%"{HOSTILE}{name[1:]}" '
        )
        text = text.replace(f"{name},", f'%"{HOSTILE}{name[1:]}",')
    text = text.replace("@twice", f'@"{HOSTILE}"').replace("@branch", f'@"{HOSTILE}b"')
    text = text.replace("  return %e\n", f'  comment "{HOSTILE}"\n  return %e\n')
    provenance = ir.Provenance(
        nodes=(HOSTILE,),
        ops=(HOSTILE,),
        modules=(HOSTILE, "a"),
        locations=(f"{HOSTILE}.py:1",),
        frontend_name=HOSTILE,
    )
    return _with_provenance(parse_program(text), [provenance] * 4)


def layers(count: int) -> ir.Program:
    """A program of `count` equal steps in layers of ten: an allocation, a launch and a free each."""
    lines, provenances = (
        ["  %v0 = alloc f32[64]", "  launch @k(%x, %v0) extents(256, 256)"],
        [ir.Provenance()],
    )
    for n in range(1, count + 1):
        lines += [
            f"  %v{n} = alloc f32[64]",
            f"  launch @k(%v{n - 1}, %v{n}) extents(256, 256)",
            f"  free %v{n - 1}.s",
        ]
        provenances.append(
            ir.Provenance(
                nodes=(f"node_{n}",),
                modules=(f"encoder.layer.{n // 10}.part{n % 10 // 5}",),
                locations=(f"model.py:{1 + n % 3}",),
            )
        )
    head = TEXT[: TEXT.index("func @main")]
    body = "\n".join(lines)
    return _with_provenance(
        parse_program(f"{head}func @main(%x: f32[64]) {{\n{body}\n  return %v{count}\n}}\n"), provenances
    )
