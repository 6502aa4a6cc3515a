"""Modes and options of Inductor: their counterparts in the backend, and advice for refused options."""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType

from torch import _TorchCompileInductorWrapper
from torch._inductor import config as inductor_config
from torch._inductor import list_mode_options

from inductor_frontend.errors import CaptureError
from inductor_frontend.options import CaptureOptions, PaddingOptions
from inductor_frontend.torch_patches.ignored_options import (
    FOLLOWED_BY_BACKEND,
    IGNORED,
    set_in_process,
    warn_ignored,
)
from inductor_frontend.torch_patches.pinned_options import inductor_patches

CUDA_GRAPHS = 16
"""The number of CUDA graphs for each section of a program, if a mode or option of Inductor requests CUDA
graphs."""
_GRAPHS: Mapping[str, object] = MappingProxyType({"cuda_graphs": CUDA_GRAPHS})
_TUNING: Mapping[str, object] = MappingProxyType(
    {"matmuls": "candidates", "multi_kernels": True, "tune": True}
)
_MODES: Mapping[str, Mapping[str, object]] = MappingProxyType(
    {
        "default": {},
        "lite": list_mode_options("lite"),  # Inductor's: operators as in eager mode, and no passes
        "reduce-overhead": _GRAPHS,
        "max-autotune-no-cudagraphs": _TUNING,
        "max-autotune": {**_TUNING, **_GRAPHS},
    }
)
"""Modes of Inductor -> options of the backend, or of Inductor, that have the same effect."""
_TUNED = (
    '`mode="max-autotune-no-cudagraphs"`, '
    'or `options={"matmuls": "candidates", "multi_kernels": True, "tune": True}`'
)
_LIMITED = '`options={"cuda_graphs": N}` bounds the graphs of a section; further sizes run without a graph'
_SPLIT = '`options={"passes": "cuda-graphs{least=N}"}` sets the smallest number of ops in a graph'
_COUNTERPARTS: Mapping[str, str] = MappingProxyType(
    {
        "cpp_wrapper": "choose an emitter, `emitter`",
        "cpu_backend": "`cpu_kernels`",
        "fx_wrapper": '`options={"emitter": "fx"}`',
        "freezing": "`inductor_frontend.capture` stores a model's weights as constants",
        "inplace_buffers": "`inplace_kernels`",
        "max_autotune": _TUNED,
        "max_autotune_gemm": "`matmuls`",
        "nan_asserts": '`options={"passes": "insert-finite-checks"}`',
        "scalar_asserts": "`scalar_asserts` is an option here too",
        "shape_padding": "`padded_matmuls`",
        "size_asserts": "`layout_asserts`",
        "triton.cudagraph_capture_sizes": _LIMITED,
        "triton.cudagraph_dynamic_shape_warn_limit": _LIMITED,
        "triton.cudagraph_min_partition_size": _SPLIT,
        "triton.cudagraph_or_error": (
            "`wir stats` and the log `wrapper_ir_passes.devices.cuda_graphs` show what is not captured"
        ),
        "triton.cudagraph_skip_dynamic_graphs": _LIMITED,
        "triton.multi_kernel": "`multi_kernels`",
    }
)
"""Options of Inductor that a capture sets itself -> the counterpart in the backend."""
_LEAVE_OUT = "leave it out: a capture does not follow it"
_FREEZING, _MAX_AUTOTUNE = "freezing", "max_autotune"


def mode_options(mode: str | None) -> Mapping[str, object]:
    """Returns the options of the backend for a mode of Inductor. Raises CaptureError FE103 for unknown
    modes."""
    options = _MODES.get(mode or "default")
    if options is None:
        raise CaptureError(
            "FE103",
            f"the backend wrapper_ir has no mode {mode!r}",
            hint=f"leave it out; modes are {', '.join(_MODES)}",
        )
    return options


_FOLLOWED: Mapping[str, str] = MappingProxyType(
    {
        "inplace_buffers": "inplace_kernels",
        "scalar_asserts": "scalar_asserts",
        "shape_padding": "padded_matmuls",
        "size_asserts": "layout_asserts",
    }
)
"""Options of Inductor's wrapper -> options of the backend that default to their values."""


def followed() -> dict[str, object]:
    """Returns options of the backend that follow Inductor's current configuration."""
    options: dict[str, object] = {
        own: bool(getattr(inductor_config, name)) for name, own in _FOLLOWED.items()
    }
    if inductor_config.triton.cudagraphs:
        options["cuda_graphs"] = CUDA_GRAPHS
    if inductor_config.nan_asserts:
        options["passes"] = "insert-finite-checks"
    return options


def canonical_name(name: object) -> str:
    """Returns the canonical name of an option of Inductor: users of torch.compile may write `-` for `_`."""
    return str(name).replace("-", "_")


def is_inductors(name: object) -> bool:
    """Returns whether `name` is an option of Inductor."""
    return canonical_name(name) in inductor_config.get_config_copy()


def with_tuning(options: Mapping[str, object]) -> dict[str, object]:
    """Replaces `max_autotune` by options of the backend, and removes `freezing`: weights are inputs of
    graphs."""
    result = dict(options)
    if _asks(_MAX_AUTOTUNE, result):
        result = {**_TUNING, **_without(_MAX_AUTOTUNE, result)}
    return _without(_FREEZING, result) if _asks(_FREEZING, result) else result


def _asks(name: str, options: Mapping[str, object]) -> bool:
    return any(value is True for n, value in options.items() if canonical_name(n) == name)


def _without(name: str, options: Mapping[str, object]) -> dict[str, object]:
    return {n: value for n, value in options.items() if canonical_name(n) != name}


def report_ignored(
    options: Mapping[str, object],  # values as the user typed them
    mode: str | None,
    capture: CaptureOptions,
) -> None:
    """Warns of options of torch that are set, by `options` or in the process, and that have no effect."""
    followed = set(FOLLOWED_BY_BACKEND)
    if _asks(_MAX_AUTOTUNE, options) or (mode or "").startswith("max-autotune"):
        followed.update((_MAX_AUTOTUNE, "max_autotune_pointwise", "max_autotune_gemm"))
    if options.get("cache") is False:
        followed.update(("fx_graph_cache", "enable_autograd_cache"))
    inductor_options = {canonical_name(name): value for name, value in options.items() if is_inductors(name)}
    warn_ignored(set_in_process(capture, followed, inductor_options))


def _graph_defaults() -> dict[str, object]:
    """Returns the current values of Inductor's CUDA-graph options, which the backend does not follow."""
    current = inductor_config.get_config_copy()
    return {name: current[name] for name in _COUNTERPARTS if ".cudagraph_" in name and name in current}


def inductor_settings(options: Mapping[str, object]) -> dict[str, object]:
    """Returns the options of Inductor that configure its lowering, by canonical name, checked as torch checks
    them.

    Raises CaptureError FE103 for a value of another type, and for options that a capture sets itself, with
    advice for each.
    """
    pins = {**inductor_patches(CaptureOptions()), **_graph_defaults()}
    pinned = pins.keys() - PaddingOptions.__dataclass_fields__.keys()
    refused = [
        n for n, value in options.items() if (name := canonical_name(n)) in pinned and value != pins[name]
    ]
    if refused:
        advice = "\n".join(
            f"  {n}: {_COUNTERPARTS.get(name := canonical_name(n)) or IGNORED.get(name, _LEAVE_OUT)}"
            for n in sorted(refused)
        )
        raise CaptureError(
            "FE103",
            f"options of Inductor that the backend wrapper_ir sets itself: {', '.join(sorted(refused))}",
            hint=f"instead of each:\n{advice}",
        )
    try:
        # torch leaves the class untyped
        wrapper = _TorchCompileInductorWrapper("default", options, None)  # type: ignore[no-untyped-call]
    except RuntimeError as error:
        raise CaptureError("FE103", str(error)) from error
    return {name: value for name, value in wrapper.config.items() if name not in pinned}
