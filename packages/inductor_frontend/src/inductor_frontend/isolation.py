"""Keeping a capture to itself: upstream's options for its duration, one at a time, nothing changed afterwards."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import ExitStack, contextmanager
from dataclasses import asdict
from functools import partialmethod
from typing import Any
from unittest import mock

import sympy
import torch
from torch._dynamo.convert_frame import compile_lock
from torch._dynamo.utils import preserve_rng_state
from torch._functorch import config as functorch_config
from torch._inductor import config as inductor_config
from torch._inductor.sizevars import SizeVarAllocator
from torch.utils import _triton
from torch.utils._sympy.functions import Identity

from inductor_frontend.hooks.templates import keeping_choices
from inductor_frontend.options import CaptureOptions
from inductor_frontend.own_kernels import known_descriptors
from inductor_frontend.vector_isa import quick_checks

__all__ = ["capture_session", "functorch_patches", "inductor_patches", "known_options"]


# Upstream's options that a capture does not follow. What upstream schedules and how it writes kernels stays as the
# process is configured; these would put text, timings or machine-specific data where a program has none.
_PINNED: Mapping[str, object] = {
    # other wrappers, and what they are cut into
    "cpp_wrapper": False,
    "fx_wrapper": False,
    "cuda_backend": "triton",
    "graph_partition": False,
    # memory: storages, lifetimes and reuse are decided on the program
    "allow_buffer_reuse": False,
    "memory_planning": False,
    # writes behind the end of an input
    "can_inplace_pad_graph_input": False,
    # the model keeps its weights
    "freezing_discard_parameters": False,
    # kernels are compiled by whoever runs them, and are chosen from there
    "compile_threads": 1,
    "benchmark_kernel": False,
    "force_shape_pad": False,
    "shape_padding": False,
    "triton.autotune_at_compile_time": False,
    "triton.proton_profiling": False,
    "triton.store_cubin": False,
    "triton.unique_user_kernel_names": False,
    "epilogue_fusion_user_defined_triton_kernel": False,
    # choices by measurement
    "max_autotune": False,
    "triton.num_decompose_k_splits": 0,
    "max_autotune_pointwise": False,
    "distributed_max_autotune_gemm": False,
    "remote_gemm_autotune_cache": False,
    # upstream's caches do not know who compiled
    "fx_graph_cache": False,
    "fx_graph_remote_cache": False,
    # text for people and for upstream's own tools
    "alignment_asserts": False,
    "aot_inductor.debug_intermediate_value_printer": "0",
    "comment_origin": False,
    "cpp.enable_kernel_profile": False,
    "generate_intermediate_hooks": False,
    "nan_asserts": False,
    "profile_bandwidth": False,
    "test_configs.track_memory_lifecycle": None,
}


def inductor_patches(options: CaptureOptions) -> dict[str, object]:
    """Upstream options that a capture depends on, whatever the process has set."""
    return {
        **_PINNED,
        **asdict(options.padding),
        # constants stay as they are, neither folded nor packed for this machine, unless asked for
        "freezing": options.packed_weights,
        "cpp.weight_prepack": options.packed_weights,
        "cpu_backend": options.cpu_kernels,
        "triton.multi_kernel": int(options.multi_kernels),
        "max_autotune_gemm": options.products != "extern",
        "max_autotune_gemm_backends": "ATEN,TRITON",
        "max_autotune_conv_backends": "ATEN,TRITON",
        "multi_kernel_hints": list(options.size_hints) if options.products == "templates" else [],
        # what is computed by whichever is chosen has nothing fused into it
        **({"epilogue_fusion": False, "prologue_fusion": False} if options.products == "candidates" else {}),
        "inplace_buffers": options.inplace_kernels,
        "scalar_asserts": options.scalar_asserts,
        "size_asserts": options.layout_asserts,
    }


def functorch_patches() -> dict[str, object]:
    """The same of upstream's autograd. Its cache of whole compiled functions does not know who compiled them: neither
    read nor fill it. The other two make graphs that upstream itself cannot lower for a CPU."""
    return {
        "enable_autograd_cache": False,
        "enable_remote_autograd_cache": False,
        "functionalize_rng_ops": False,
        "selective_decompose": False,
    }


def known_options(patches: dict[str, object], module: Any) -> dict[str, object]:  # Any: a config module
    """The options that this version of torch has."""
    known = module.get_config_copy()
    return {name: value for name, value in patches.items() if name in known}


# Any: sympy's own classes, which have no types here.
def _evaluated(wrapped: Any, precision: int) -> Any:
    """The number in upstream's wrapper of an index. Without it, sums of such numbers have no order, and graphs with a
    padded relative position cannot be lowered."""
    return wrapped.args[0]._eval_evalf(precision)


def _stride_hints(self: Any, upstream: Any, index: Any, *args: Any, **kwargs: Any) -> Any:
    """Upstream's, of an index without wrappers: a stride is a difference of two of its numbers, and what `_evaluated` makes
    possible takes sympy 40 ms for each."""
    return upstream(self, sympy.sympify(index).replace(Identity, lambda wrapped: wrapped), *args, **kwargs)


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
        # A key of upstream's own caches of measurements: nothing here reads them, and it takes a device to make.
        stack.enter_context(mock.patch.object(_triton, "triton_hash_with_backend", return_value=""))
        stack.enter_context(mock.patch.object(Identity, "_eval_evalf", _evaluated, create=True))
        hints = partialmethod(_stride_hints, SizeVarAllocator.stride_hints)
        stack.enter_context(mock.patch.object(SizeVarAllocator, "stride_hints", hints))
        stack.enter_context(keeping_choices(options.products == "candidates"))
        stack.enter_context(known_descriptors())
        stack.enter_context(quick_checks())
        stack.enter_context(preserve_rng_state())
        stack.enter_context(torch.no_grad())
        yield
