"""Tunes whole programs, replays the choices elsewhere, and runs the results."""

from __future__ import annotations

import dataclasses
from pathlib import Path
from typing import Any

import pytest
import torch
from click.testing import CliRunner

import py_wrapper
from py_wrapper import TORCH_MACHINE
from triton_runtime import TritonOptions, TritonRuntime
from triton_runtime.choose import ChoiceOptions
from triton_runtime.errors import TuningError
from triton_runtime.programs import replay_artifact
from triton_runtime.settings import read_settings
from triton_runtime.tune import (
    Entry,
    Measurements,
    MeasureOptions,
    TuneOptions,
    TuningKey,
    config_key,
    measurements_of,
)
from wrapper_ir import ir, load, parse_program, print_program, save, verify
from wrapper_ir.artifact import Artifact, bare_artifact
from wrapper_ir.json.kernel_hash import content_hash, multi_hash
from wrapper_ir_passes.tuning.tuning_programs import tuning_programs
from wrapper_ir_runtime.interp import example_inputs, run
from wrapper_ir_tools.cli.main import main
from wrapper_ir_tools.explain import explain_program

KERNEL = """
kernel triton @{name} entry "{name}" (read f32* x, read i64* at, write f32* out, i64 n)
  order(x, at, out, n, BLOCK)
  configs({{BLOCK = 64}} warps(4) stages(1), {{BLOCK = 32}} warps(2) stages(1))
  grid(ceildiv(n, BLOCK))
  {{{{{{
import triton
import triton.language as tl

@triton.jit
def {name}(x, at, out, n, BLOCK: tl.constexpr):
    i = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    j = tl.load(at + i, mask=i < n, other=0)
    tl.device_assert((j >= 0) & (j < n))
    tl.store(out + i, tl.load(x + j, mask=i < n) + {add}, mask=i < n)
}}}}}}
"""
PROGRAM = (
    "wir 0.5\ntarget cpu\n\nsymbol s0 : int backed [2, 4096] hint 100\n"
    + KERNEL.format(name="first", add="1.0")
    + KERNEL.format(name="second", add="1.0 + 0.0")
    + """
kernel multi @either choose measure (read f32* x, read i64* at, write f32* out, i64 n)
  variants(
    @first(0, 1, 2, 3),
    @second(0, 1, 2, 3),
  )

func @main(%x: f32[s0], %at: i64[s0]) {
  define s0 = size(%x, 0)
  %a = alloc f32[s0]
  launch @first(%x, %at, %a, s0)
  drop %x
  %b = alloc f32[s0]
  launch @either(%a, %at, %b, s0)
  drop %at
  free %a.s
  return %b
}
"""
)
QUICK = TuneOptions(measure=MeasureOptions(rounds=2, trial=2))
CPU_AND_3 = ("some device", "3.7")


def artifact() -> Artifact:
    program = parse_program(PROGRAM)
    verify(program)
    return bare_artifact(program)


def runtime(folder: Path) -> TritonRuntime:
    settings = read_settings({"WRAPPER_IR_CACHE_DIR": str(folder)})
    return TritonRuntime(options=TritonOptions(tune=QUICK), settings=settings)


def check(tuned: Artifact) -> None:
    """No choice remains, and the program computes the same results."""
    verify(tuned)
    assert not tuning_programs(tuned.program)
    assert not [k for k in tuned.program.kernels if isinstance(k, ir.MultiKernel)]
    x, at = torch.randn(70), torch.arange(70).flip(0)
    for call in (py_wrapper.compile(tuned).boxed, lambda args: run(tuned, args, TORCH_MACHINE)):
        [result] = call([x, at])
        torch.testing.assert_close(result, x + 2)


def test_reduced_programs_run() -> None:
    """With generated inputs: indices are in range, or the kernels would fail."""
    for one in tuning_programs(artifact().program):
        inputs = example_inputs(one.program, TORCH_MACHINE, 0, {})
        assert run(one.program, [*inputs], TORCH_MACHINE) == ()
        assert py_wrapper.compile(bare_artifact(one.program)).boxed([*inputs]) == ()


def test_tuned_without_inputs(tmp_path: Path) -> None:
    tuned = runtime(tmp_path).tune(artifact(), machine=TORCH_MACHINE)
    check(tuned)
    measurements = measurements_of(tuned)
    assert sorted(key.numbers for key in measurements.entries) == [(), (100,), (100,)]
    assert all(all(entry.times.values()) for entry in measurements.entries.values())

    save(tuned, tmp_path / "tuned.wir")
    again = load(tmp_path / "tuned.wir")
    assert again.program == tuned.program
    assert measurements_of(again) == measurements


def test_tuned_on_inputs_that_are_left_as_they_are(tmp_path: Path) -> None:
    inputs = [torch.randn(50), torch.arange(50)]
    before = inputs[0].clone()
    tuned = runtime(tmp_path).tune(artifact(), machine=TORCH_MACHINE, inputs=inputs, symbols={"s0": 50})
    check(tuned)
    assert sorted(key.numbers for key in measurements_of(tuned).entries) == [(), (50,), (50,)]
    assert torch.equal(inputs[0], before)


def test_a_replay_needs_no_device_and_is_always_the_same(tmp_path: Path) -> None:
    tuned = runtime(tmp_path).tune(artifact(), machine=TORCH_MACHINE)
    texts = set()
    for _ in range(2):
        replayed = TritonRuntime().tune(artifact(), others=[tuned])
        texts.add(print_program(replayed.program))
        assert measurements_of(replayed) == measurements_of(tuned)
    assert texts == {print_program(tuned.program)}


def entries(**changes: Any) -> Measurements:  # Any: parts of keys
    """Measurements that choose the second config of @first, and the second of the two kernels."""
    program = artifact().program
    kernels = {k.name: k for k in program.kernels}
    records = {}
    for name in ("first", "second", "either"):
        kernel = kernels[name]
        if isinstance(kernel, ir.TritonKernel):
            order, numbers = tuple(config_key(c) for c in kernel.configs), (100.0,)
            key = TuningKey(content_hash(kernel), *CPU_AND_3, numbers)
        else:
            assert isinstance(kernel, ir.MultiKernel)
            order, key = ("0", "1"), TuningKey(multi_hash(kernel, kernels), *CPU_AND_3)
        times = {order[0]: (2000,) * 5, order[1]: (1000,) * 5}
        records[dataclasses.replace(key, **changes)] = Entry(order=order, times=times)
    return Measurements(records)


def test_what_a_record_says() -> None:
    replayed = replay_artifact(artifact(), entries())
    assert [k.name for k in replayed.program.kernels] == ["first", "second"]
    assert [
        dict(c.meta) for k in replayed.program.kernels if isinstance(k, ir.TritonKernel) for c in k.configs
    ] == [{"BLOCK": 32}, {"BLOCK": 32}]
    assert "launch @second(%a, %at, %b, s0)" in print_program(replayed.program)


def test_choices_are_explained_with_their_times() -> None:
    replayed = replay_artifact(artifact(), entries())
    choices = {c.subject: c for c in explain_program(replayed).choices}
    assert sorted(choices) == ["@either", "@first", "@second"]
    first, either = choices["@first"], choices["@either"]
    assert first.why == "measured on some device: the fastest of 2"
    assert [(c.name, c.microseconds, c.chosen) for c in first.candidates] == [
        ("BLOCK=32 warps=2 stages=1", 1.0, True),
        ("BLOCK=64 warps=4 stages=1", 2.0, False),
    ]
    assert [(c.name, c.microseconds, c.chosen) for c in either.candidates] == [
        ("@second", 1.0, True),
        ("@first", 2.0, False),
    ]
    launched = {op.index: op.kernel for op in explain_program(replayed).ops if op.kind == "Launch"}
    assert [launched[n] for n in either.ops] == ["second"]
    again = replay_artifact(replayed, entries())
    assert again.extensions == replayed.extensions


def test_what_the_options_call_noise_decides_nothing() -> None:
    """The second config and the second kernel take half as long as the first."""
    for configs, kernels, names, block in ((0.9, 0.9, ["first", "second"], 32), (1.1, 1.1, ["first"], 64)):
        options = TritonOptions(
            measurements=entries(), tune=TuneOptions(noise=configs), choice=ChoiceOptions(noise=kernels)
        )
        choices = TritonRuntime(options=options).tune(artifact()).program.kernels
        assert [k.name for k in choices] == names
        assert [k.configs[0].meta for k in choices if isinstance(k, ir.TritonKernel)] == [
            (("BLOCK", block),)
        ] * len(names)


def test_what_an_artifact_carries_stays_with_its_kernels() -> None:
    text = PROGRAM.replace("launch @first(%x, %at, %a, s0)", "launch @second(%x, %at, %a, s0)")
    for source, names in ((PROGRAM, ["first", "second"]), (text, ["second"])):
        whole = bare_artifact(parse_program(source))
        binaries = tuple(
            ir.KernelBinary(
                runtime="triton",
                kernel=content_hash(k),
                target="cuda:sm_90",
                key=f"{i:063x}{j}",
                compiler="3.7",
                config=config,
                kind=ir.ImageKind.CUBIN,
                facts=ir.LaunchFacts(symbol="k", num_warps=config.num_warps, warp_size=32),
                params=(),
                image=b"",
            )
            for i, k in enumerate(whole.program.kernels)
            if isinstance(k, ir.TritonKernel)
            for j, config in enumerate(k.configs)
        )
        replayed = replay_artifact(dataclasses.replace(whole, binaries=binaries), entries())
        assert [k.name for k in replayed.program.kernels] == names
        assert [(b.kernel, (b.config,)) for b in replayed.binaries] == [
            (content_hash(k), k.configs) for k in replayed.program.kernels if isinstance(k, ir.TritonKernel)
        ], "only with the config that was chosen"


def test_the_launch_that_takes_longest_decides() -> None:
    text = PROGRAM.replace("launch @either(%a, %at, %b, s0)", "launch @first(%a, %at, %b, s0 - 1)")
    two = bare_artifact(parse_program(text))
    kernel = two.program.kernel("first")
    assert isinstance(kernel, ir.TritonKernel)
    keys = tuple(config_key(c) for c in kernel.configs)
    for long, short, want in ((100.0, 99.0, 0), (99.0, 100.0, 1)):
        measurements = Measurements(
            {
                TuningKey(content_hash(kernel), *CPU_AND_3, (100.0,)): Entry(
                    order=keys, times={keys[0]: (int(long),) * 5, keys[1]: (1000,) * 5}
                ),
                TuningKey(content_hash(kernel), *CPU_AND_3, (99.0,)): Entry(
                    order=keys, times={keys[0]: (1000,) * 5, keys[1]: (int(short),) * 5}
                ),
            }
        )
        replayed = replay_artifact(two, measurements).program.kernel("first")
        assert isinstance(replayed, ir.TritonKernel)
        assert replayed.configs == (kernel.configs[want],)


def test_without_a_record_nothing_is_chosen() -> None:
    whole = artifact()
    assert TritonRuntime().tune(whole).program == whole.program


def test_records_of_two_devices_are_refused() -> None:
    measurements = entries().merged(entries(device="another"))
    with pytest.raises(TuningError, match=r"(?s)TR605.*another.*some device"):
        replay_artifact(artifact(), measurements)


def test_a_launch_that_cannot_run_is_left_as_it_is(tmp_path: Path) -> None:
    """All other choices are made."""
    broken = bare_artifact(parse_program(PROGRAM.replace("def first(x", "def first(x, y")))
    with pytest.warns(RuntimeWarning, match=r"(?s)TR606.*@first is not tuned.*TR102"):
        tuned = runtime(tmp_path).tune(broken, machine=TORCH_MACHINE)
    first, second = (k for k in tuned.program.kernels if isinstance(k, ir.TritonKernel))
    assert (len(first.configs), len(second.configs)) == (2, 1)
    assert "launch @second(%a, %at, %b, s0)" in print_program(tuned.program)


def test_the_command(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    save(artifact(), tmp_path / "model.wir")
    measurements = entries()
    tuned = dataclasses.replace(artifact(), tuning={"triton": measurements.to_json()})
    save(tuned, tmp_path / "known.wir")
    monkeypatch.setenv("WRAPPER_IR_CACHE_DIR", str(tmp_path / "cache"))

    def wir(*args: str) -> str:
        process = CliRunner().invoke(main, ["tune", str(tmp_path / "model.wir"), *args])
        assert process.exit_code == 0, process.output
        return process.output

    assert "2 kernels" in wir(
        "--replay", "--measurements", str(tmp_path / "known.wir"), "-o", str(tmp_path / "a.wir")
    )
    assert load(tmp_path / "a.wir").program == replay_artifact(artifact(), measurements).program
    assert "kernels" in wir("--hint", "s0=40", "-o", str(tmp_path / "b.wir"))
    check(load(tmp_path / "b.wir"))
    assert (40,) in {key.numbers for key in measurements_of(load(tmp_path / "b.wir")).entries}


def test_the_command_says_what_is_wrong(tmp_path: Path) -> None:
    measurements = entries().merged(entries(device="another"))
    save(dataclasses.replace(artifact(), tuning={"triton": measurements.to_json()}), tmp_path / "two.wir")
    process = CliRunner().invoke(
        main, ["tune", str(tmp_path / "two.wir"), "--replay", "-o", str(tmp_path / "c.wir")]
    )
    assert process.exit_code == 2
    assert "WIR905" in process.output
    assert "TR605" in process.output
