"""Logs and profiles of torch for the backend, and settings of Inductor's wrapper that the backend follows."""

from __future__ import annotations

import json
import logging
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch
from torch._inductor import config as inductor_config
from torch._inductor.async_compile import kernel_code_log
from torch._inductor.codecache import output_code_log
from torch._inductor.compile_fx import inductor_metrics_log, post_grad_graphs_log
from torch.profiler import ProfilerActivity, profile

from inductor_frontend import CaptureOptions
from inductor_frontend.backend import BackendOptions

SETTINGS = Path(__file__).parents[3] / "docs" / "inductor-settings.md"


def _compiled(**options: Any) -> Callable[[torch.Tensor], torch.Tensor]:  # Any: values of any option
    torch._dynamo.reset()
    return torch.compile(
        lambda x: torch.mm(x, x).relu(), backend="wrapper_ir", options={"cache": False, **options}
    )


@pytest.mark.parametrize(
    ("log", "expected"),
    [
        (output_code_log, "def main"),
        (post_grad_graphs_log, "AFTER POST GRAD"),
        (kernel_code_log, "CPP Kernel:\n"),
        (inductor_metrics_log, "Graph Metrics:\n{'num_bytes_accessed': "),
    ],
)
def test_logs(log: logging.Logger, expected: str, caplog: pytest.LogCaptureFixture) -> None:
    log.addHandler(caplog.handler)
    try:
        _compiled()(torch.ones(1, 1))
        assert expected not in caplog.text
        with caplog.at_level(logging.DEBUG, log.name):
            _compiled()(torch.ones(1, 1))
        assert expected in caplog.text
    finally:
        log.removeHandler(caplog.handler)


def _ranges(function: Callable[[torch.Tensor], torch.Tensor]) -> list[str]:
    function(torch.ones(1, 1))
    with profile(activities=[ProfilerActivity.CPU]) as profiler:
        function(torch.ones(1, 1))
    return [event.name for event in profiler.events() or ()]


def test_profiles_have_a_range_for_a_graph() -> None:
    ranges = [name for name in _ranges(_compiled()) if name.startswith("## Call CompiledFxGraph")]
    assert len(ranges) == 1
    assert not any("inductor_wrapper_call" in name for name in _ranges(_compiled()))
    with inductor_config.patch(profiler_mark_wrapper_call=True):
        assert any(name.endswith("_inductor_wrapper_call") for name in _ranges(_compiled()))


@pytest.mark.parametrize(
    ("setting", "option"),
    [
        ("size_asserts", "layout_asserts"),
        ("scalar_asserts", "scalar_asserts"),
        ("inplace_buffers", "inplace_kernels"),
    ],
)
def test_settings_are_followed_unless_options_are_given(setting: str, option: str) -> None:
    with inductor_config.patch({setting: False}):
        assert getattr(BackendOptions.parse({}).capture, option) is False
        assert getattr(BackendOptions.parse({option: True}).capture, option) is True
        assert getattr(CaptureOptions(), option) is True
    assert getattr(BackendOptions.parse({}).capture, option) is True


def test_checks_for_nan_are_followed() -> None:
    with inductor_config.patch(nan_asserts=True):
        compiled = _compiled()
        assert compiled(torch.ones(1, 1)).tolist() == [[1]]
        with pytest.raises(AssertionError, match=r"WIR922.*holds a NaN"):
            compiled(torch.full((1, 1), float("nan")))


def test_every_setting_of_the_wrapper_is_in_the_table() -> None:
    source = Path(inductor_config.__file__).with_name("codegen") / "wrapper.py"
    options = inductor_config.get_config_copy()
    read = {name for name in options if f"config.{name}" in source.read_text()}
    table = SETTINGS.read_text()
    assert {name for name in read if f"`{name}`" not in table} == set()


def _trained(reports: Path, cache: Path, passes: str = "") -> None:
    torch._dynamo.reset()
    model = torch.nn.Sequential(
        *(layer for _ in range(4) for layer in (torch.nn.Linear(8, 8), torch.nn.ReLU()))
    )
    options: dict[str, Any] = {"memory_report": reports, "cache": str(cache), "passes": passes}
    run = torch.compile(model, backend="wrapper_ir", dynamic=True, options=options)
    run(torch.ones(4, 8)).sum().backward()
    with torch.no_grad():
        run(torch.ones(4, 8))


def _pages(folder: Path) -> dict[str, dict[str, Any]]:  # Any: a report's JSON
    """Returns the data of the pages, by the kind of graph."""
    pages = {}
    for path in folder.iterdir():
        text = path.read_text()
        data = text.split('<script id="report" type="application/json">')[1].split("</script>")[0]
        pages[path.stem.rpartition("_")[2]] = json.loads(data)
    return pages


def test_memory_reports(tmp_path: Path) -> None:
    """There is a page for each graph, including graphs from the cache; sizes are those of the first call."""
    for folder in (tmp_path / "first" / "reports", tmp_path / "second"):
        _trained(folder, tmp_path / "cache")
    first, second = _pages(tmp_path / "first" / "reports"), _pages(tmp_path / "second")
    assert set(first) == {"forward", "backward", "inference"}
    assert first == second
    storages = first["inference"]["functions"][0]["storages"]
    assert {s["bytes"] for s in storages} == {4 * 8 * 4}
    assert first["inference"]["held_peak"] == 2 * 4 * 8 * 4


def test_memory_reports_are_of_the_planned_program(tmp_path: Path) -> None:
    _trained(tmp_path / "reports", tmp_path / "cache", "plan-memory")
    kinds = {
        s["kind"] for page in _pages(tmp_path / "reports").values() for s in page["functions"][0]["storages"]
    }
    assert "slot" in kinds


def test_memory_reports_that_cannot_be_written(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    with pytest.raises(Exception, match=r"FE103.*memory_report"):
        _compiled(memory_report=tmp_path / "file")(torch.ones(1, 1))
