"""The candidate configs of a kernel: Inductor's own heuristics, called as its tuner would call them."""

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

# Any in this file: Inductor's configs and meta data are untyped.


@dataclass(frozen=True, slots=True)
class Candidates:
    """What Inductor's tuner would choose from, and what it would do to arguments while it measures."""

    configs: tuple[ir.TritonConfig, ...]
    meta: Mapping[str, Any]
    size_hints: tuple[tuple[str, int], ...]
    mutated: tuple[str, ...]
    reset: tuple[str, ...]


class _Tuner:
    """Takes the place of Inductor's tuner, and keeps what that one is given."""

    def __init__(self, function: Any, **given: Any) -> None:
        self.given = given


class _Function:
    """A kernel as far as heuristics look at it: its parameters."""

    def __init__(self, order: tuple[str, ...]) -> None:
        def fn() -> None:
            """Never called."""

        kind = inspect.Parameter.POSITIONAL_OR_KEYWORD
        fn.__signature__ = inspect.Signature([inspect.Parameter(n, kind) for n in order])  # type: ignore[attr-defined]  # read by inspect
        self.fn = fn


def candidates_of(name: str, source: KernelSource) -> Candidates:
    """Calls the heuristic that decorates a kernel; raises ConversionError FE303 where Inductor has none of that name."""
    heuristic = getattr(triton_heuristics, source.heuristic, None)
    if heuristic is None:
        raise ConversionError("FE303", f"kernel {name}: Inductor has no heuristic {source.heuristic}")
    arguments = copy.deepcopy(dict(source.arguments))  # heuristics change what they are given
    if "filename" in inspect.signature(heuristic).parameters:
        arguments["filename"] = f"{name}.py"
    meta = arguments.setdefault("inductor_meta", {})
    meta["force_disable_caches"] = True  # what this machine once measured is not part of a program
    with replaced(TUNER.by(cached_autotune=partial(TUNER.own(), caching_autotuner_cls=_Tuner))):
        given = heuristic(**arguments)(_Function(source.order)).given
    hints = given["size_hints"]
    return Candidates(
        configs=tuple(to_config(name, c) for c in given["configs"]),
        meta=source.arguments.get("inductor_meta", {}),
        size_hints=tuple((str(k), int(v)) for k, v in hints.items()) if isinstance(hints, dict) else (),
        mutated=tuple(given["mutated_arg_names"]),
        reset=tuple(given.get("reset_to_zero_arg_names") or ()),
    )


_OPTIONS = {"num_ctas": 1, "maxnreg": None}
"""Options of a config that are not meta-parameters, and what they are where nobody says otherwise."""


def to_config(name: str, config: Any) -> ir.TritonConfig:
    """One of Inductor's configs; raises ConversionError FE303 for what a config cannot say."""
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
