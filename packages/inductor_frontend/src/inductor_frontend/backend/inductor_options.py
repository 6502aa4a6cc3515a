"""What to do in place of modes and options of Inductor, which this backend does not take."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from types import MappingProxyType
from typing import Any

from torch._inductor import config as inductor_config

from inductor_frontend.errors import CaptureError
from inductor_frontend.options import CaptureOptions, PaddingOptions
from inductor_frontend.torch_patches.pinned_options import inductor_patches

__all__ = ["advise", "canonical_name", "followed", "is_inductors", "require_default_mode"]

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
"""Options of Inductor -> what has their effect here."""


def require_default_mode(mode: str | None) -> None:
    """Raises CaptureError FE103 for every mode but the default one, with what to do instead."""
    if mode not in (None, "default"):
        raise CaptureError(
            "FE103",
            f"mode {mode!r} is not a mode of the backend wrapper_ir, which has options only",
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


def advise(given: Mapping[str, Any], names: Iterable[str]) -> str:  # Any: values as the user typed them
    """What to do in place of each of these options of Inductor, a line for each."""
    pinned = inductor_patches(CaptureOptions()).keys() - PaddingOptions.__dataclass_fields__.keys()
    return "\n".join(f"  {name}: {_way_out(canonical_name(name), given[name], pinned)}" for name in names)


def _way_out(name: str, value: object, pinned: Iterable[str]) -> str:
    if name in PaddingOptions.__dataclass_fields__:
        return f'`options={{"padding": {{"{name}": {value!r}}}}}`'
    if name in _COUNTERPARTS:
        return _COUNTERPARTS[name]
    if name in pinned:
        return "leave it out: a capture does not follow it"
    return f'`with torch._inductor.config.patch({{"{name}": {value!r}}}):` around the calls that compile'
