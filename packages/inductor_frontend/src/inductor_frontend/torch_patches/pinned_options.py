"""Options of torch that a capture sets itself, independent of the process."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict
from typing import Any

from inductor_frontend.options import CaptureOptions

# Scheduling and kernel generation follow the configuration of the process. These options do not: they would
# add text, measurements or machine-specific data, which a program cannot contain.
_PINNED: Mapping[str, object] = {
    # other wrappers, and their partitions
    "cpp_wrapper": False,
    "fx_wrapper": False,
    "cuda_backend": "triton",
    "graph_partition": False,
    # memory: passes on the program plan storages, lifetimes and reuse
    "allow_buffer_reuse": False,
    "memory_planning": False,
    # writes past the end of an input
    "can_inplace_pad_graph_input": False,
    # the model keeps its weights
    "freezing_discard_parameters": False,
    # kernels are compiled and selected when the program is run
    "compile_threads": 1,
    "benchmark_kernel": False,
    "force_shape_pad": False,
    "triton.autotune_at_compile_time": False,
    "triton.proton_profiling": False,
    "triton.store_cubin": False,
    "triton.unique_user_kernel_names": False,
    "epilogue_fusion_user_defined_triton_kernel": False,
    # selection by benchmark
    "max_autotune": False,
    "triton.num_decompose_k_splits": 0,
    "max_autotune_pointwise": False,
    "combo_kernel_compile_time_autotune": False,
    "distributed_max_autotune_gemm": False,
    "remote_gemm_autotune_cache": False,
    # torch's cache keys do not include the backend
    "fx_graph_cache": False,
    "fx_graph_remote_cache": False,
    # text for users and for torch's own tools
    "alignment_asserts": False,
    "alignment_asserts_inputs": False,
    "aot_inductor.debug_intermediate_value_printer": "0",
    "comment_origin": False,
    "cpp.enable_kernel_context_guard": False,
    "cpp.enable_kernel_profile": False,
    "generate_intermediate_hooks": False,
    "nan_asserts": False,
    "profile_bandwidth": False,
    "triton.debug_sync_graph": False,
    "triton.debug_sync_kernel": False,
    "test_configs.track_memory_lifecycle": None,
}


def inductor_patches(options: CaptureOptions) -> dict[str, object]:
    """Returns Inductor options that a capture sets, whatever their value in the process."""
    return {
        **_PINNED,
        **asdict(options.padding),
        # constants are neither folded nor packed for this machine unless requested
        "freezing": options.packed_weights,
        "cpp.weight_prepack": options.packed_weights,
        "shape_padding": options.padded_matmuls,
        "cpu_backend": options.cpu_kernels,
        "triton.multi_kernel": int(options.multi_kernels),
        "max_autotune_gemm": options.matmuls in ("templates", "candidates"),
        "max_autotune_gemm_backends": "ATEN,TRITON",
        "max_autotune_conv_backends": "ATEN,TRITON",
        "multi_kernel_hints": list(options.size_hints) if options.matmuls == "templates" else [],
        # a matmul that is selected at run time may be an operator, which cannot be fused with
        **({"epilogue_fusion": False, "prologue_fusion": False} if options.matmuls == "candidates" else {}),
        "inplace_buffers": options.inplace_kernels,
        "scalar_asserts": options.scalar_asserts,
        "size_asserts": options.layout_asserts,
    }


def functorch_patches() -> dict[str, object]:
    """Returns options of torch's autograd that a capture sets.

    The key of its cache of whole compiled functions does not include the backend, so the cache is neither
    read nor written. The other two options create graphs that torch itself cannot lower for a CPU.
    """
    return {
        "enable_autograd_cache": False,
        "enable_remote_autograd_cache": False,
        "functionalize_rng_ops": False,
        "selective_decompose": False,
    }


def known_options(patches: dict[str, object], module: Any) -> dict[str, object]:  # Any: a config module
    """Returns the options that this version of torch has."""
    existing = module.get_config_copy()
    return {name: value for name, value in patches.items() if name in existing}
