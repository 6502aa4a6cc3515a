"""Configs derived from registers; a tuner measures them beside the listed ones."""

from __future__ import annotations

import dataclasses
from pathlib import Path

import pytest
from packages.triton_runtime.tests.compiling import MemoryStore
from packages.triton_runtime.tests.triton_texts import kernel_of
from packages.triton_runtime.tests.tuning import ARGS, BLOCKS, HERE, Lab, config, kernel

from triton_runtime.compile.service import CompileStats, Workers
from triton_runtime.fake import FakeDriver
from triton_runtime.loading import Compiler, Loader
from triton_runtime.tune import TimingCache, TuneOptions, Tuner, config_key
from triton_runtime.tune.derive import MULTIPROCESSORS, scaled
from wrapper_ir import ir

H100 = MULTIPROCESSORS[90]
FACTS = ir.LaunchFacts(symbol="k", num_warps=8, warp_size=32, registers=64, local_bytes=0)
ROWS = ("x", 65536)


def reduction(**meta: int) -> ir.TritonConfig:
    return ir.TritonConfig(meta=tuple(meta.items()), num_warps=8, num_stages=1)


@pytest.mark.parametrize(
    ("meta", "facts", "rows", "want"),
    [
        ({"XBLOCK": 1, "R0_BLOCK": 2048}, {}, 65536, {"XBLOCK": 1, "R0_BLOCK": 1024}),
        (
            {"XBLOCK": 1, "R0_BLOCK": 64, "R1_BLOCK": 32},
            {},
            65536,
            {"XBLOCK": 1, "R0_BLOCK": 32, "R1_BLOCK": 32},
        ),
        ({"XBLOCK": 1, "R0_BLOCK": 2048}, {"registers": 32}, 65536, None),  # all threads fit
        ({"XBLOCK": 1, "R0_BLOCK": 2048}, {"registers": None}, 65536, None),
        ({"XBLOCK": 1, "R0_BLOCK": 64}, {}, 65536, None),  # small
        ({"XBLOCK": 256, "R0_BLOCK": 2048}, {}, 65536, None),  # 256 programs run at once
        ({"XBLOCK": 1, "R0_BLOCK": 2048}, {}, 528, None),  # 4 for each of 132 multiprocessors
        ({"XBLOCK": 1, "R0_BLOCK": 2048}, {}, 529, {"XBLOCK": 1, "R0_BLOCK": 1024}),
        ({"XBLOCK": 128}, {}, 65536, None),  # reduces nothing
    ],
)
def test_blocks_are_halved_where_registers_leave_multiprocessors_idle(
    meta: dict[str, int], facts: dict[str, int | None], rows: int, want: dict[str, int] | None
) -> None:
    owner = kernel(reduction(**meta))
    owner = dataclasses.replace(owner, size_hints=(("x", rows), ("r0_", 4096)))
    result = scaled(owner, owner.configs[0], dataclasses.replace(FACTS, **facts), H100)  # type: ignore[arg-type]  # a table
    assert (None if result is None else dict(result.meta)) == want


SUMS = """
@triton.jit
def sums(x_ptr, out_ptr, n, XBLOCK: tl.constexpr, R0_BLOCK: tl.constexpr):
    row = tl.program_id(0)
    at = tl.arange(0, R0_BLOCK)
    total = tl.zeros([R0_BLOCK], tl.float32)
    for start in range(0, n, R0_BLOCK):
        x = tl.load(x_ptr + row * n + start + at, mask=start + at < n, other=0.0)
        total += tl.exp(x) * tl.sin(x)
    tl.store(out_ptr + row, tl.sum(total, 0))
"""
CLAUSES = """
  order(x_ptr, out_ptr, n, XBLOCK, R0_BLOCK)
  configs({XBLOCK = 1, R0_BLOCK = 4096} warps(4) stages(1), {XBLOCK = 1, R0_BLOCK = 128} warps(4) stages(1))
  grid(rows) over(rows)
  derive(scaled_reduction)
  hints(x = 65536, r0_ = 65536)
"""


def test_from_what_the_compiler_says(tmp_path: Path) -> None:
    """Compiled for an absent device: 32 elements per thread use many registers, 1 uses few."""
    owner = kernel_of("read f32* x_ptr, write f32* out_ptr, i32 n", CLAUSES, SUMS, entry="sums")
    stats = CompileStats()
    compiler = Compiler(
        target=ir.Target(device=ir.Device("cuda", 0), arch="sm_90"),
        store=MemoryStore(),
        folder=tmp_path,
        stats=stats,
        workers=Workers(),
    )
    loader = Loader(compiler, FakeDriver(needs_binary=True))
    [derived] = loader.derived(owner)
    assert dict(derived.meta) == {"XBLOCK": 1, "R0_BLOCK": 2048}
    assert Loader(compiler, FakeDriver()).derived(owner) == []
    assert stats.compiled == 2
    loader.load_each([dataclasses.replace(owner, configs=(c,)) for c in (*owner.configs, derived)])
    assert stats.compiled == 3  # nothing is compiled twice


def test_derived_configs_are_measured_recorded_and_found_again() -> None:
    lab = Lab({64: 3.0, 128: 2.0, 256: 4.0, 512: 1.0})

    def derive(owner: ir.TritonKernel) -> list[ir.TritonConfig]:
        return [config(512)]

    owner = kernel(*BLOCKS, derive=(ir.Derivation.SCALED_REDUCTION,))
    tuner = Tuner(lab.load_each, lab.clock, TimingCache(HERE), derive=derive)
    assert tuner.choose(owner, ARGS) == config(512)
    [entry] = tuner.timings.measurements.entries.values()
    assert entry.order[-1] == config_key(config(512))
    again = Tuner(lab.load_each, lab.clock, TimingCache(HERE, measurements=tuner.timings.measurements))
    measured = lab.clock.measured
    assert again.choose(owner, ARGS) == config(512)
    assert lab.clock.measured == measured
    # without the rule nothing is derived
    assert (
        Tuner(lab.load_each, lab.clock, TimingCache(HERE), derive=derive).choose(kernel(*BLOCKS), ARGS)
        == BLOCKS[1]
    )


def test_descent_goes_on_from_derived_configs() -> None:
    lab = Lab({256: 4.0, 512: 2.0, 1024: 1.0, 2048: 3.0})
    owner = kernel(BLOCKS[2], derive=(ir.Derivation.SCALED_REDUCTION, ir.Derivation.COORDINATE_DESCENT))
    options = TuneOptions(descent=True)
    tuner = Tuner(
        lab.load_each, lab.clock, TimingCache(HERE), derive=lambda k: [config(512)], options=options
    )
    assert tuner.choose(owner, ARGS) == config(1024)
