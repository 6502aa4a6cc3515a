"""What torch's logs and profiles show of the backend, and the settings of Inductor's wrapper that the backend follows."""

from __future__ import annotations

import logging
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch
from torch._inductor import config as inductor_config
from torch._inductor.codecache import output_code_log
from torch._inductor.compile_fx import post_grad_graphs_log
from torch.profiler import ProfilerActivity, profile

from inductor_frontend import CaptureOptions
from inductor_frontend.backend import BackendOptions

SETTINGS = Path(__file__).parents[3] / "docs" / "inductor-settings.md"


def _compiled(**options: Any) -> Callable[[torch.Tensor], torch.Tensor]:  # Any: values of any option
    torch._dynamo.reset()
    return torch.compile(lambda x: torch.mm(x, x), backend="wrapper_ir", options={"cache": False, **options})


@pytest.mark.parametrize(
    ("log", "expected"), [(output_code_log, "def main"), (post_grad_graphs_log, "AFTER POST GRAD")]
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
    with profile(activities=[ProfilerActivity.CPU]) as seen:
        function(torch.ones(1, 1))
    return [event.name for event in seen.events() or ()]


def test_profiles_have_a_range_for_a_graph() -> None:
    found = [name for name in _ranges(_compiled()) if name.startswith("## Call CompiledFxGraph")]
    assert len(found) == 1
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
    known = inductor_config.get_config_copy()
    read = {name for name in known if f"config.{name}" in source.read_text()}
    table = SETTINGS.read_text()
    assert {name for name in read if f"`{name}`" not in table} == set()
