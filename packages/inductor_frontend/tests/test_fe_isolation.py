"""A capture leaves nothing behind: no option, no registration, no random state; not when it fails, nor when several
run at once."""

from __future__ import annotations

import concurrent.futures
import copy
import gc
import logging
import os
import random
import signal
import sys
import tempfile
import threading
import warnings
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from types import FrameType
from typing import Any

import pytest
import torch
from torch import nn
from torch._dynamo import config as dynamo_config
from torch._dynamo.convert_frame import compile_lock
from torch._functorch import config as functorch_config
from torch._guards import CompileContext, TracingContext
from torch._inductor import config as inductor_config
from torch._inductor import ir, virtualized
from torch._inductor.codegen import common
from torch.fx.experimental import _config as symbolic_config
from torch.utils import _pytree as pytree
from torch.utils._python_dispatch import _get_current_dispatch_mode_stack

from inductor_frontend import CaptureError, CaptureOptions, capture
from inductor_frontend.session import capture_session
from wrapper_ir.artifact import Artifact
from wrapper_ir.interp import call
from wrapper_ir.registry import machine

State = dict[str, Any]  # Any: settings of every kind
Models = dict[int, tuple[nn.Module, tuple[torch.Tensor, ...]]]

_CONFIGS = {
    "inductor": inductor_config,
    "functorch": functorch_config,
    "dynamo": dynamo_config,
    "symbolic": symbolic_config,
}


def configurations() -> State:
    """Upstream's options. Values are compared as text: some are copied when they are read."""
    return {
        f"{name}.{key}": repr(value)
        for name, module in _CONFIGS.items()
        for key, value in module.get_config_copy().items()
    }


def torch_settings() -> State:
    return {
        "dtype": torch.get_default_dtype(),
        "device": torch.get_default_device(),
        "random": torch.get_rng_state().tolist(),
        "grad": (torch.is_grad_enabled(), torch.is_inference_mode_enabled()),
        "threads": (torch.get_num_threads(), torch.get_num_interop_threads()),
        "deterministic": (
            torch.are_deterministic_algorithms_enabled(),
            torch.is_deterministic_algorithms_warn_only_enabled(),
            torch._C._get_deterministic_fill_uninitialized_memory(),
        ),
        "autocast": (
            torch.is_autocast_enabled("cpu"),
            torch.get_autocast_dtype("cpu"),
            torch.is_autocast_cache_enabled(),
        ),
        "precision": torch.get_float32_matmul_precision(),
        "anomaly": torch.is_anomaly_enabled(),
        "mkldnn": torch.backends.mkldnn.enabled,
    }


def torch_contexts() -> State:
    """Where upstream keeps what it is doing."""
    return {
        "virtualized": {k: type(v) for k, v in vars(virtualized.threadlocal).items()},
        "tracing": (TracingContext.try_get(), CompileContext.try_get()),
        "modes": _get_current_dispatch_mode_stack(),
        "function modes": torch._C._len_torch_function_stack(),
        "functorch": torch._C._functorch.peek_interpreter_stack(),
        "compiling": (torch.compiler.is_compiling(), torch.compiler.is_exporting()),
        "origins": ir.IRNode._current_origins,
        "indexing": ir.FlexibleLayout.allow_indexing,
        "lock": compile_lock._is_owned(),  # type: ignore[attr-defined]  # of the standard library's own class
    }


def registrations() -> State:
    return {
        "backends": {
            name: (found.scheduling, found.wrapper_codegen, found.cpp_wrapper_codegen)
            for name, found in common.device_codegens.items()
        },
        "device ops": list(common.device_op_overrides_dict),
        "passes": dict(common.custom_backend_passes),
        "pytree": list(pytree.SUPPORTED_NODES),
    }


def process_settings() -> State:
    loggers = (x for x in logging.root.manager.loggerDict.values() if isinstance(x, logging.Logger))
    return {
        "environment": dict(os.environ),
        "path": list(sys.path),
        "folder": (os.getcwd(), tempfile.tempdir),
        "warnings": (list(warnings.filters), warnings.showwarning),
        "logging": [(x.name, x.level, x.propagate, x.disabled, list(x.handlers)) for x in loggers],
        "root logging": (logging.root.level, list(logging.root.handlers), logging.root.manager.disable),
        "hooks": (sys.excepthook, threading.excepthook, signal.getsignal(signal.SIGINT)),
        "random": random.getstate(),
        "interpreter": (gc.isenabled(), sys.getrecursionlimit()),
    }


EVERYTHING = (configurations, torch_settings, torch_contexts, registrations, process_settings)
"""What a capture could change in the process."""


@contextmanager
def unchanged(*parts: Callable[[], State]) -> Iterator[None]:
    """The block changes nothing of these parts, all by default."""

    def state() -> State:
        return {f"{p.__name__}: {key}": value for p in parts or EVERYTHING for key, value in p().items()}

    before = state()
    yield
    after = state()
    keys = sorted({*before, *after})
    changed = [
        f"{k}: {before.get(k)!r:.300} -> {after.get(k)!r:.300}" for k in keys if before.get(k) != after.get(k)
    ]
    assert not changed, "\n".join(changed)


@pytest.fixture(scope="module", autouse=True)
def _warm() -> None:
    """Upstream registers its own backends and loggers in its first compilations."""
    for _ in range(2):
        capture(*small())


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
        kept = (model.training, dict(model.named_parameters()), model.forward, vars(model).keys())
        capture(model, args)
        assert (model.training, dict(model.named_parameters()), model.forward, vars(model).keys()) == kept
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
        """Whatever the caller has set is set afterwards too; the program is the same."""
        model, args = small()
        plain = capture(model, args).program
        with setting():
            capture(model, args)
            with unchanged():
                inside = capture(model, args).program
        assert inside == plain


STAGES = [
    "torch.export.export",
    "torch._inductor.compile_fx.joint_graph_passes",
    "inductor_frontend.record.lowering.fake_tensor_prop",
    "inductor_frontend.record.lowering._recursive_post_grad_passes",
    "inductor_frontend.record.graph.RecordingGraph.init_wrapper_code",
    "inductor_frontend.record.graph.RecordingGraph.register_operation",
    "inductor_frontend.record.wrapper.RecordingWrapper.codegen_allocation",
    "inductor_frontend.record.wrapper.RecordingWrapper.generate_kernel_call",
    "inductor_frontend.record.wrapper.RecordingWrapper.generate",
    "inductor_frontend.kernels.cpp_kernels.Kernels.call",
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

    # Objects of upstream's whose making is interrupted complain when they go.
    @pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning")
    def test_interrupted_at_any_moment(self) -> None:
        """An interrupt at the start of one Python call among all those that a capture makes, at seven places."""
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
        # Where the call is of a generator that is being thrown away, Python reports the interrupt and goes on.
        assert stopped >= len(moments) // 2
        assert same_as_eager(capture(model, args), model, args)


def _interrupted_after(moment: int, model: nn.Module, args: tuple[torch.Tensor, ...]) -> int:
    """Captures until so many Python functions were called; the count of calls where that is never reached."""
    count = 0

    def profile(frame: FrameType, event: str, argument: object) -> None:
        nonlocal count
        count += event == "call"
        if count == moment and event == "call":
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
    """Captures take turns with each other and with upstream's own compilations."""

    def test_four_at_once_are_as_one_after_the_other(self, models: Models) -> None:
        alone = [capture(*models[n]).program for n in WIDTHS]
        with unchanged(), concurrent.futures.ThreadPoolExecutor(4) as pool:
            together = list(pool.map(lambda n: capture(*models[n]).program, WIDTHS))
        assert together == alone

    def test_beside_upstreams_own_compiler(self, models: Models) -> None:
        """Two threads capture while two others compile and run with torch.compile: each gets what it asked for.

        A function of torch.compile that is called while another thread exports runs uncompiled, by upstream's choice.
        And export puts hooks into the very model that it traces, so nobody else calls that one meanwhile.
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

        # Upstream's own compilation sets variables of the environment and such; none of it is about compiling.
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
