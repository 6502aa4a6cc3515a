"""Tells users of options of Inductor that are set and that nothing follows."""

from __future__ import annotations

import warnings
from collections.abc import Iterable, Mapping
from types import MappingProxyType

from torch._inductor import config as inductor_config

from inductor_frontend.errors import SettingWarning

__all__ = ["IGNORED", "set_in_process", "warn_ignored"]

_WEIGHTS = (
    "weights are folded and packed by `capture(..., options=CaptureOptions(packed_weights=True))` alone"
)
_TUNED = '`mode="max-autotune-no-cudagraphs"` tunes kernels and products'
_MEMORY = '`options={"passes": "plan-memory"}` plans the memory of a program'
_EMITTER = "the option `emitter` says what is written"
IGNORED: Mapping[str, str] = MappingProxyType(
    {
        "freezing": _WEIGHTS,
        "force_shape_pad": "the option `padded_products` pads products where that pays",
        "max_autotune": _TUNED,
        "max_autotune_pointwise": _TUNED,
        "memory_planning": _MEMORY,
        "cpp_wrapper": _EMITTER,
        "fx_wrapper": _EMITTER,
        "benchmark_kernel": "`wir profile` measures a stored program",
        "profile_bandwidth": "`wir profile` measures a stored program",
        "generate_intermediate_hooks": "`wir step` and `wir compare` see every buffer",
    }
)
"""Options that are off unless a user sets them -> what to do in place of them."""


def set_in_process() -> tuple[str, ...]:
    """Those that are set now."""
    current = inductor_config.get_config_copy()
    return tuple(name for name in IGNORED if current.get(name))


def warn_ignored(names: Iterable[str]) -> None:
    """Warns of these options: Python shows a text once."""
    for name in names:
        warnings.warn(
            f"torch._inductor.config.{name} is not followed: {IGNORED[name]}", SettingWarning, stacklevel=2
        )
