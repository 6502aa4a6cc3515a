"""A capture leaves no option, registration or random state behind, even if it fails or several run at
once."""

from __future__ import annotations

import concurrent.futures
import copy
import sys
import threading
import warnings
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from types import FrameType
from typing import Any

import pytest
import torch
from packages.inductor_frontend.tests.process_state import (
    configurations,
    registrations,
    torch_contexts,
    unchanged,
)
from torch import nn
from torch._functorch import config as functorch_config
from torch._inductor import config as inductor_config
from torch._subclasses.fake_tensor import FakeTensorMode
from torch._subclasses.functional_tensor import FunctionalTensorMode
from torch.fx.experimental.proxy_tensor import ProxyTorchDispatchMode
from torch.utils._python_dispatch import TorchDispatchMode, _get_current_dispatch_mode_stack

from inductor_frontend import CaptureError, CaptureOptions, capture
from inductor_frontend.session import capture_session
from wrapper_ir.artifact import Artifact
from wrapper_ir.plugins.registry import machine
from wrapper_ir_runtime.interp import call

Models = dict[int, tuple[nn.Module, tuple[torch.Tensor, ...]]]


"""State of the process that a capture could change."""


@pytest.fixture(scope="module", autouse=True)
def _warm() -> None:
    """Triggers registrations of torch before the test.

    Inductor registers backends and loggers in its first compilations. torch.export before 2.13 registers a
    logger in its first failure.
    """
    for _ in range(2):
        capture(*small())
    with pytest.raises(CaptureError):
        capture(lambda x: x.no_such_attribute, (torch.randn(2),))


def small() -> tuple[nn.Module, tuple[torch.Tensor, ...]]:
    torch.manual_seed(0)
    model = nn.Sequential(nn.Linear(4, 4), nn.ReLU(), nn.Linear(4, 4))
    return model, (torch.randn(2, 4),)


@contextmanager
def _deterministic() -> Iterator[None]:
    torch.use_deterministic_algorithms(True)
    try:
        yield
    finally:
        torch.use_deterministic_algorithms(False)


@contextmanager
def _float64() -> Iterator[None]:
    before = torch.get_default_dtype()
    torch.set_default_dtype(torch.float64)
    try:
        yield
    finally:
        torch.set_default_dtype(before)


class TestSuccess:
    def test_the_process_is_left_alone(self) -> None:
        model, args = small()
        with unchanged():
            capture(model, args)

    def test_random_numbers_in_the_model_and_dynamic_sizes(self) -> None:
        model, args = nn.Sequential(nn.Linear(4, 4), nn.Dropout()), (torch.randn(5, 4),)
        shapes = ({0: torch.export.Dim("batch", min=3)},)
        capture(model, args, dynamic_shapes=shapes)
        with unchanged():
            capture(model, args, dynamic_shapes=shapes)

    def test_the_model_is_left_alone(self) -> None:
        model, args = small()
        model[0].weight.grad = torch.ones(4, 4)  # type: ignore[index]  # of a Sequential
        before = {name: (t, t.clone(), t._version, t.requires_grad) for name, t in model.state_dict().items()}
        state = (model.training, dict(model.named_parameters()), model.forward, vars(model).keys())
        capture(model, args)
        assert (model.training, dict(model.named_parameters()), model.forward, vars(model).keys()) == state
        for name, (tensor, content, version, gradient) in before.items():
            now = model.state_dict()[name]
            assert now.data_ptr() == tensor.data_ptr(), name
            assert torch.equal(now, content), name
            assert (now._version, now.requires_grad) == (version, gradient), name

    @pytest.mark.parametrize(
        "setting",
        [
            lambda: torch.autocast("cpu", dtype=torch.bfloat16, enabled=False),
            torch.inference_mode,
            torch.no_grad,
            lambda: torch.device("meta"),
            warnings.catch_warnings,
            _deterministic,
            _float64,
        ],
        ids=["autocast", "inference", "no_grad", "device", "warnings", "deterministic", "dtype"],
    )
    def test_settings_of_the_caller_stay(self, setting: Callable[[], Any]) -> None:
        """Settings of the caller are preserved, and the program is the same."""
        model, args = small()
        plain = capture(model, args).program
        with setting():
            capture(model, args)
            with unchanged():
                inside = capture(model, args).program
        assert inside == plain


STAGES = [
    "inductor_frontend.export.torch_export._first",  # if torch's own export fails, other frontends are tried
    "torch._inductor.compile_fx.joint_graph_passes",
    "inductor_frontend.record.lowering.fake_tensor_prop",
    "inductor_frontend.record.lowering._recursive_post_grad_passes",
    "inductor_frontend.record.graph.RecordingGraph.init_wrapper_code",
    "inductor_frontend.record.graph.RecordingGraph.register_operation",
    "inductor_frontend.record.wrapper.RecordingWrapper.codegen_allocation",
    "inductor_frontend.record.wrapper.RecordingWrapper.generate_kernel_call",
    "inductor_frontend.record.wrapper.RecordingWrapper.generate",
    "inductor_frontend.kernels.launches.Launches.call",
    "inductor_frontend.translate.finish.verify",
]
"""Functions that a capture goes through, in order: from export to the end."""


class TestFailure:
    @pytest.mark.parametrize("stage", STAGES)
    @pytest.mark.parametrize("error", [KeyboardInterrupt, ZeroDivisionError])
    def test_the_process_is_left_alone_at_every_stage(
        self, stage: str, error: type[BaseException], monkeypatch: pytest.MonkeyPatch
    ) -> None:
        model, args = small()

        def fail(*args: object, **kwargs: object) -> None:
            raise error("here")

        with monkeypatch.context() as patch:
            patch.setattr(stage, fail)
            expected = KeyboardInterrupt if error is KeyboardInterrupt else (CaptureError, error)
            with unchanged(), pytest.raises(expected, match="here"):
                capture(model, args)

    def test_a_model_that_fails_or_is_interrupted(self) -> None:
        class Model(nn.Module):
            error: type[BaseException] = ValueError

            def forward(self, x: torch.Tensor) -> torch.Tensor:
                raise self.error("in the model")

        x = torch.randn(2)
        with unchanged(), pytest.raises(CaptureError, match="in the model"):
            capture(Model(), (x,))
        Model.error = KeyboardInterrupt
        with unchanged(), pytest.raises(KeyboardInterrupt):
            capture(Model(), (x,))

    def test_an_operator_that_is_refused(self, monkeypatch: pytest.MonkeyPatch) -> None:
        model, args = small()
        monkeypatch.setattr("inductor_frontend.translate.nodes.handler_of", lambda cls: None)
        with unchanged(), pytest.raises(CaptureError, match="FE203"):
            capture(model, args)

    # Partially constructed objects of Inductor raise in their destructors.
    @pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning")
    def test_interrupted_at_any_moment(self) -> None:
        """An interrupt at the start of one of the Python calls of a capture, at seven places.

        Calls of a `with` statement itself are excepted: Python then skips the remaining exits.
        """
        model, args = small()
        calls = _interrupted_after(sys.maxsize, model, args)
        assert calls > 10_000
        moments = [calls * n // 16 for n in range(1, 15, 2)]
        stopped = 0
        for moment in moments:
            with unchanged():
                try:
                    _interrupted_after(moment, model, args)
                except KeyboardInterrupt:
                    stopped += 1
        # If the call is in a generator that is being discarded, Python reports the interrupt and continues.
        assert stopped >= len(moments) // 2
        assert same_as_eager(capture(model, args), model, args)

    @pytest.mark.parametrize("mode", [FakeTensorMode, ProxyTorchDispatchMode, FunctionalTensorMode])
    def test_interrupted_on_the_way_out_of_a_mode(
        self, mode: type[TorchDispatchMode], monkeypatch: pytest.MonkeyPatch
    ) -> None:
        """A mode is not exited, so torch's exit finds foreign modes; later traces find none."""
        model, args = small()

        before = _get_current_dispatch_mode_stack()
        with monkeypatch.context() as patch:

            def once(*args: object) -> None:
                patch.undo()
                raise KeyboardInterrupt

            patch.setattr(mode, "__exit__", once)
            with pytest.raises(KeyboardInterrupt):
                capture(model, args)
        assert _get_current_dispatch_mode_stack() == before
        assert same_as_eager(capture(model, args), model, args)


def _interrupted_after(moment: int, model: nn.Module, args: tuple[torch.Tensor, ...]) -> int:
    """Interrupts a capture after this number of Python calls; returns the number of calls if there are
    fewer."""
    count = 0

    def profile(frame: FrameType, event: str, argument: object) -> None:
        nonlocal count
        count += event == "call"
        if count >= moment and event == "call" and frame.f_code.co_name not in ("__enter__", "__exit__"):
            sys.setprofile(None)
            raise KeyboardInterrupt

    sys.setprofile(profile)
    try:
        capture(model, args)
    finally:
        sys.setprofile(None)
    return count


def same_as_eager(artifact: Artifact, model: nn.Module, args: tuple[torch.Tensor, ...]) -> bool:
    with torch.no_grad():
        return torch.allclose(call(artifact, machine("torch"), args), model(*args), atol=1e-5)


def test_options_hold_only_inside() -> None:
    before = inductor_config.inplace_buffers
    with capture_session(CaptureOptions(inplace_kernels=False)):
        assert not inductor_config.inplace_buffers
        assert not functorch_config.enable_autograd_cache
    assert inductor_config.inplace_buffers == before


WIDTHS = range(3, 11)


@pytest.fixture(scope="module")
def models() -> Models:
    torch.manual_seed(0)
    return {n: (nn.Sequential(nn.Linear(n, n), nn.ReLU()), (torch.randn(2, n),)) for n in WIDTHS}


class TestThreads:
    """Captures exclude each other and Inductor's own compilations."""

    def test_four_at_once_are_as_one_after_the_other(self, models: Models) -> None:
        alone = [capture(*models[n]).program for n in WIDTHS]
        with unchanged(), concurrent.futures.ThreadPoolExecutor(4) as pool:
            together = list(pool.map(lambda n: capture(*models[n]).program, WIDTHS))
        assert together == alone

    def test_beside_inductors_own_compiler(self, models: Models) -> None:
        """Two threads capture while two others compile and run with torch.compile: all results are right.

        A function of torch.compile that is called while another thread exports runs uncompiled, by Inductor's
        choice. Export adds hooks to the model that it traces, so no other thread calls that model meanwhile.
        """
        start = threading.Barrier(4)
        separate = {width: copy.deepcopy(models[width][0]) for width in (3, 4)}

        def ours(width: int) -> bool:
            start.wait(60)
            artifacts = [capture(*models[width]) for _ in range(3)]
            return all(same_as_eager(artifact, *models[width]) for artifact in artifacts)

        def theirs(width: int) -> bool:
            model, args = separate[width], models[width][1]
            start.wait(60)
            with torch.no_grad():
                got = torch.compile(model, backend="inductor")(*args)
                return torch.allclose(got, model(*args), atol=1e-5)

        # Inductor's own compilation also sets environment variables, which do not concern compilation.
        with unchanged(configurations, torch_contexts, registrations), warnings.catch_warnings():
            warnings.simplefilter("ignore", UserWarning)
            with concurrent.futures.ThreadPoolExecutor(4) as pool:
                jobs = [pool.submit(f, width) for width in (3, 4) for f in (ours, theirs)]
                assert [job.result() for job in jobs] == [True] * 4

    def test_a_failure_in_one_thread_does_not_stop_the_others(self, models: Models) -> None:
        def one(width: int) -> str:
            model, args = models[width]
            if width % 2:
                try:
                    capture(model, (*args, *args))
                except CaptureError:
                    return "refused"
            return "captured" if same_as_eager(capture(model, args), model, args) else "wrong"

        with unchanged(), concurrent.futures.ThreadPoolExecutor(4) as pool:
            got = list(pool.map(one, WIDTHS))
        assert got == ["refused" if width % 2 else "captured" for width in WIDTHS]
