"""A capture leaves nothing behind: no option, no registration, no random state; not when it fails, nor when several
run at once."""

from __future__ import annotations

import concurrent.futures
from typing import Any

import pytest
import torch
from torch._functorch import config as functorch_config
from torch._inductor import config as inductor_config
from torch._inductor.codegen import common

from inductor_frontend import CaptureError, CaptureOptions, capture
from inductor_frontend.isolation import capture_session
from wrapper_ir.interp import call
from wrapper_ir.registry import machine


def state() -> tuple[Any, ...]:
    """What a capture could change in the process."""
    return (
        inductor_config.get_config_copy(),
        functorch_config.get_config_copy(),
        {k: v.wrapper_codegen for k, v in common.device_codegens.items()},
        torch.get_rng_state().tolist(),
        torch.is_grad_enabled(),
        torch.get_num_threads(),
        torch.get_default_dtype(),
    )


def test_success_leaves_the_process_alone() -> None:
    model = torch.nn.Sequential(torch.nn.Linear(4, 4), torch.nn.Dropout())
    capture(model, (torch.randn(2, 4),))  # upstream registers its own backends once
    before = state()
    capture(model, (torch.zeros(2, 4),))
    assert state() == before


def test_failure_leaves_the_process_alone() -> None:
    def function(x: torch.Tensor) -> Any:
        return torch.cond(x.sum() > 0, torch.sin, torch.cos, (x,))

    capture(torch.sin, (torch.zeros(2),))
    before = state()
    with pytest.raises(CaptureError):
        capture(function, (torch.zeros(2),))
    assert state() == before


def test_interruption_leaves_the_process_alone(monkeypatch: pytest.MonkeyPatch) -> None:
    capture(torch.sin, (torch.zeros(2),))
    before = state()

    def interrupt(*args: object) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr("inductor_frontend.frontend.build_program", interrupt)
    with pytest.raises(KeyboardInterrupt):
        capture(torch.sin, (torch.zeros(2),))
    assert state() == before


def test_options_of_the_process_do_not_matter() -> None:
    x = torch.randn(3, 4)
    model = torch.nn.Sequential(torch.nn.Linear(4, 4), torch.nn.ReLU())
    plain = capture(model, (x,)).program
    with inductor_config.patch(
        {"freezing": True, "memory_planning": True, "graph_partition": True, "cpp_wrapper": True}
    ):
        assert capture(model, (x,)).program == plain


def test_options_hold_only_inside() -> None:
    before = inductor_config.inplace_buffers
    with capture_session(CaptureOptions(inplace_kernels=False)):
        assert not inductor_config.inplace_buffers
        assert not functorch_config.enable_autograd_cache
    assert inductor_config.inplace_buffers == before


def test_captures_in_several_threads() -> None:
    def one(width: int) -> tuple[int, bool]:
        torch.manual_seed(width)
        model, x = torch.nn.Linear(width, width), torch.randn(2, width)
        with torch.no_grad():
            artifact = capture(model, (x,))
            same = torch.allclose(call(artifact, machine("torch"), (x,)), model(x), atol=1e-5)
        return width, same

    with concurrent.futures.ThreadPoolExecutor(4) as pool:
        assert list(pool.map(one, range(3, 9))) == [(w, True) for w in range(3, 9)]
