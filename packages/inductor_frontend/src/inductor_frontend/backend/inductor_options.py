"""Options of Inductor, which configure the lowering that is captured; what to do in place of those that a capture sets itself,
and in place of modes."""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType
from typing import Any

import torch
from torch._inductor import config as inductor_config

from inductor_frontend.errors import CaptureError
from inductor_frontend.options import CaptureOptions, PaddingOptions
from inductor_frontend.torch_patches.pinned_options import inductor_patches

__all__ = ["canonical_name", "followed", "inductor_settings", "is_inductors", "require_default_mode"]

_GRAPHS = (
    '`options={"persistent_buffers": True}` takes allocations out of the calls; `torch.cuda.graph` around a call '
    "of the compiled function records it as one CUDA graph"
)
_TUNING = (
    'on a GPU, `options={"products": "candidates", "multi_kernels": True}` captures the choices, and '
    "WRAPPER_IR_TRITON_TUNE=1 in the environment has them measured at first launches"
)
_MODES: Mapping[str, str] = MappingProxyType(
    {
        "reduce-overhead": _GRAPHS,
        "max-autotune-no-cudagraphs": _TUNING,
        "max-autotune": f"{_TUNING}; {_GRAPHS}",
        "lite": "leave it out: this backend fuses what Inductor fuses by default",
    }
)
_COUNTERPARTS: Mapping[str, str] = MappingProxyType(
    {
        "cpp_wrapper": "choose an emitter, `emitter`",
        "cpu_backend": "`cpu_kernels`",
        "fx_wrapper": '`options={"emitter": "fx"}`',
        "freezing": "`inductor_frontend.capture` has a model's weights as constants",
        "inplace_buffers": "`inplace_kernels`",
        "max_autotune": _TUNING,
        "max_autotune_gemm": "`products`",
        "nan_asserts": '`options={"passes": "insert-finite-checks"}`',
        "scalar_asserts": "`scalar_asserts` is an option here too",
        "size_asserts": "`layout_asserts`",
        "triton.cudagraphs": _GRAPHS,
        "triton.multi_kernel": "`multi_kernels`",
    }
)
"""Options of Inductor that a capture sets itself -> what has their effect here."""
_LEAVE_OUT = "leave it out: a capture does not follow it"


def require_default_mode(mode: str | None) -> None:
    """Raises CaptureError FE103 for every mode but the default one, with what to do instead."""
    if mode not in (None, "default"):
        raise CaptureError(
            "FE103",
            f"mode {mode!r} is not a mode of the backend wrapper_ir, which takes options only: Inductor's and its own",
            hint=_MODES.get(str(mode), f"leave it out; modes of Inductor are {', '.join(_MODES)}"),
        )


_FOLLOWED: Mapping[str, str] = MappingProxyType(
    {
        "inplace_buffers": "inplace_kernels",
        "scalar_asserts": "scalar_asserts",
        "size_asserts": "layout_asserts",
    }
)
"""Options of Inductor about its wrapper -> options of the backend that have their values unless they are given."""


def followed() -> dict[str, Any]:
    """Options of the backend as Inductor is configured now."""
    found: dict[str, Any] = {ours: bool(getattr(inductor_config, name)) for name, ours in _FOLLOWED.items()}
    if inductor_config.nan_asserts:
        found["passes"] = "insert-finite-checks"
    return found


def canonical_name(name: object) -> str:
    """The name of an option as torch.compile's users may write it for Inductor, with `-` or `_`."""
    return str(name).replace("-", "_")


def is_inductors(name: object) -> bool:
    """Whether this is the name of an option of Inductor."""
    return canonical_name(name) in inductor_config.get_config_copy()


def inductor_settings(given: Mapping[str, Any]) -> dict[str, object]:  # Any: values as the user typed them
    """Options of Inductor that configure its lowering, by their names in its configuration, checked as torch checks them.

    Raises CaptureError FE103 for a value of another type, and for options that a capture sets itself, with what to do in place
    of each.
    """
    pins = {**inductor_patches(CaptureOptions()), "triton.cudagraphs": False}
    pinned = pins.keys() - PaddingOptions.__dataclass_fields__.keys()
    refused = [
        n for n, value in given.items() if (name := canonical_name(n)) in pinned and value != pins[name]
    ]
    if refused:
        advice = "\n".join(
            f"  {n}: {_COUNTERPARTS.get(canonical_name(n), _LEAVE_OUT)}" for n in sorted(refused)
        )
        raise CaptureError(
            "FE103",
            f"options of Inductor that the backend wrapper_ir sets itself: {', '.join(sorted(refused))}",
            hint=f"instead of each:\n{advice}",
        )
    try:
        made = torch._TorchCompileInductorWrapper("default", given, None)  # type: ignore[no-untyped-call]  # torch's
    except RuntimeError as error:
        raise CaptureError("FE103", str(error)) from error
    return {name: value for name, value in made.config.items() if name not in pinned}
