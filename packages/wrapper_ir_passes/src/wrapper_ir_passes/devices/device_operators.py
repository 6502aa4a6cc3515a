"""Operators that exist for only one type of device.

The core does not import torch, so a table lists torch's declarations. A test compares it with the installed
torch.
"""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType

_CPU = """
    _add_relu _add_relu_ _convert_weight_to_int4pack_for_cpu _dyn_quant_matmul_4bit
    _dyn_quant_pack_4bit_weight _empty_affine_quantized _empty_per_channel_affine_quantized
    _functional_assert_async _histogramdd_bin_edges _histogramdd_from_bin_cts
    _histogramdd_from_bin_tensors _make_dep_token _scaled_dot_product_flash_attention_for_cpu
    _scaled_dot_product_flash_attention_for_cpu_backward _spdiags _upsample_lanczos2d_aa
    _upsample_lanczos2d_aa.out _upsample_lanczos2d_aa_backward _weight_int4pack_mm_for_cpu from_file
    histogram mkldnn_rnn_layer mkldnn_rnn_layer_backward narrow_copy.out quantize_per_tensor.tensors
    slow_conv3d_forward to_mkldnn
"""
_CUDA = """
    _conv_depthwise2d _convert_weight_to_int4pack _cslt_compress _cslt_sparse_mm _cslt_sparse_mm_search
    _cudnn_attention_backward _cudnn_attention_forward _cudnn_attention_forward_no_dropout_inplace
    _cudnn_ctc_loss _cudnn_init_dropout_state _cudnn_rnn _cudnn_rnn_backward _cudnn_rnn_flatten_weight
    _efficient_attention_backward _efficient_attention_forward _fill_mem_eff_dropout_mask_
    _flash_attention_backward _flash_attention_forward _flash_attention_forward_no_dropout_inplace
    _fused_dropout _fused_rms_norm_backward _masked_scale _mixed_dtypes_linear _scaled_addmm _scaled_addmm_
    _scaled_dot_product_cudnn_attention _scaled_dot_product_cudnn_attention_backward
    _scaled_dot_product_efficient_attention _scaled_dot_product_efficient_attention_backward
    _scaled_dot_product_flash_attention _scaled_dot_product_flash_attention_backward _scaled_grouped_mm
    _scaled_grouped_mm_v2 _sparse_semi_structured_addmm _sparse_semi_structured_apply
    _sparse_semi_structured_apply_dense _sparse_semi_structured_linear _sparse_semi_structured_mm
    _sparse_semi_structured_tile _thnn_fused_gru_cell _thnn_fused_gru_cell_backward _thnn_fused_lstm_cell
    _thnn_fused_lstm_cell_backward_impl _to_sparse_semi_structured _triton_multi_head_attention
    _triton_scaled_dot_attention _use_cudnn_ctc_loss _use_miopen_ctc_loss _weight_int4pack_mm addmm.dtype
    addmm.dtype_out baddbmm.dtype baddbmm.dtype_out batch_norm_backward_elemt batch_norm_backward_reduce
    batch_norm_elemt batch_norm_gather_stats batch_norm_gather_stats_with_counts batch_norm_stats bmm.dtype
    bmm.dtype_out conv_depthwise3d cudnn_affine_grid_generator cudnn_affine_grid_generator_backward
    cudnn_batch_norm cudnn_batch_norm_backward cudnn_convolution cudnn_convolution_add_relu
    cudnn_convolution_relu cudnn_convolution_transpose cudnn_grid_sampler cudnn_grid_sampler_backward
    miopen_batch_norm miopen_batch_norm_backward miopen_convolution miopen_convolution_add_relu
    miopen_convolution_relu miopen_convolution_transpose miopen_ctc_loss miopen_depthwise_convolution
    miopen_rnn miopen_rnn_backward mm.dtype mm.dtype_out record_stream
"""

ONE_DEVICE: Mapping[str, str] = MappingProxyType(
    {
        **{f"aten::{name}": "cpu" for name in _CPU.split()},
        **{f"aten::{name}": "cuda" for name in _CUDA.split()},
        "mkl::*": "cpu",
        "mkldnn::*": "cpu",
        "mkldnn_prepacked::*": "cpu",
        "onednn::*": "cpu",
        "quantized::*": "cpu",
        "symm_mem::*": "cuda",
    }
)
"""The type of device by operator (all its overloads), by overload, or by namespace (`mkldnn::*`)."""

LAYOUT_BY_DEVICE = frozenset(
    f"aten::{name}"
    for name in ("_convolution", "convolution", "convolution_backward", "convolution_overrideable")
)
"""Operators whose results have other strides on other types of device: captures are not portable."""

PORTABLE = frozenset(
    (
        "aten",
        "prims",
        "prim",
        "inductor",
        "inductor_prims",
        "higher_order",
        "_c10d_functional",
        "c10d",
        "_dtensor",
    )
)
"""Namespaces of operators that exist for every type of device unless listed above."""


def only_device(name: str) -> str:
    """Returns the only type of device that an operator exists for; '' for several or unknown ones."""
    operator, namespace = name.partition(".")[0], name.partition("::")[0]
    for key in (name, operator, f"{namespace}::*"):
        if key in ONE_DEVICE:
            return ONE_DEVICE[key]
    return ""
