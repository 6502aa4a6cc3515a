"""State of the process that a capture must not change."""

from __future__ import annotations

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
from typing import Any

import torch
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

from inductor_frontend.torch_patches.table import PATCH_POINTS

State = dict[str, Any]  # Any: settings of every kind


_CONFIGS = {
    "inductor": inductor_config,
    "functorch": functorch_config,
    "dynamo": dynamo_config,
    "symbolic": symbolic_config,
}


def configurations() -> State:
    """Torch's options. Values are compared as text: some are copied when they are read."""
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
    """Returns torch's current contexts and modes."""
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
            name: (codegens.scheduling, codegens.wrapper_codegen, codegens.cpp_wrapper_codegen)
            for name, codegens in common.device_codegens.items()
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


def replaced_places() -> State:
    """Returns torch's functions at the places that a capture replaces."""
    places = [(p, name) for p in PATCH_POINTS if p.owner.startswith("torch") for name in p.names]
    return {f"{p.owner} {name}": getattr(p.find(), name, None) for p, name in places}


EVERYTHING = (
    configurations,
    torch_settings,
    torch_contexts,
    registrations,
    process_settings,
    replaced_places,
)


def _difference(before: object, after: object) -> str:
    """Text of two values; of two mappings only the entries that differ."""
    if isinstance(before, dict) and isinstance(after, dict):
        names = [name for name in {**before, **after} if before.get(name) != after.get(name)]
        before, after = ({name: values.get(name) for name in names} for values in (before, after))
    return f"{before!r:.300} -> {after!r:.300}"


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
        f"{k}: {_difference(before.get(k), after.get(k))}" for k in keys if before.get(k) != after.get(k)
    ]
    assert not changed, "\n".join(changed)
