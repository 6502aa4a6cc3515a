"""Keeping a capture to itself: upstream's options for its duration, one at a time, nothing changed afterwards."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from typing import Any

import torch
from torch._dynamo.convert_frame import compile_lock
from torch._dynamo.utils import preserve_rng_state
from torch._functorch import config as functorch_config
from torch._inductor import config as inductor_config

from inductor_frontend.options import CaptureOptions

__all__ = ["capture_session", "functorch_patches", "inductor_patches", "known_options"]


def inductor_patches(options: CaptureOptions) -> dict[str, object]:
    """Upstream options that a capture depends on, whatever the process has set."""
    return {
        "allow_buffer_reuse": False,
        "alignment_asserts": False,
        "comment_origin": False,
        "cpp_wrapper": False,
        "freezing": False,
        "fx_graph_cache": False,
        "fx_graph_remote_cache": False,
        "fx_wrapper": False,
        "generate_intermediate_hooks": False,
        "graph_partition": False,
        "inplace_buffers": options.inplace_kernels,
        "memory_planning": False,
        "nan_asserts": False,
        "profile_bandwidth": False,
        "scalar_asserts": options.scalar_asserts,
        "size_asserts": options.layout_asserts,
        "test_configs.track_memory_lifecycle": None,
    }


def functorch_patches() -> dict[str, object]:
    """Upstream's cache of whole compiled functions does not know who compiled them: neither read nor fill it."""
    return {"enable_autograd_cache": False, "enable_remote_autograd_cache": False}


def known_options(patches: dict[str, object], module: Any) -> dict[str, object]:  # Any: a config module
    """The options that this version of torch has."""
    known = module.get_config_copy()
    return {name: value for name, value in patches.items() if name in known}


@contextmanager
def capture_session(options: CaptureOptions) -> Iterator[None]:
    """Upstream's compile lock, options and random state for one capture; all restored at the end, also after errors.

    Concurrent captures, and captures concurrent with torch.compile, take turns.
    """
    with ExitStack() as stack:
        stack.enter_context(compile_lock)
        inductor = known_options(inductor_patches(options), inductor_config)
        stack.enter_context(inductor_config.patch(inductor))
        functorch = known_options(functorch_patches(), functorch_config)
        stack.enter_context(functorch_config.patch(functorch))
        stack.enter_context(preserve_rng_state())
        stack.enter_context(torch.no_grad())
        yield
