"""Programs on another device: text in, text out, and refusals."""

from __future__ import annotations

import dataclasses
import random
import re

import pytest

from wrapper_ir import check, ir, parse_program, print_program
from wrapper_ir.artifact import bare_artifact
from wrapper_ir.errors import PassError
from wrapper_ir.json.kernel_hash import content_hash
from wrapper_ir_passes import parse_pipeline, print_pipeline, run_on_artifact, run_pipeline
from wrapper_ir_passes.devices.move_device import MoveDevice, devices_of
from wrapper_ir_tools.testing import RandomOptions, random_program

TRITON = """kernel triton @k entry "k" (read f32* x may_alias(y), write f32* y, i32 n)
  order(x, y, n, XBLOCK)
  configs({XBLOCK = 128} warps(4) stages(1))
  grid(ceildiv(n, XBLOCK))
  {{{
@triton.jit
def k(x, y, n, XBLOCK): pass
}}}
"""

WHOLE = f"""wir 0.5
target cuda:0 arch "sm_90"

symbol s0 : int backed
symbol u0 : int unbacked
mutable const %state : f32[8] buffer names("state")
const %table : f32[8] @cpu
extern "aten::relu(Tensor self) -> Tensor"
extern "aten::full(SymInt[] size, Scalar fill_value, *, Device? device=None) -> Tensor"
extern "aten::split(Tensor(a -> *) self, SymInt split_size) -> Tensor(a)[]"

{TRITON}
func @main(%x: f32[s0], %n: i64[] @cpu) {{
  define s0 = size(%x, 0)
  define u0 = item(%n)
  assert_layout %x [s0] [1] "input"
  %a = alloc f32[s0]
  launch @k(%x, %a, s0) extents(4*s0, 4*s0)
  %b = call aten::full([8], 1.0, device=device(cuda:0)) : f32[8]
  %c = call aten::full([8], 1.0, device=device(cuda)) : f32[8]
  %e = record_event @cuda:0 stream(1)
  wait_event %e @cuda:0
  drop %e
  copy %state, %table
  copy %b, %state
  %r = switch %n [@f, @g] (%b) : f32[8]
  free %b
  free %c
  drop %x
  drop %n
  return %a, %r
}}

func @f(%x: f32[8]) {{
  %y = call aten::relu(%x) : f32[8]
  drop %x
  return %y
}}

func @g(%x: f32[8]) {{
  %y = alloc f32[8]
  copy %y, %x
  drop %x
  return %y
}}
"""


def moved(text: str, spec: str) -> str:
    program = parse_program(text)
    assert check(program) == (), "\n".join(map(str, check(program)))
    return print_program(run_pipeline(program, spec))


def test_everything_follows_to_another_index() -> None:
    text = print_program(parse_program(WHOLE))
    want = text.replace("cuda:0", "cuda:1").replace("device=device(cuda))", "device=device(cuda:1))")
    assert moved(WHOLE, "move-device{to=cuda:1}") == want
    assert "cuda:0" not in want
    assert moved(want, "move-device{to=cuda:1}") == want
    assert moved(want, "move-device{to=cuda:0,from=cuda:1}") == text.replace(
        "device=device(cuda))", "device=device(cuda:0))"
    )


def test_another_architecture() -> None:
    assert 'target cuda:1 arch "sm_80"' in moved(WHOLE, "move-device{to=cuda:1,arch=sm_80}")


UNORDERED = WHOLE.replace("  %e = record_event @cuda:0 stream(1)\n  wait_event %e @cuda:0\n  drop %e\n", "")


def test_another_type() -> None:
    want = print_program(parse_program(UNORDERED)).replace('target cuda:0 arch "sm_90"', "target cpu")
    want = (
        want.replace("device=device(cuda:0)", "device=device(cpu)")
        .replace("device=device(cuda))", "device=device(cpu))")
        .replace(" @cpu", "")
    )
    assert moved(UNORDERED, "move-device{to=cpu}") == want
    onto = moved(UNORDERED, "move-device{to=xpu:0,arch=pvc}")
    assert 'target xpu:0 arch "pvc"' in onto
    assert "cuda" not in onto
    assert "@cpu" in onto


def test_what_is_elsewhere_stays() -> None:
    text = """wir 0.5
target cpu

func @main(%x: f32[8] @cuda:0, %y: f32[8] @cuda:1, %z: f32[8]) {
  copy %x, %y
  copy %y, %z
  return
}
"""
    program = parse_program(text)
    assert devices_of(program) == (ir.CPU, ir.Device("cuda", 0), ir.Device("cuda", 1))
    assert moved(text, "move-device{from=cuda:1,to=cuda:2}") == text.replace("cuda:1", "cuda:2")
    assert moved(text, "move-device{from=cuda:1,to=cuda:0}") == text.replace("cuda:1", "cuda:0")
    assert moved(text, "move-device{from=cpu,to=cuda:0}") == text.replace(
        "target cpu", "target cuda:0"
    ).replace(" @cuda:0", "")


@pytest.mark.parametrize("seed", range(60))
def test_random_programs_there_and_back(seed: int) -> None:
    """All ops move: only devices differ in the text."""
    original = random_program(random.Random(seed), 30, RandomOptions(executable=False))
    program = parse_program(re.sub(r"(target |@|device\()cpu\b", r"\1cuda:0", print_program(original)))
    text = print_program(program)
    there = MoveDevice(to="cuda:7", from_="cuda:0").run(program)
    assert print_program(there) == text.replace("cuda:0", "cuda:7")
    assert parse_program(print_program(there)) == there
    assert MoveDevice(to="cuda:0", from_="cuda:7").run(there) == program


def test_spec_round_trip() -> None:
    step = MoveDevice(to="cuda:1", from_="cuda:0", arch="sm_90", libraries=True)
    assert step.spec == "move-device{to=cuda:1,from=cuda:0,arch=sm_90,libraries=true}"
    assert parse_pipeline(step.spec) == (step,)
    assert print_pipeline((step,)) == step.spec


SEVERAL = "func @main(%x: f32[8] @cuda:0, %y: f32[8] @cuda:1) {\n  return\n}\n"
EXTERN = 'extern "{op}(Tensor self) -> Tensor"\nfunc @main(%x: f32[8]) {{\n  %y = call {name}(%x) : f32[8]\n  return %y\n}}\n'


def calls(name: str) -> str:
    return EXTERN.format(op=name, name=name)


def launches(kernel: str) -> str:
    return f"{kernel}func @main(%x: f32[8], %y: f32[8]) {{\n  launch @k(%x, %y, 8)\n  return\n}}\n"


_FOREIGN = 'kernel foreign @k runtime "mine" (read f32* x, write f32* y, i64 n) ""\n'
_CPP = 'kernel cpp @k entry "k" (read f32* x, write f32* y, i64 n) {{{\n}}}\n'
_OPERATOR = (
    'kernel operator @k "aten::_thnn_fused_lstm_cell.out(Tensor self, *, Tensor(a!) out) -> Tensor(a!)" '
    "(read f32* self, write f32* out)\nfunc @main(%x: f32[8], %y: f32[8]) {\n  launch @k(%x, %y)\n  "
    "return\n}\n"
)
_MULTI = (
    TRITON.replace("\n  {{{", "\n  multiprocessors(132)\n  {{{")
    + TRITON.replace("@k entry", "@k2 entry")
    + "kernel multi @m choose measure (read f32* x may_alias(y), write f32* y, i32 n)\n"
    "  variants(\n    @k(0, 1, 2),\n    @k2(0, 1, 2),\n  )\n"
    "func @main(%x: f32[8], %y: f32[8]) {\n  launch @m(%x, %y, 8)\n  return\n}\n"
)
_INLINE = TRITON.replace("pass", "tl.inline_asm_elementwise()")
_GROUP = 'extern "lib::sum(Tensor x, str group_name) -> Tensor" tags(collective)\n'
_START = 'func @main(%x: f32[8]) {\n  %h = collective lib::sum(%x, "0") group("0") : f32[8]\n  %y = wait %h : f32[8]\n  return %y\n}\n'
_SYNCHRONOUS = 'func @main(%x: f32[8]) {\n  %y = call lib::sum(%x, "0") : f32[8]\n  return %y\n}\n'
_EVENT = "func @main(%x: f32[8]) {\n  %e = record_event @cuda:0\n  drop %e\n  return\n}\n"
_STREAM = (
    "func @main(%x: f32[8], %y: f32[8]) {\n  copy %x, %y stream(1)\n  %e = record_event @cuda:0 "
    "stream(1)\n  wait_event %e @cuda:0\n  drop %e\n  return\n}\n"
)
_SYMMETRIC = 'func @main() {\n  %s = alloc_storage 64 symmetric("0", 3)\n  free %s\n  return\n}\n'
_PINNED = "func @main() {\n  %s = alloc_storage 64 @cpu pinned\n  free %s\n  return\n}\n"
_PACKED = 'const %w : packed("linear")\nfunc @main() {\n  return\n}\n'

CUDA, HOST = "target cuda:0\n", "target cpu\n"

REFUSED = {
    "no device": (CUDA, calls("aten::relu"), "", "WIR806", "to= is not a device"),
    "a device without an index": (CUDA, calls("aten::relu"), "to=cuda", "WIR806", "to=cuda is not a device"),
    "a CPU with one": (CUDA, calls("aten::relu"), "to=cpu:0", "WIR806", "to=cpu:0 is not a device"),
    "a device that nothing is on": (
        CUDA,
        calls("aten::relu"),
        "to=cpu,from=cuda:3",
        "WIR806",
        "nothing is on cuda:3",
    ),
    "several devices": (CUDA, SEVERAL, "to=cpu", "WIR806", "several devices: cuda:0, cuda:1"),
    "a C++ kernel": (HOST, launches(_CPP), "to=cuda:0", "WIR807", "@k is C++ for a CPU"),
    "a kernel of a plug-in": (CUDA, launches(_FOREIGN), "to=cpu", "WIR807", "runtime 'mine' alone"),
    "a kernel that is an operator of one type": (CUDA, _OPERATOR, "to=cpu", "WIR807", "for cuda only"),
    "a kernel for so many multiprocessors": (CUDA, _MULTI, "to=cpu", "WIR807", "132 multiprocessors"),
    "the same, to another architecture": (
        'target cuda:0 arch "sm_90"\n',
        _MULTI,
        "to=cuda:1,arch=sm_80",
        "WIR807",
        "132 multiprocessors",
    ),
    "a kernel with assembly": (CUDA, launches(_INLINE), "to=cpu", "WIR807", "inline_asm"),
    "an operator of one type": (
        CUDA,
        calls("aten::_cudnn_rnn"),
        "to=cpu",
        "WIR807",
        "aten::_cudnn_rnn exists for cuda only",
    ),
    "an operator whose strides depend on the device": (
        CUDA,
        calls("aten::convolution"),
        "to=cpu",
        "WIR807",
        "other strides",
    ),
    "an operator for CPUs": (
        HOST,
        calls("mkldnn::_linear_pointwise"),
        "to=cuda:0",
        "WIR807",
        "exists for cpu only",
    ),
    "an operator of another library": (
        CUDA,
        calls("mine::relu"),
        "to=cpu",
        "WIR807",
        "may not have it for cpu",
    ),
    "a collective": (CUDA, _GROUP + _START, "to=cpu", "WIR807", "process group"),
    "a synchronous collective": (CUDA, _GROUP + _SYNCHRONOUS, "to=cpu", "WIR807", "process group"),
    "an event": (CUDA, _EVENT, "to=cpu", "WIR807", "no streams"),
    "a stream": (CUDA, _STREAM, "to=cpu", "WIR807", "no streams"),
    "symmetric memory": (CUDA, _SYMMETRIC, "to=cpu", "WIR807", "symmetric memory"),
    "pinned memory": (HOST, _PINNED, "to=cuda:0", "WIR807", "pinned memory"),
    "a packed constant": (HOST, _PACKED, "to=cuda:0", "WIR807", "packed for one machine"),
}


@pytest.mark.parametrize("name", REFUSED)
def test_refused(name: str) -> None:
    target, body, options, code, words = REFUSED[name]
    program = parse_program(f"wir 0.5\n{target}{body}")
    assert check(program) == (), "\n".join(map(str, check(program)))
    with pytest.raises(PassError) as caught:
        run_pipeline(program, f"move-device{{{options}}}")
    assert caught.value.code == code
    assert words in str(caught.value)
    assert caught.value.hint
    if code == "WIR807" and "constant" not in words and name != "a packed constant":
        assert "@main, op" in caught.value.message


INDEX = [n for n, (target, body, *_) in REFUSED.items() if target == CUDA and body not in (SEVERAL, _PINNED)]


@pytest.mark.parametrize("name", INDEX)
def test_what_one_type_has_goes_to_another_index_of_it(name: str) -> None:
    target, body, *_ = REFUSED[name]
    text = moved(f"wir 0.5\n{target}{body}", "move-device{to=cuda:5}")
    assert "cuda:0" not in text
    assert "cuda:5" in text


def test_operators_of_libraries_if_told_so() -> None:
    text = f"wir 0.5\n{CUDA}{calls('mine::relu')}"
    assert "target cpu" in moved(text, "move-device{to=cpu,libraries=true}")
    with pytest.raises(PassError, match="exists for cuda only"):
        moved(f"wir 0.5\n{CUDA}{calls('aten::_cudnn_rnn')}", "move-device{to=cpu,libraries=true}")


def test_what_is_not_moved_is_not_asked() -> None:
    """C++ kernels and operators of the CPU stay where they are."""
    text = (
        f'wir 0.5\n{CUDA}{_CPP}extern "mkldnn::_linear_pointwise(Tensor self) -> Tensor"\n'
        "func @main(%x: f32[8] @cpu, %y: f32[8] @cpu, %z: f32[8]) {\n  launch @k(%x, %y, 8)\n"
        "  %r = call mkldnn::_linear_pointwise(%y) : f32[8] @cpu\n  return %r, %z\n}\n"
    )
    assert "%z: f32[8]" in moved(text, "move-device{to=xpu:0}")


RANDOM = """wir 0.5
target cuda:0 arch "sm_90"

extern "aten::bernoulli(Tensor self, *, Generator? generator=None) -> Tensor" tags(random)
""" + launches(TRITON).replace(
    "launch @k(%x, %y, 8)", "launch @k(%x, %y, 8)\n  %r = call aten::bernoulli(%x) : f32[8]\n  drop %r"
)


def test_what_stands_around_a_program_follows() -> None:
    """Random numbers come from the new device. Compiled kernels are kept if the architecture is the same."""
    program = parse_program(RANDOM.replace("drop %r", "free %r"))
    artifact = bare_artifact(program)
    assert [r.device for r in artifact.signature.random] == [ir.Device("cuda", 0)]

    def binary(target: str) -> ir.KernelBinary:
        return ir.KernelBinary(
            runtime="triton",
            kernel=content_hash(program.kernels[0]),
            target=target,
            key="",
            compiler="",
            config=None,
            kind=ir.ImageKind.CUBIN,
            facts=ir.LaunchFacts(symbol="k", num_warps=4, warp_size=32),
            params=(),
            image=b"",
        )

    both = (binary("cuda:sm_90"), binary("cuda:sm_80"))
    artifact = dataclasses.replace(artifact, binaries=both)
    for spec, device, stays in (
        ("to=cuda:1", ir.Device("cuda", 1), both),
        ("to=cuda:1,arch=sm_80", ir.Device("cuda", 1), both[1:]),
        ("to=cpu", ir.CPU, ()),
    ):
        result = run_on_artifact(artifact, f"move-device{{{spec}}}")
        assert [r.device for r in result.signature.random] == [device]
        assert result.binaries == stays
        assert result.program == run_pipeline(program, f"move-device{{{spec}}}")
