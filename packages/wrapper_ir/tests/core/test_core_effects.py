"""Effects of each op as one table: a line of text in, its effects in words out."""

from __future__ import annotations

import dataclasses

import pytest
from packages.wrapper_ir.tests.core.op_samples import INDEX, SAMPLES

from wrapper_ir import ir, parse_program
from wrapper_ir.analysis.memo import Analyses
from wrapper_ir.ir.ops.call_effects import _TAG_CLASS

PRELUDE = """wir 0.5
target cpu

symbol s0 : int backed [1, 64] hint 8
symbol u0 : int unbacked [0, 64]

const %w : f32[8]
mutable const %state : f32[8]

extern "aten::relu(Tensor self) -> Tensor"
extern "aten::addmm.out(Tensor self, Tensor mat1, Tensor mat2, *, Scalar beta=1, Scalar alpha=1, Tensor(a!) out) -> Tensor(a!)"
extern "aten::add_.Tensor(Tensor(a!) self, Tensor other, *, Scalar alpha=1) -> Tensor(a!)"
extern "aten::t(Tensor(a) self) -> Tensor(a)"
extern "aten::expand_as(Tensor(a) self, Tensor other) -> Tensor(a)"
extern "aten::cpu(Tensor(a) self) -> Tensor(b|a)"
extern "aten::reshape(Tensor(a) self, SymInt[] shape) -> Tensor(a)" tags(may_alias)
extern "aten::contiguous(Tensor self) -> Tensor" tags(may_alias)
extern "aten::topk(Tensor self, SymInt k) -> (Tensor values, Tensor indices)"
extern "aten::aminmax.out(Tensor self, *, Tensor(a!) min, Tensor(b!) max) -> (Tensor(a!) min, Tensor(b!) max)"
extern "aten::cat(Tensor[] tensors, int dim=0) -> Tensor"
extern "aten::_foreach_add_.Scalar(Tensor(a!)[] self, Scalar scalar) -> ()"
extern "aten::split.Tensor(Tensor(a -> *) self, SymInt split_size, int dim=0) -> Tensor(a)[]"
extern "aten::rand(SymInt[] size) -> Tensor" tags(random)
extern "aten::numel(Tensor self) -> int"
extern "lib::log(Tensor x) -> ()" tags(host_io, effectful)
extern "lib::send(Tensor x) -> Tensor" tags(collective)
extern "lib::sum_(Tensor(a!) x) -> Tensor(a!)" tags(collective)
extern "lib::gather(Tensor[] x, Tensor y) -> Tensor[]" tags(collective)
extern "lib::sums_(Tensor[](a!) x) -> Tensor[](a!)" tags(collective)
extern "lib::swap(Tensor x, *, Tensor(a!) out) -> (Tensor(a!), Tensor)" tags(collective)
extern "lib::variadic(...) -> Tensor"

kernel cpp @k entry "kernel" (read f32* in_ptr0, write f32* out_ptr0, readwrite f32* in_out_ptr0, i64 ks0) {{{
}}}
"""
CALLEES = """
func @fresh(%a: f32[8], %b: f32[8]) {
  %r = call aten::relu(%a) : f32[8]
  return %r
}

func @through(%a: f32[8], %b: f32[8]) {
  call aten::add_.Tensor(%b, %a)
  %v = view %a : f32[8]
  return %v
}

func @owner(%a: owned f32[8], %b: f32[8]) {
  free %a
  %r = call aten::relu(%b) : f32[8]
  return %r
}

func @state() {
  call aten::add_.Tensor(%state, %w)
  %n = call aten::relu(%state) : f32[8]
  return %n
}

func @check(%a: f32[8], %b: f32[8]) {
  assert_finite %a
  define u0 = item(%b)
  return u0 > 0
}
"""

# (lines of @main, of which the last is looked at) -> effects, in the notation of `describe`
CASES = [
    # memory
    ("%s = alloc_storage 32", "fresh s"),
    ("%s = alloc_storage 32 zero(call)", "writes s; fresh s"),
    ("%s = alloc_storage 32 zero(once)", "writes s; fresh s"),
    ("%s = alloc_storage 32\n free %s", "ends s"),
    ("%m = alloc_storage 32 pool\n %s = slot %m + 16 : 16", "fresh s; s in m"),
    ("%m = alloc_storage 32 pool\n %s = slot %m : 16 zero(call)", "writes s; fresh s; s in m"),
    ("free %d", "ends d"),
    ("drop %x", "ends x"),
    ("copy %x, %y", "reads y; writes x"),
    ("%z = ensure_aligned %x, 16", "reads x; z may be x"),
    ("resize_storage %x, 4*s0", "writes x; storage_change"),
    ("set_storage %x, %y", "reads y; writes x; x may be y; storage_change"),
    ("%v = view %x + 16 : f32[4]", "v is x"),
    ("%s = alloc_storage 32\n %v = view %s : f32[8]", "v is s"),
    ("%v = reuse %d : f32[4]", "v is d; moves d"),
    # kernels
    ("launch @k(%x, %y, %d, 8)", "reads x d; writes y d"),
    ("launch @k(%x, %y, %d, s0) grid(s0) extents(32, 32, 32) stream(1)", "reads x d; writes y d"),
    ("launch @k(%x, %y)", "reads x y; writes x y"),
    # operators
    ("%z = call aten::relu(%x) : f32[8]", "reads x; fresh z"),
    ("call aten::relu(%x)", "reads x"),
    ("call aten::addmm.out(%x, %y, %w, out=%d)", "reads x y w; writes d"),
    ("%z = call aten::addmm.out(%x, %y, %w, out=%d) : f32[8]", "reads x y w; writes d; z is d"),
    ("call aten::add_.Tensor(%x, %y, alpha=s0)", "reads x y; writes x"),
    ("%z = call aten::add_.Tensor(%x, %y) : f32[8]", "reads x y; writes x; z is x"),
    ("%z = call aten::t(%x) : f32[8]", "reads x; z is x"),
    ("%z = call aten::expand_as(%x, %y) : f32[8]", "reads x y; z is x"),
    ("%z = call aten::cpu(%x) : f32[8]", "reads x; z may be x"),
    ("%z = call aten::reshape(%x, [8]) : f32[8]", "reads x; z may be x"),
    ("%z = call aten::contiguous(%x) : f32[8]", "reads x; z may be x"),
    ("%t = call aten::topk(%x, 5) : results", "reads x; fresh t"),
    ("%t = call aten::aminmax.out(%x, min=%y, max=%d) : results",
     "reads x; writes y d; t may be y; t may be d"),
    ("%z = call aten::cat([%x, %y, %x]) : f32[24]", "reads x y x; fresh z"),
    ("call aten::_foreach_add_.Scalar([%x, %y], 1)", "reads x y; writes x y"),
    ("%t = call aten::split.Tensor(%x, 4) : results", "reads x; t may be x"),
    ("%z = call aten::rand([8]) : f32[8]", "fresh z; random"),
    ("%m = call aten::numel(%x) : int", "reads x"),
    ("call lib::log(%x)", "reads x; effect host_io"),
    ("%z = call lib::send(%x) : f32[8]", "reads x; fresh z; collective"),
    ("%z = call lib::variadic(%x, [%y]) : f32[8]", "reads x y; writes x y; z may be x; z may be y; effect"),
    ("%z = call lib::variadic(3) : f32[8]", "fresh z; effect"),
    ("%t = call aten::topk(%x, 5) : results\n %z = unpack %t[0] : f32[5]", "z is t"),
    # symbols and checks
    ("define s0 = size(%x, 0)", ""),
    ("define u0 = item(%i)", "reads i"),
    ("define u0 = item(%n)", ""),
    ("assert_layout %x [8] [1]", "check"),
    ("assert s0 < 9", "check"),
    ("assert_finite %x", "reads x; check"),
    # control flow
    ("%z = call_subgraph @fresh(%x, %y) : f32[8]", "reads x; fresh z"),
    ("%z = call_subgraph @through(%x, %y) : f32[8]", "reads x y; writes y; z is x"),
    ("%z = call_subgraph @owner(%d, %x) : f32[8]", "reads x; fresh z; moves d"),
    ("%z = call_subgraph @state() : f32[8]", "reads state; writes state; fresh z"),
    ("%z = cond %p then @fresh else @fresh (%x, %y) : f32[8]", "reads p x; fresh z"),
    ("%z = cond s0 > 4 then @fresh else @through (%x, %y) : f32[8]",
     "reads x y; writes y; z may be x"),
    ("%z = switch s0 [@fresh, @fresh, @fresh] (%x, %y) : f32[8]", "reads x; fresh z"),
    ("%z = switch %i [@through, @fresh, @fresh] (%x, %y) : f32[8]", "reads i x y; writes y; z may be x"),
    ("%z = cond s0 > 4 then @owner else @owner (%d, %x) : f32[8]", "reads x; fresh z; moves d"),
    ("%z = while @check do @through carried(%x) captured(%y) : f32[8]",
     "reads x x y; writes y; fresh z; check"),
    ("return %x, %w, s0, none", "moves x w"),
    # order
    ("%e = record_event @cuda:0 stream(1)", "fresh e; order"),
    ("%e = record_event @cuda:0\n wait_event %e @cuda:0 stream(2)", "order"),
    ("%e = record_event @cuda:0\n sync_event %e", "order"),
    ("barrier", "order"),
    ('enter_profile "attention" "layer 3"', "order"),
    ('enter_memory_pool "activations" @cuda:0', "order"),
    ("exit_scope", "order"),
    ('%h = collective lib::send(%x) group("0") : f32[8]', "reads x; fresh h; collective; h holds x"),
    ('%h = collective aten::relu(%x) group("0") : f32[8]', "reads x; fresh h; collective; h holds x"),
    ('%h = collective lib::sum_(%x) group("0") : f32[8]',
     "reads x; writes x; h is x; collective; h holds x"),
    ('%g, %h = collective lib::gather([%x, %y], %d) group("0") : f32[8], f32[8]',
     "reads x y d; fresh g h; collective; g holds x; g holds d; h holds y; h holds d"),
    ('%g, %h = collective lib::sums_([%x, %y]) group("0") : f32[8], f32[8]',
     "reads x y; writes x y; g is x; h is y; collective; g holds x; h holds y"),
    ('%g, %h = collective lib::swap(%x, out=%y) group("0") : f32[8], f32[8]',
     "reads x; writes y; fresh h; g is y; collective; g holds x; g holds y; h holds x"),
    ('%h = collective lib::variadic(%x) group("0") : f32[8]',
     "reads x; writes x; h may be x; collective effect; h holds x"),
    ('%h = collective lib::send(%x) group("0") : f32[8]\n %z = wait %h : f32[8]',
     "reads h; writes h; z is h; collective"),
    # for readers
    ('comment "attention"', ""),
    ("debug print %x, %y", "reads x y; host_io"),
    ('debug save %x "label"', "reads x; host_io"),
    ("debug names %x", "host_io"),
]  # fmt: skip


def describe(effects: ir.Effects) -> str:
    """Returns the effects in words, in the order of the fields of `Effects`."""
    parts = [
        f"{word} {' '.join(v.name for v in values)}"
        for word, values in (("reads", effects.reads), ("writes", effects.writes), ("fresh", effects.fresh))
        if values
    ]
    parts += [f"{a.name} is {b.name}" for a, b in effects.aliases]
    parts += [f"{a.name} may be {b.name}" for a, b in effects.may_alias]
    parts += [
        f"{word} {' '.join(v.name for v in values)}"
        for word, values in (("moves", effects.moves), ("ends", effects.ends))
        if values
    ]
    if effects.classes:
        parts.append(" ".join(sorted(c.value for c in effects.classes)))
    parts += [f"{a.name} holds {b.name}" for a, b in effects.holds]
    parts += [f"{a.name} in {b.name}" for a, b in effects.within]
    return "; ".join(parts)


@pytest.mark.parametrize(("lines", "expected"), CASES, ids=[lines.splitlines()[-1] for lines, _ in CASES])
def test_effects_of(lines: str, expected: str) -> None:
    end = "" if lines.startswith("return") else "  return"
    header = "func @main(%x: f32[8], %y: f32[8], %d: owned f32[8], %i: i64[], %p: bool[], %n: int) {"
    program = parse_program(f"{PRELUDE}\n{header}\n  {lines}\n{end}\n}}\n{CALLEES}")
    op = program.main.body[lines.count("\n")]
    assert describe(Analyses(program).effects(op)) == expected


def test_every_op_has_a_case() -> None:
    """Checks that the lines above cover each op."""
    classes = set()
    for lines, _ in CASES:
        end = "" if lines.startswith("return") else "return"
        header = "func @main(%x: f32[8], %y: f32[8], %d: owned f32[8], %i: i64[], %p: bool[], %n: int) {"
        body = parse_program(f"{PRELUDE}\n{header}\n  {lines}\n  {end}\n}}\n{CALLEES}").main.body
        classes.add(type(body[lines.count("\n")]))
    assert classes == set(ir.OPS)


@pytest.mark.parametrize("op", SAMPLES, ids=lambda op: type(op).__name__)
def test_effects_speak_of_the_ops_own_values_only(op: ir.Op) -> None:
    """Besides constants, which callees may touch: reads, writes, moves and ends are operands; what is fresh
    is a result; aliasing goes from a result to an operand (`set_storage`: between its operands)."""
    effects = INDEX.effects(op)
    operands, results = set(ir.operands(op)), set(ir.results(op))
    constants = {c.value for c in INDEX.program.constants}

    def only(values: tuple[ir.Value, ...], allowed: set[ir.Value]) -> None:
        assert set(values) <= allowed

    only(effects.reads, operands | constants)
    only(effects.writes, operands | results | constants)
    only(effects.fresh, results)
    only(effects.moves, operands)
    only(effects.ends, operands)
    for result, source in (*effects.aliases, *effects.may_alias):
        assert result in results | operands
        assert source in operands | results | constants


def test_no_result_is_both_fresh_and_an_alias() -> None:
    for op in SAMPLES:
        effects = INDEX.effects(op)
        assert set(effects.fresh).isdisjoint(r for r, _ in (*effects.aliases, *effects.may_alias))


def test_unknown_names_read_and_write_everything() -> None:
    """Assumes the worst, so that an incomplete program is never optimized on a guess."""
    program = parse_program(
        "wir 0.5\ntarget cpu\n\nfunc @main(%x: f32[8], %y: f32[8]) {\n"
        "  launch @nowhere(%x, %y, 3)\n  %z = call lib::nothing(%x, out=%y) : f32[8]\n  return\n}\n"
    )
    analyses = Analyses(program)
    launch, call, _ = program.main.body
    assert describe(analyses.effects(launch)) == "reads x y; writes x y"
    assert describe(analyses.effects(call)) == "reads x y; writes x y; z may be x; z may be y; effect"


def test_recursion_ends() -> None:
    """Checks that the analysis terminates, although the verifier refuses the program."""
    program = parse_program(
        "wir 0.5\ntarget cpu\n\nfunc @main(%x: f32[8]) {\n  %y = call_subgraph @main(%x) : f32[8]\n  return %y\n}\n"
    )
    assert isinstance(Analyses(program).effects(program.main.body[0]), ir.Effects)


def test_every_tag_has_a_meaning() -> None:
    """Checks that each tag is an effect class, or one of those for aliasing, calling and recording."""
    others = {ir.ExternTag.MAY_ALIAS, ir.ExternTag.PYTHON_ONLY, ir.ExternTag.CUDAGRAPH_UNSAFE}
    assert set(_TAG_CLASS) == set(ir.ExternTag) - others
    assert set(_TAG_CLASS.values()) <= set(ir.EffectClass)


def test_effects_are_values() -> None:
    for op in SAMPLES:
        assert INDEX.effects(op) == INDEX.effects(dataclasses.replace(op))
