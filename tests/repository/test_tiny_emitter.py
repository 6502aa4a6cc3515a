"""The example emitter: the same results as the interpreter, and a refusal by name for every op it lists."""

from __future__ import annotations

import random
import re
from collections.abc import Callable, Iterator
from importlib import import_module
from pathlib import Path
from typing import Any, get_args, get_type_hints

import pytest
import torch

import py_wrapper
import wrapper_ir
import wrapper_ir_passes
from wrapper_ir.artifact import Artifact, bare_artifact
from wrapper_ir.errors import NotSupportedError
from wrapper_ir.plugins.protocols import Emitter
from wrapper_ir.plugins.registry import emitter
from wrapper_ir_lowering import LoweringOptions, lower
from wrapper_ir_lowering.steps import STEPS, Launch
from wrapper_ir_runtime.interp import Interpreter
from wrapper_ir_tools.testing import RandomOptions, random_artifact

FOLDER = Path(__file__).resolve().parents[2] / "examples" / "tiny_emitter"
HEAD = """wir 0.5
target cpu

symbol s0 : int backed [1, 64] hint 8
symbol u0 : int unbacked [0, 64]

extern "aten::relu(Tensor self) -> Tensor"
extern "aten::relu_(Tensor(a!) self) -> Tensor(a!)"
extern "aten::add.out(Tensor self, Tensor other, *, Scalar alpha=1, Tensor(a!) out) -> Tensor(a!)"
extern "aten::sort(Tensor self, int dim=-1, bool descending=False) -> (Tensor values, Tensor indices)"
extern "aten::cat(Tensor[] tensors, int dim=0) -> Tensor"
extern "aten::nonzero(Tensor self) -> Tensor"
extern "aten::full(SymInt[] size, Scalar fill_value, *, ScalarType? dtype=None, Layout? layout=None, Device? device=None, bool? pin_memory=None) -> Tensor"
extern "tiny_emitter::twice(Tensor x) -> Tensor"
extern "aten::clone(Tensor self, *, MemoryFormat? memory_format=None) -> Tensor"
"""

PROGRAMS = {
    "operators": """
func @main(%x: f32[s0, 4], %y: f32[s0, 4]) {
  define s0 = size(%x, 0)
  assert_layout %x [s0, 4] [4, 1]
  assert_layout %y align(4)
  assert s0 <= 64 "too many rows"
  comment "a sum"
  %sum = alloc f32[s0, 4]
  call aten::add.out(%x, %y, alpha=2, out=%sum)
  assert_finite %sum
  %c = call aten::cat([%sum, %x], 1) : f32[s0, 8]
  return %c, 4*s0, none
}""",
    "views": """
func @main(%x: f32[s0, 4], %y: owned f32[s0, 4]) {
  define s0 = size(%x, 0)
  %s = alloc_storage 16*s0 zero(call)
  %t = view %s : f32[s0, 4]
  copy %t, %x
  %v = view %t + 4 : f32[s0, 3]{4, 1}
  call aten::relu_(%v)
  %i = view %t : i32[s0, 4]
  %b = view %i : i32[s0, 4]
  %flat = reuse %y : f32[4*s0]
  call aten::relu_(%flat)
  return %b, %flat, %v
}""",
    "several results": """
func @main(%x: f32[s0, 4], %y: f32[s0, 4]) {
  define s0 = size(%x, 0)
  %sorted = call aten::sort(%x, 1, true) : results
  %values = unpack %sorted[0] : f32[s0, 4]
  %indices = unpack %sorted[1] : i64[s0, 4]
  return %values, %indices
}""",
    "other libraries": """
func @main(%x: f32[s0, 4], %y: f32[s0, 4]) {
  define s0 = size(%x, 0)
  %t = call tiny_emitter::twice(%x) : f32[s0, 4]
  return %t
}""",
    "unbacked": """
func @main(%x: f32[s0, 4], %y: f32[s0, 4]) {
  define s0 = size(%x, 0)
  %i = call aten::nonzero(%x) : i64[u0, 2]{1, u0}
  define u0 = size(%i, 0)
  %o = call aten::full([u0, 2], 1.5, dtype=f64, layout=layout(strided), device=device(cpu)) : f64[u0, 2]
  return %o, %i
}""",
    "slots": """
func @main(%x: f32[s0, 4], %y: f32[s0, 4]) {
  define s0 = size(%x, 0)
  %pool = alloc_storage s0*32 pool
  %a.s = slot %pool + s0*16 : s0*16
  %a = view %a.s : f32[s0, 4]
  copy %a, %x
  %b.s = slot %pool : s0*16
  %b = view %b.s : f32[s0, 4]
  copy %b, %y
  call aten::relu_(%b)
  %z = call aten::relu(%a) : f32[s0, 4]
  %w = call aten::relu(%b) : f32[s0, 4]
  return %z, %w
}""",
    "odd names": """
func @main(%"class": f32[s0, 4], %0: f32[s0, 4]) {
  define s0 = size(%"class", 0)
  %a.b = call aten::relu(%"class") : f32[s0, 4]
  %a_b = call aten::relu(%0) : f32[s0, 4]
  %torch = call aten::clone(%a.b, memory_format=memory_format(contiguous_format)) : f32[s0, 4]
  return %torch, %a_b
}""",
}  # fmt: skip

REFUSED = {
    "Switch": "%z = cond s0 > 2 then @f else @f (%x) : f32[8]",
    "Loop": "%z = while @c do @f carried(%x) captured() : f32[8]",
    "Call": "%z = call_subgraph @f(%x) : f32[8]",
    "EnterDevice": "",
    "RecordEvent": "%e = record_event @cpu\n drop %e",
    "WaitEvent": "wait_event %e @cpu",
    "SyncEvent": "sync_event %e",
    "Barrier": "barrier",
    "EnterProfile": 'enter_profile "a"',
    "EnterPool": 'enter_memory_pool "a" @cuda:0',
    "ExitScope": 'enter_profile "a"\n exit_scope',
    "CheckGroups": '%h = collective lib::send(%x) group("0") : f32[8]\n %z = wait %h : f32[8]',
    "StartCollective": '%h = collective lib::send(%x) group("0") : f32[8]\n %z = wait %h : f32[8]',
    "Wait": "%z = wait %x : f32[8]",
    "Align": "%z = ensure_aligned %x, 16",
    "ResizeStorage": "resize_storage %x, 64",
    "SetStorage": "set_storage %x, %y",
    "ShowLine": "debug names %x",
    "ShowValue": "debug print %x",
    "SaveValue": "debug save %x",
    "Zero": "%s = alloc_storage 64 zero(call)\n %a = view %s : f32[8]\n copy %x, %a\n free %s",
    "ResizeBlock": "%p = alloc_storage 64 pool\n %s = slot %p : 32\n %a = view %s : f32[8]\n copy %a, %x\n free %s\n free %p",
}
ON_A_DEVICE = {"EnterDevice"}
CALLEES = """
extern "lib::send(Tensor x) -> Tensor" tags(collective)
func @f(%a: f32[8]) {
  %r = call aten::relu(%a) : f32[8]
  return %r
}
func @c(%a: f32[8]) {
  return false
}
"""


@pytest.fixture(scope="module", autouse=True)
def library() -> Iterator[None]:
    """An operator of a library that is not torch's."""
    made: Any = torch.library.Library("tiny_emitter", "FRAGMENT")  # type: ignore[no-untyped-call]  # torch's own
    made.define("twice(Tensor x) -> Tensor")
    made.impl("twice", lambda x: x * 2, "CPU")
    yield
    made._destroy()


@pytest.fixture
def tiny(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Emitter[str]:
    """The emitter, found as an installed package would be: by its entry point."""
    text = (FOLDER / "pyproject.toml").read_text(encoding="utf-8")
    (line,) = re.findall(r'^\[project\.entry-points\."wrapper_ir\.emitters"\]\n(.+)$', text, re.MULTILINE)
    info = tmp_path / "tiny_emitter-0.1.0.dist-info"
    info.mkdir()
    (info / "METADATA").write_text("Metadata-Version: 2.1\nName: tiny-emitter\nVersion: 0.1.0\n")
    (info / "entry_points.txt").write_text(f"[wrapper_ir.emitters]\n{line.replace(chr(34), '')}\n")
    monkeypatch.syspath_prepend(str(tmp_path))
    monkeypatch.syspath_prepend(str(FOLDER))
    return emitter("tiny")


def module() -> Any:  # Any: the example is not an installed package
    return import_module("tiny_emitter")


def artifact(body: str) -> Artifact:
    return bare_artifact(
        wrapper_ir_passes.run_pipeline(wrapper_ir.parse_program(HEAD + body), "derive-frees")
    )


def inputs() -> tuple[torch.Tensor, torch.Tensor]:
    generator = torch.Generator().manual_seed(0)
    return torch.randn(5, 4, generator=generator), torch.randn(5, 4, generator=generator)


def assert_same(got: Any, want: Any) -> None:
    assert len(got) == len(want)
    for a, b in zip(got, want, strict=True):
        if isinstance(b, torch.Tensor):
            assert torch.equal(a, b)
            assert a.dtype == b.dtype
            assert a.stride() == b.stride()
        else:
            assert a == b


@pytest.mark.parametrize("name", PROGRAMS)
def test_it_computes_what_the_interpreter_computes(name: str, tiny: Emitter[str]) -> None:
    art = artifact(PROGRAMS[name])
    assert_same(tiny.compile(art)(*inputs()), Interpreter(art, py_wrapper.TORCH_MACHINE)(*inputs()))


def test_written_files_run_on_their_own(tiny: Emitter[str], tmp_path: Path) -> None:
    art = artifact(PROGRAMS["operators"])
    folder = tmp_path / "out"
    folder.mkdir()
    main_file, _ = tiny.write(art, folder)
    scope: dict[str, Any] = {"__file__": str(main_file), "__name__": "written"}
    exec(compile(main_file.read_text(encoding="utf-8"), str(main_file), "exec"), scope)
    load: Callable[[], Callable[..., Any]] = scope["load"]
    assert_same(load()(*inputs()), tiny.compile(art)(*inputs()))


def test_boxed_calls_empty_the_list(tiny: Emitter[str]) -> None:
    held: list[Any] = [*inputs()]
    boxed: Callable[[list[Any]], tuple[Any, ...]] = tiny.compile(artifact(PROGRAMS["operators"])).boxed
    boxed(held)
    assert held == []


def test_assertions_are_kept(tiny: Emitter[str]) -> None:
    call = tiny.compile(artifact(PROGRAMS["operators"]))
    with pytest.raises(AssertionError, match="too many rows"):
        call(torch.zeros(65, 4), torch.zeros(65, 4))
    with pytest.raises(AssertionError, match=r"x is not f32\[s0, 4\]"):
        call(torch.zeros(4, 5).t(), torch.zeros(5, 4))


# --- what it refuses ---------------------------------------------------------------------------------------------


def test_the_list_is_complete(tiny: Emitter[str]) -> None:
    """Refused and written steps make up the union; the programs above use all written ones."""
    refused = set(module().REFUSED)
    used = {
        type(step)
        for body in PROGRAMS.values()
        for step in lower(artifact(body), LoweringOptions(hoist_windows=False)).main.steps
    }
    assert {cls.__name__ for cls in refused} == set(REFUSED)
    assert refused == set(get_args(module().Refused))
    assert refused.isdisjoint(used)
    assert refused | used | {Launch} == set(STEPS)


@pytest.mark.parametrize("name", REFUSED)
def test_refusals_name_the_step_the_place_and_the_way_out(name: str, tiny: Emitter[str]) -> None:
    event = "%e = record_event @cpu\n" if "%e" in REFUSED[name] and "record" not in REFUSED[name] else ""
    head = HEAD.replace("target cpu", "target cuda:0") if name in ON_A_DEVICE else HEAD
    callees = CALLEES.split("func")
    text = f"{head}{callees[0]}func @main(%x: f32[8], %y: f32[8]) {{\n{event}{REFUSED[name]}\nreturn\n}}\n"
    program = wrapper_ir.parse_program(text + "func" + "func".join(callees[1:]))
    options = LoweringOptions(persistent_buffers=name != "ResizeBlock", keep_windows=True)
    plan = lower(bare_artifact(program), options)
    step = next(step for step in plan.main.steps if type(step).__name__ == name)
    error = module().refusal(step)
    assert isinstance(error, NotSupportedError)
    assert error.code == "TINY101"
    assert name in error.message
    assert module().REFUSED[type(step)] in error.message
    assert error.hint


def test_a_refused_program_raises(tiny: Emitter[str]) -> None:
    art = artifact("\nfunc @main(%x: f32[8]) {\n  debug print %x\n  return\n}\n")
    with pytest.raises(NotSupportedError, match=r"TINY101.*ShowValue.*\n.*hint"):
        tiny.emit(art)


def test_other_devices_are_refused(tiny: Emitter[str]) -> None:
    text = "wir 0.5\ntarget cuda:0\n\nfunc @main(%x: f32[8]) {\n  drop %x\n  return\n}\n"
    with pytest.raises(NotSupportedError, match=r"TINY102.*%x on cuda:0"):
        tiny.emit(bare_artifact(wrapper_ir.parse_program(text)))


def test_it_has_the_methods_of_the_protocol(tiny: Emitter[str]) -> None:
    for member in (*get_type_hints(Emitter), "emit", "write", "compile"):
        assert hasattr(tiny, member)
    assert tiny.name == "tiny"


def test_a_captured_model_runs(tiny: Emitter[str]) -> None:
    """The whole way, kernels and constants included, with a batch that was not seen at capture."""
    import inductor_frontend

    torch.manual_seed(0)
    model = torch.nn.Sequential(
        torch.nn.Linear(8, 16), torch.nn.GELU(), torch.nn.LayerNorm(16), torch.nn.Linear(16, 4)
    ).eval()
    batch = torch.export.Dim("batch", min=2, max=64)
    art = inductor_frontend.capture(model, (torch.randn(6, 8),), dynamic_shapes=({0: batch},))
    x = torch.randn(11, 8)
    with torch.no_grad():
        torch.testing.assert_close(tiny.compile(art)(x), model(x))


def random_inputs(seed: int) -> list[Any]:
    """Flat arguments of a random program."""
    g = torch.Generator().manual_seed(seed)
    return [
        torch.randn(5, 8, generator=g),
        torch.randn(4, 4, generator=g),
        3,
        torch.randn(16, generator=g),
        torch.tensor(True),
    ]


def test_random_programs_compute_the_same_or_are_refused(tiny: Emitter[str]) -> None:
    compared = 0
    for seed in range(100):
        art = random_artifact(random.Random(seed), 4, RandomOptions(executable=True))
        try:
            call = tiny.compile(art)
        except NotSupportedError as error:
            assert error.code == "TINY101"
            continue
        want = Interpreter(art, py_wrapper.TORCH_MACHINE)(*random_inputs(seed))
        for a, b in zip(call(*random_inputs(seed)), want, strict=True):
            if isinstance(b, torch.Tensor):
                assert torch.equal(a.nan_to_num(), b.nan_to_num()), seed
            else:
                assert a == b or (a != a and b != b), seed
        compared += 1
    assert compared > 20
