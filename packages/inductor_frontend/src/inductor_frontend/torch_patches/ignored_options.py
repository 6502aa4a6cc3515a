"""Warns about options of torch that are set, but have no effect here."""

from __future__ import annotations

import os
import warnings
from collections.abc import Collection, Iterable, Mapping
from types import MappingProxyType

from torch._functorch import config as functorch_config
from torch._inductor import config as inductor_config

from inductor_frontend.errors import SettingWarning
from inductor_frontend.options import CaptureOptions, PaddingOptions
from inductor_frontend.torch_patches.pinned_options import functorch_patches, inductor_patches

_WEIGHTS = (
    "weights are folded and packed by `capture(..., options=CaptureOptions(packed_weights=True))` alone"
)
_TUNED = '`mode="max-autotune-no-cudagraphs"` tunes kernels and matmuls'
_MATMULS = "the option `matmuls` says what computes matmuls and convolutions"
_MEMORY = '`options={"passes": "plan-memory"}` plans the memory of a program'
_EMITTER = "the option `emitter` says what is written"
_PROFILED = "`wir profile` measures a stored program"
_RANGES = '`options={"passes": "profile-ranges"}` shows kernels in profilers'
_SEEN = "`wir step` and `wir compare` see every buffer"
_CACHE = '`options={"cache": False}` compiles without a cache'
_SHARED = "`WRAPPER_IR_CACHE_SHARED` names a cache that is shared"
_ALIGNED = "kernels say which alignment they need, and programs keep to it"
_TUNED_AT_LAUNCH = "the option `tune` tunes kernels when they are launched"
_NAMES = "kernels have names that are unique in a program"
_PLACES = "programs keep the source lines of their operations"
_KERNELS = "kernels have no code for tools of torch"

FOLLOWED_BY_BACKEND: Mapping[str, str] = MappingProxyType(
    {
        "inplace_buffers": "`CaptureOptions(inplace_kernels=...)` says it",
        "nan_asserts": "the pass `insert-finite-checks` adds the checks",
        "scalar_asserts": "`CaptureOptions(scalar_asserts=...)` says it",
        "shape_padding": "`CaptureOptions(padded_matmuls=...)` says it",
        "size_asserts": "`CaptureOptions(layout_asserts=...)` says it",
    }
)
"""Pinned options that `torch.compile` follows nevertheless -> the equivalent for `capture`, which does not
follow them."""
FOLLOWED = frozenset(
    {
        *FOLLOWED_BY_BACKEND,
        *PaddingOptions.__dataclass_fields__,
        "aot_inductor.debug_intermediate_value_printer",
    }
)
"""All pinned options that `torch.compile` follows."""

IGNORED: Mapping[str, str] = MappingProxyType(
    {
        "freezing": _WEIGHTS,
        "freezing_discard_parameters": "a model keeps its weights, and a program shares their memory",
        "cpp.weight_prepack": _WEIGHTS,
        "force_shape_pad": "the option `padded_matmuls` pads matmuls where that pays",
        "max_autotune": _TUNED,
        "max_autotune_pointwise": _TUNED,
        "max_autotune_gemm": _MATMULS,
        "max_autotune_gemm_backends": _MATMULS,
        "max_autotune_conv_backends": _MATMULS,
        "distributed_max_autotune_gemm": _TUNED_AT_LAUNCH,
        "remote_gemm_autotune_cache": _TUNED_AT_LAUNCH,
        "combo_kernel_compile_time_autotune": _TUNED_AT_LAUNCH,
        "multi_kernel_hints": "the option `size_hints` has the sizes that templates are made for",
        "triton.multi_kernel": "the option `multi_kernels` makes kernels to choose from",
        "triton.num_decompose_k_splits": '`CaptureOptions(matmuls="split")` splits matmuls',
        "triton.autotune_at_compile_time": _TUNED_AT_LAUNCH,
        "memory_planning": _MEMORY,
        "allow_buffer_reuse": _MEMORY,
        "can_inplace_pad_graph_input": "inputs are written only where a model writes them",
        "graph_partition": '`options={"passes": "cuda-graphs"}` says what is recorded',
        "cpp_wrapper": _EMITTER,
        "fx_wrapper": _EMITTER,
        "cpu_backend": "the option `cpu_kernels` says what kernels are written in",
        "cuda_backend": "kernels for GPUs are Triton's",
        "compile_threads": "`WRAPPER_IR_BUILD_JOBS` says how many kernels are compiled at once",
        "benchmark_harness": _PROFILED,
        "benchmark_kernel": _PROFILED,
        "profile_bandwidth": _PROFILED,
        "profile_bandwidth_output": _PROFILED,
        "cpp.enable_kernel_profile": _RANGES,
        "triton.proton_profiling": _RANGES,
        "annotate_training": "ranges have one name a graph",
        "generate_intermediate_hooks": _SEEN,
        "test_configs.track_memory_lifecycle": "`wir memory` shows what a program holds and when",
        "comment_origin": _PLACES,
        "trace.provenance_tracking_to_timeline": _PLACES,
        "cpp.enable_kernel_context_guard": _KERNELS,
        "triton.debug_sync_graph": "`CUDA_LAUNCH_BLOCKING=1` says where a kernel fails",
        "triton.debug_sync_kernel": "`CUDA_LAUNCH_BLOCKING=1` says where a kernel fails",
        "triton.store_cubin": "`wir compile` puts compiled kernels into a file",
        "triton.unique_user_kernel_names": _NAMES,
        "epilogue_fusion_user_defined_triton_kernel": "a model's own kernels stay as they are",
        "alignment_asserts": _ALIGNED,
        "alignment_asserts_inputs": _ALIGNED,
        "fx_graph_cache": _CACHE,
        "fx_graph_remote_cache": _SHARED,
        "wrap_inductor_compiled_regions": "a compiled graph is a callable, not an operator",
    }
)
"""Inductor options without effect -> the alternative."""
FUNCTORCH_IGNORED: Mapping[str, str] = MappingProxyType(
    {
        "enable_autograd_cache": _CACHE,
        "enable_remote_autograd_cache": _SHARED,
        "functionalize_rng_ops": "random operators stay as they are in a program",
        "selective_decompose": 'it is followed as Inductor\'s option of this name, or by `mode="lite"`',
    }
)
"""Options of torch's autograd without effect -> the alternative."""

_ON = (
    "alignment_asserts",
    "allow_buffer_reuse",
    "benchmark_harness",
    "cpp.weight_prepack",
    "enable_autograd_cache",
    "fx_graph_cache",
    "graph_partition",
    "inplace_buffers",
    "scalar_asserts",
    "shape_padding",
    "size_asserts",
)
_DEFAULTS: Mapping[str, object] = {
    **dict.fromkeys(_ON, True),
    "cpu_backend": "cpp",
    "cuda_backend": "triton",
    "max_autotune_gemm_backends": "ATEN,TRITON,CPP",
    "max_autotune_conv_backends": "ATEN,TRITON",
    "triton.num_decompose_k_splits": 10,
}
"""Torch's defaults that are not off, in a process without torch's environment variables."""
_THREADS = "TORCHINDUCTOR_COMPILE_THREADS"
_OWN = frozenset(
    {
        "alignment_asserts",
        "allow_buffer_reuse",
        "enable_autograd_cache",
        "fx_graph_cache",
        "graph_partition",
        "selective_decompose",
    }
)
"""Pins that disable a feature of torch in favor of an equivalent: disabling it in the process as well has no
effect."""


def set_in_process(
    options: CaptureOptions, followed: Collection[str] = (), overrides: Mapping[str, object] | None = None
) -> tuple[str, ...]:
    """Returns full names of options whose current value is neither torch's default nor that of a capture with
    these options.

    Values of `overrides` take precedence over those of the process.
    """
    inductor = {**inductor_config.get_config_copy(), **(overrides or {})}
    changed = _changed({**IGNORED, **FOLLOWED_BY_BACKEND}, inductor, inductor_patches(options))
    functorch = _changed(FUNCTORCH_IGNORED, functorch_config.get_config_copy(), functorch_patches())
    return (
        *(f"torch._inductor.config.{name}" for name in changed if name not in followed),
        *(f"torch._functorch.config.{name}" for name in functorch if name not in followed),
    )


def _changed(
    names: Iterable[str], current: Mapping[str, object], pins: Mapping[str, object]
) -> Iterable[str]:
    for name in sorted(names):
        value = current.get(name)
        default = _DEFAULTS.get(name)
        if name == "compile_threads" and _THREADS not in os.environ:  # depends on the machine
            default = inductor_config.decide_compile_threads()
        is_default = not value if not default else value == default
        is_done = name in pins and name not in _OWN and value == pins[name]
        if name in current and not is_default and not is_done:
            yield name


def warn_ignored(names: Iterable[str]) -> None:
    """Warns about these options; Python shows each text once."""
    for name in names:
        of_autograd = name.startswith("torch._functorch.")
        alternatives = FUNCTORCH_IGNORED if of_autograd else {**FOLLOWED_BY_BACKEND, **IGNORED}
        advice = alternatives[name.partition(".config.")[2]]
        warnings.warn(f"{name} is not followed: {advice}", SettingWarning, stacklevel=2)
