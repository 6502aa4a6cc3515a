"""The benchmark against other runtimes: its figures, its drivers' protocol, and what it compares with."""

from __future__ import annotations

import math
import subprocess
from pathlib import Path

import pytest
import torch
from torch import nn

from tools.bench.native.checks import proportional_kilobytes, weight_kilobytes
from tools.bench.native.drivers import DRIVERS, TOGETHER
from tools.bench.native.environment import VERSIONS, export_environment, install, requirements
from tools.bench.native.exports import KINDS, weight_bytes, write_case
from tools.bench.native.figures import MIB, TOLERANCES, beyond_weights, geometric_mean, is_right, over_best
from tools.bench.native.forms import FORMS, make
from tools.bench.native.models import MODELS, BenchModel
from tools.bench.native.processes import Command, Server, parse_answer, run_driver
from tools.bench.native.sides import FORM_SIDES, SIDES, Side, reason, shipped_bytes
from tools.bench.native.together import titles

_SOURCES = Path("tools/bench/native").resolve()


def test_ratios_are_of_the_best_other_side() -> None:
    times = {"a": 2.0, "b": 3.0, "ours": 1.0}
    assert over_best(times, "ours") == 0.5
    assert over_best(times, "b") == 3.0
    assert math.isnan(over_best(times, "c"))
    assert math.isnan(over_best({"ours": 1.0}, "ours"))
    assert geometric_mean([0.5, 2.0]) == pytest.approx(1.0)
    assert math.isnan(geometric_mean([]))


def test_results_are_compared_by_their_magnitude() -> None:
    assert is_right(0.9e-4, 0.1)
    assert not is_right(1.1e-4, 0.1)
    assert is_right(1e-2, 1000.0)
    assert not is_right(math.nan, 1.0)


def test_memory_beyond_weights() -> None:
    assert beyond_weights({"resident": 50 * 1024, "file": 45 * 1024, "mapped": 90 * 1024}) == 5 * MIB
    maps = (
        "7f00-7f10 r-xp 00000000 00:01 7  /m/a.so\nRss: 4 kB\nPss: 1 kB\n"
        "10000000-20000000 rw-p 00010000 00:01 7  /m/a.so\nRss: 80 kB\nPss: 10 kB\nPss_Dirty: 0 kB\n"
        "20000000-30000000 rw-p 00000000 00:00 0\nRss: 9 kB\nPss: 9 kB\n"
    )
    assert weight_kilobytes(maps, "a.so") == (80, 10)
    assert proportional_kilobytes("Rss: 9 kB\nPss:   7 kB\nPss_Dirty: 1 kB\n") == 7


def test_bytes_that_are_shipped(tmp_path: Path) -> None:
    (tmp_path / "m.pte").write_bytes(b"x" * 100)
    (tmp_path / "case.txt").write_bytes(b"x" * 1000)
    library = tmp_path / "libruntime.so"
    library.write_bytes(b"x" * 30)
    side = Side("driver", (), ("*.pte",))
    libraries = [library, Path("/lib/libc.so.6")]
    assert shipped_bytes(tmp_path, side, libraries, 90, [tmp_path / "other"]) == 10
    assert shipped_bytes(tmp_path, side, libraries, 90, [tmp_path / "other", tmp_path]) == 10 + 30


def test_packages_have_fixed_versions(tmp_path: Path) -> None:
    assert requirements() == [f"{name}=={version}" for name, version in VERSIONS.items()]
    (tmp_path / "installed.txt").write_text("\n".join(requirements()))
    install(tmp_path)  # nothing to do
    variables = export_environment(tmp_path, tmp_path / "caches")
    assert variables["PYTHONPATH"].endswith(str(tmp_path))
    assert variables["WRAPPER_IR_CACHE_DIR"] == str(tmp_path / "caches" / "wir")


def test_every_side_has_a_driver() -> None:
    tables = (SIDES, *FORM_SIDES.values())
    every = [side for table in tables for side in table.values()]
    assert all(side.driver in DRIVERS and (_SOURCES / f"{side.driver}.cpp").is_file() for side in every)
    assert {kind.removesuffix("_float") for side in every for kind in side.exports} <= {*KINDS}
    assert {*FORMS} == {*FORM_SIDES} == {*TOLERANCES} - {""}
    assert len({entry.title for entry in MODELS.values()}) == len(MODELS)
    assert len(titles()) == len(TOGETHER)


def test_why_an_export_failed() -> None:
    log = "Traceback:\n  File\ncpp_wrapper.errors.EmitError: [CPP502] lacks it\n  hint: none\n"
    assert reason(log) == "EmitError: [CPP502] lacks it"
    assert reason("Killed\n") == ""


def test_a_model_in_bfloat16() -> None:
    plain, inside = make("mlp"), make("mlp.bf16")
    (want,), (found,) = plain.module(*plain.args), inside.module(*inside.args)
    assert found.dtype == torch.float32
    assert {p.dtype for p in inside.module.parameters()} == {torch.bfloat16}
    assert is_right((want - found).abs().max().item(), want.abs().max().item(), TOLERANCES["bf16"])
    assert make("mlp.bf16", in_form=False).args[0].dtype == torch.float32


class Sum(nn.Module):
    def forward(self, x: torch.Tensor, ids: torch.Tensor) -> tuple[torch.Tensor]:
        return (x + ids,)


_DRIVER = """
#include "side.h"
struct Sum final : side::Call {
  explicit Sum(side::Case& given) : given_(given), found_(given.outputs.at(0).count()) {}
  void run() override {
    const auto* x = reinterpret_cast<const float*>(given_.inputs.at(0).bytes.data());
    const auto* ids = reinterpret_cast<const int64_t*>(given_.inputs.at(1).bytes.data());
    for (size_t i = 0; i < found_.size(); ++i) found_[i] = x[i] + static_cast<float>(ids[i]);
  }
  const float* output(size_t) override { return found_.data(); }
  side::Case& given_;
  std::vector<float> found_;
};
struct Sums final : side::Model {
  std::unique_ptr<side::Call> call(side::Case& given) override { return std::make_unique<Sum>(given); }
};
std::unique_ptr<side::Model> OPEN_SIDE(const std::string& path, int, side::Case&) {
  if (path != "sum") throw std::runtime_error("no such model");
  return std::make_unique<Sums>();
}
"""


@pytest.mark.slow
def test_a_driver(tmp_path: Path) -> None:
    """Every command of `side.h`, of a driver that adds."""
    write_case(BenchModel(Sum(), (torch.randn(2, 3), torch.arange(6).view(2, 3))), tmp_path)
    (tmp_path / "driver.cpp").write_text(_DRIVER)
    driver = tmp_path / "driver"
    build = [
        "g++",
        "-std=c++17",
        "-pthread",
        f"-I{_SOURCES}",
        str(tmp_path / "driver.cpp"),
        "-o",
        str(driver),
    ]
    subprocess.run(build, check=True)
    command = Command(driver, Path("sum"), tmp_path, {})
    first = run_driver(command, 1, "first")
    assert first.numbers["difference"] == 0.0
    assert 0 < first.numbers["wall"] - first.numbers["began"] < 60e9
    assert any("libc" in library.name for library in first.libraries)
    with Server(command, 1) as server:
        assert server.ask("check")["magnitude"] > 3
        assert server.ask("time 100000")["calls"] >= 1
    with Server(command, 1, "hold") as server:
        assert server.answer()["difference"] == 0.0
    assert run_driver(command, 1, "share", "4", "50").numbers["different"] == 0.0
    assert run_driver(command, 1, "reload", "20").numbers["before"] > 0
    missing = Command(driver, Path("other"), tmp_path, {})
    with pytest.raises(RuntimeError, match="no such model"):
        run_driver(missing, 1, "first")
    with Server(missing, 1) as server, pytest.raises(RuntimeError, match="no such model"):
        server.ask("check")


def test_an_answer() -> None:
    assert parse_answer("calls=3 wall=1.5e3\n") == {"calls": 3.0, "wall": 1500.0}


class Tied(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.first = nn.Linear(4, 4, bias=False)
        self.second = nn.Linear(4, 4, bias=False)
        self.second.weight = self.first.weight
        self.unused = nn.Linear(9, 9)
        self.register_buffer("shift", torch.ones(4))

    def forward(self, x: torch.Tensor) -> tuple[torch.Tensor]:
        return (self.second(self.first(x)) + self.shift,)


def test_weights_are_counted_once_if_they_are_read() -> None:
    model = Tied().eval().requires_grad_(requires_grad=False)
    assert weight_bytes(BenchModel(model, (torch.randn(2, 4),))) == 4 * (16 + 4)
