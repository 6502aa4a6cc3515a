"""Candidate configs of a kernel: calls Inductor's heuristics as its autotuner would."""

from __future__ import annotations

import copy
import inspect
from collections.abc import Mapping
from dataclasses import dataclass
from functools import partial
from typing import Any

from torch._inductor.runtime import triton_heuristics

from inductor_frontend.errors import ConversionError
from inductor_frontend.torch_patches.replaced import replaced
from inductor_frontend.torch_patches.table import TUNER
from inductor_frontend.triton.source import KernelSource, kernel_constant
from wrapper_ir import ir

# Any in this file: Inductor's configs and metadata are untyped.


@dataclass(frozen=True, slots=True)
class Candidates:
    """Configs from which Inductor's autotuner would select, and the arguments that it would restore or
    reset."""

    configs: tuple[ir.TritonConfig, ...]
    meta: Mapping[str, Any]
    size_hints: tuple[tuple[str, int], ...]
    mutated: tuple[str, ...]
    reset: tuple[str, ...]


class _Tuner:
    """Replaces Inductor's autotuner, and stores its arguments."""

    def __init__(self, function: object, **arguments: object) -> None:
        self.arguments = arguments


class _Function:
    """The part of a kernel that heuristics read: its parameters."""

    def __init__(self, order: tuple[str, ...]) -> None:
        def fn() -> None:
            """Never called."""

        kind = inspect.Parameter.POSITIONAL_OR_KEYWORD
        parameters = [inspect.Parameter(n, kind) for n in order]
        fn.__signature__ = inspect.Signature(parameters)  # type: ignore[attr-defined]  # read by inspect
        self.fn = fn


def candidates_of(name: str, source: KernelSource) -> Candidates:
    """Calls the heuristic that decorates a kernel; raises ConversionError FE303 if Inductor has none of that
    name."""
    heuristic = getattr(triton_heuristics, source.heuristic, None)
    if heuristic is None:
        raise ConversionError("FE303", f"kernel {name}: Inductor has no heuristic {source.heuristic}")
    arguments = copy.deepcopy(dict(source.arguments))  # heuristics mutate their arguments
    if "filename" in inspect.signature(heuristic).parameters:
        arguments["filename"] = f"{name}.py"
    meta = arguments.setdefault("inductor_meta", {})
    meta["force_disable_caches"] = True  # cached measurements of this machine must not enter a program
    with replaced(TUNER.by(cached_autotune=partial(TUNER.own(), caching_autotuner_cls=_Tuner))):
        tuner: dict[str, Any] = heuristic(**arguments)(_Function(source.order)).arguments
    hints = tuner["size_hints"]
    return Candidates(
        configs=tuple(to_config(name, c) for c in tuner["configs"]),
        meta=source.arguments.get("inductor_meta", {}),
        size_hints=tuple((str(k), int(v)) for k, v in hints.items()) if isinstance(hints, dict) else (),
        mutated=tuple(tuner["mutated_arg_names"]),
        reset=tuple(tuner.get("reset_to_zero_arg_names") or ()),
    )


_OPTIONS = {"num_ctas": 1, "maxnreg": None}
"""Options of a config that are not meta-parameters, with their defaults."""


def to_config(name: str, config: Any) -> ir.TritonConfig:
    """Converts one of Inductor's configs; raises ConversionError FE303 for options without a typed form."""
    options = {option: getattr(config, option, default) for option, default in _OPTIONS.items()}
    warps = getattr(config, "num_consumer_groups", 0), getattr(config, "num_buffers_warp_spec", 0)
    if any(warps) or getattr(config, "ir_override", None):
        raise ConversionError("FE303", f"kernel {name}: a config with specialised warps or replaced code")
    return ir.TritonConfig(
        meta=tuple((str(k), kernel_constant(name, str(k), v)) for k, v in config.kwargs.items()),
        num_warps=config.num_warps,
        num_stages=config.num_stages,
        options=tuple((k, v) for k, v in options.items() if v is not None and v != _OPTIONS[k]),
    )
