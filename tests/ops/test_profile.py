"""Profiles of a program: ranges in torch's profiler from every emitter, and `wir profile`."""

from __future__ import annotations

import csv
import json
from importlib.resources import files
from pathlib import Path
from typing import Any

import pytest
import torch
from click.testing import CliRunner
from jsonschema import Draft202012Validator
from torch import Tensor, nn

import inductor_frontend
import wrapper_ir
from py_wrapper import TORCH_MACHINE
from tests.ops.debug_engines import engines
from wrapper_ir import ir, parse_program, print_program
from wrapper_ir.artifact import Artifact, bare_artifact
from wrapper_ir_passes import run_on_artifact, run_pipeline
from wrapper_ir_tools.cli.main import main
from wrapper_ir_tools.profile import bandwidth, profile_artifact, profile_json

LOOP = """wir 0.5
target cpu

extern "aten::lt.Scalar(Tensor self, Scalar other) -> Tensor"
extern "aten::sum(Tensor self, *, ScalarType? dtype=None) -> Tensor"

kernel cpp @twice entry "kernel" (read f32* source, write f32* target, i64 count) {{{
#include <cstdint>
extern "C" void kernel(const float* source, float* target, const int64_t count)
{
    for (int64_t i = 0; i < count; ++i) target[i] = 2 * source[i];
}
}}}

func @main(%x: f32[1000]) {
  %a = call aten::sum(%x) : f32[]  #1
  free %a
  %b = while @small do @step carried(%x) : f32[1000]
  %c = alloc f32[1000]
  copy %c, %b
  free %b
  return %c
}

func @small(%v: f32[1000]) {
  %t = call aten::sum(%v) : f32[]
  %r = call aten::lt.Scalar(%t, 16000.0) : bool[]
  free %t
  return %r
}

func @step(%v: f32[1000]) {
  %y = alloc f32[1000]
  launch @twice(%v, %y, 1000) extents(4000, 4000)  #2
  return %y
}

provenance
  #1 ops("aten.sum.default") at("model.py:3")
  #2 ops("aten.mul.Tensor") at("model.py:7") modules("layers.0.scale")
"""


class Model(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.linear = nn.Linear(16, 16)

    def forward(self, x: Tensor) -> Tensor:
        return torch.relu(self.linear(x)) + 1


def captured() -> Artifact:
    return inductor_frontend.capture(Model().eval(), (torch.randn(4, 16),))


def test_ranges_in_the_profiler_of_every_emitter(tmp_path: Path) -> None:
    artifact = run_on_artifact(captured(), "profile-ranges")
    names = {op.kernel for op in artifact.program.main.body if hasattr(op, "kernel")} | {"aten::addmm.out"}
    made = engines(artifact, tmp_path)
    for engine in ("python", "fx", "cpp"):
        with torch.profiler.profile(
            activities=[torch.profiler.ProfilerActivity.CPU], record_shapes=True
        ) as seen:
            made[engine](torch.randn(4, 16))
        trace = tmp_path / f"{engine}.json"
        seen.export_chrome_trace(str(trace))  # the form that Perfetto reads
        events = json.loads(trace.read_text())["traceEvents"]
        ranges = [e["name"] for e in events if e.get("cat") == "user_annotation"]
        assert names <= set(ranges), engine


def test_ranges_name_the_source() -> None:
    text = print_program(run_pipeline(parse_program(LOOP), "profile-ranges"))
    assert '  enter_profile "twice" "wir ops aten.mul.Tensor; at model.py:7; in layers.0.scale"  #' in text
    assert text.count("enter_profile") == text.count("exit_scope") == 4
    again = run_pipeline(parse_program(text), "profile-ranges")
    assert print_program(again) == text


def test_no_ranges_without_calls_are_the_same_object() -> None:
    program = parse_program("wir 0.5\ntarget cpu\n\nfunc @main(%x: f32[2]) {\n  return %x\n}\n")
    assert run_pipeline(program, "profile-ranges") is program


def test_a_profile_counts_runs_and_bytes() -> None:
    found = profile_artifact(bare_artifact(parse_program(LOOP)), TORCH_MACHINE)
    rows = {(op.function, op.name): op for op in found.ops}
    twice = rows["step", "twice"]
    trips = twice.count
    assert rows["small", "aten::sum"].count == trips + 1
    assert (twice.bytes, twice.source, twice.modules) == (8000 * trips, ("model.py:7",), ("layers.0.scale",))
    assert rows["main", "aten::sum"].bytes == 4004
    assert rows["main", ""].bytes == 8000
    assert rows["main", ""].op == "Copy"
    assert all(op.seconds > 0 and op.device_seconds is None for op in found.ops)
    assert sum(op.seconds for op in found.ops) < found.seconds * 1.5
    share = twice.bytes / twice.seconds / found.limits["cpu"]
    assert twice.share == pytest.approx(share)
    assert [found.ops[s.op].name for s in found.spans].count("twice") == trips
    assert all(a.begin <= b.begin for a, b in zip(found.spans, found.spans[1:]))


def test_a_profile_has_its_schema() -> None:
    schema = json.loads(
        (files("wrapper_ir_tools") / "schema" / "profile.schema.json").read_text(encoding="utf-8")
    )
    Draft202012Validator.check_schema(schema)
    data = json.loads(profile_json(profile_artifact(bare_artifact(parse_program(LOOP)), TORCH_MACHINE)))
    Draft202012Validator(schema).validate(data)


def test_the_limit_is_measured() -> None:
    assert 1e8 < bandwidth(TORCH_MACHINE, ir.CPU) < 1e13


def test_the_command(tmp_path: Path) -> None:
    stored = tmp_path / "m.wir"
    wrapper_ir.save(captured(), stored)
    outputs = [tmp_path / name for name in ("p.json", "trace.json", "tables")]
    args = [
        "profile",
        str(stored),
        "--calls",
        "2",
        "-o",
        str(outputs[0]),
        "--trace",
        str(outputs[1]),
        "--metrics",
        str(outputs[2]),
    ]
    done = CliRunner().invoke(main, args, catch_exceptions=False)
    assert done.exit_code == 0
    assert "aten::addmm.out" in done.output
    assert "limit of a copy: cpu " in done.output
    data = json.loads(outputs[0].read_text())
    slices: list[dict[str, Any]] = json.loads(outputs[1].read_text())["traceEvents"]
    module = next(s for s in slices if s["name"] == "linear")
    addmm = next(s for s in slices if s["name"] == "aten::addmm.out")
    assert module["ts"] <= addmm["ts"] <= addmm["ts"] + addmm["dur"] <= module["ts"] + module["dur"] + 1e-3
    assert "test_profile.py:" in addmm["args"]["source"]
    rows = list(csv.DictReader((outputs[2] / "metric_table_kernel_metadata.csv").open()))
    assert [row["kernel_name"] for row in rows] == [op["name"] for op in data["ops"] if op["op"] == "Launch"]
    kernels = wrapper_ir.load(stored).program.kernels
    assert [row["num_args"] for row in rows] == [str(len(k.params)) for k in kernels]
    assert rows[0]["model_name"] == "m.wir"


def test_metric_tables_have_inductors_columns(tmp_path: Path) -> None:
    from torch._inductor.metrics import REGISTERED_METRIC_TABLES

    from wrapper_ir_tools.profile import write_metric_tables

    artifact = bare_artifact(parse_program(LOOP))
    for path in write_metric_tables(
        artifact.program, profile_artifact(artifact, TORCH_MACHINE), tmp_path, "m"
    ):
        with path.open() as file:
            header = next(csv.reader(file))
        theirs = REGISTERED_METRIC_TABLES[path.stem.removeprefix("metric_table_")].column_names
        assert header == ["model_name", *theirs]
