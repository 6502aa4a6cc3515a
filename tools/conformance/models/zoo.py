"""Model configurations of transformers, small and with random weights, by family.

Torch's own image models (torchvision) are included if that package is installed.
"""

from __future__ import annotations

import importlib.util
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor, nn

Inputs = Callable[[], dict[str, Any]]
"""Creates a call's keyword arguments, labels included. Any: arguments of any model."""
Options = Mapping[str, Any]
_VOCABULARY, _LENGTH, _LABELS = 96, 12, 10


@dataclass(frozen=True, slots=True, kw_only=True)
class ModelCase:
    """A model: `make` returns it in evaluation mode, `inputs` a call of it with labels.

    `generates` marks a decoder, which `generate` runs over a static cache.
    """

    name: str
    family: str
    make: Callable[[], nn.Module]
    inputs: Inputs
    generates: bool = False


_SIZES: Options = {
    "hidden_size": 32,
    "num_hidden_layers": 2,
    "num_attention_heads": 4,
    "intermediate_size": 64,
    "vocab_size": _VOCABULARY,
    "max_position_embeddings": 64,
}
_GROUPED: Options = {**_SIZES, "num_key_value_heads": 2}
_HEADS_OF_8: Options = {**_GROUPED, "head_dim": 8}
_N_SIZES: Options = {"n_embd": 32, "n_layer": 2, "n_head": 4, "vocab_size": _VOCABULARY, "n_positions": 64}
_TOKENS: Options = {"pad_token_id": 0, "bos_token_id": 1, "eos_token_id": 2}
_STATES: Options = {"hidden_size": 32, "num_hidden_layers": 2, "state_size": 8, "vocab_size": _VOCABULARY}
_T5: Options = {
    "d_model": 32,
    "d_kv": 8,
    "d_ff": 64,
    "num_layers": 2,
    "num_heads": 4,
    "vocab_size": _VOCABULARY,
    "decoder_start_token_id": 0,
}
_TWO_STACKS: Options = {
    "d_model": 32,
    "encoder_layers": 2,
    "decoder_layers": 2,
    "encoder_attention_heads": 4,
    "decoder_attention_heads": 4,
    "encoder_ffn_dim": 64,
    "decoder_ffn_dim": 64,
    "vocab_size": _VOCABULARY,
    "decoder_start_token_id": 2,
}
_BART: Options = {**_TWO_STACKS, "max_position_embeddings": 64, "forced_eos_token_id": None}
_IMAGES: Options = {
    "hidden_size": 32,
    "num_hidden_layers": 2,
    "num_attention_heads": 4,
    "intermediate_size": 64,
    "image_size": 32,
    "patch_size": 8,
    "num_labels": _LABELS,
}
_STAGES: Options = {"hidden_sizes": [8, 16, 16, 16], "depths": [1, 1, 1, 1], "num_labels": _LABELS}
_WAVES: Options = {
    "hidden_size": 32,
    "num_hidden_layers": 2,
    "num_attention_heads": 4,
    "intermediate_size": 64,
    "vocab_size": 32,
    "conv_dim": (16, 16),
    "conv_stride": (4, 2),
    "conv_kernel": (8, 4),
    "num_feat_extract_layers": 2,
    "num_conv_pos_embeddings": 16,
    "num_conv_pos_embedding_groups": 2,
    "mask_time_prob": 0.0,
    "layerdrop": 0.0,
    "pad_token_id": 0,
}
_DECODERS: Mapping[str, Options] = {
    "gpt2": _N_SIZES,
    "llama": _GROUPED,
    "mistral": {**_GROUPED, "sliding_window": 8},
    "qwen2": _GROUPED,
    "qwen3": _HEADS_OF_8,
    "gemma": _HEADS_OF_8,
    "gemma2": {**_HEADS_OF_8, "sliding_window": 8},
    "gemma3_text": {**_HEADS_OF_8, "sliding_window": 8},
    "phi": _GROUPED,
    "phi3": _GROUPED,
    "opt": {**_SIZES, "ffn_dim": 64, "word_embed_proj_dim": 32},
    "bloom": {"hidden_size": 32, "n_layer": 2, "n_head": 4, "vocab_size": _VOCABULARY},
    "gpt_neox": _SIZES,
    "gptj": {**_N_SIZES, "rotary_dim": 4},
    "falcon": _SIZES,
    "stablelm": _GROUPED,
    "olmo2": _GROUPED,
    "cohere": _GROUPED,
    "starcoder2": _GROUPED,
    "granite": _GROUPED,
    "smollm3": _GROUPED,
}
_EXPERTS: Mapping[str, Options] = {
    "mixtral": {**_GROUPED, "num_local_experts": 4, "num_experts_per_tok": 2},
    "qwen2_moe": {
        **_GROUPED,
        "num_experts": 4,
        "num_experts_per_tok": 2,
        "moe_intermediate_size": 16,
        "shared_expert_intermediate_size": 32,
    },
    "olmoe": {**_GROUPED, "num_experts": 4, "num_experts_per_tok": 2},
    "deepseek_v3": {
        **_SIZES,
        "num_key_value_heads": 4,
        "n_routed_experts": 4,
        "num_experts_per_tok": 2,
        "n_group": 2,
        "topk_group": 1,
        "moe_intermediate_size": 16,
        "first_k_dense_replace": 1,
        "q_lora_rank": 16,
        "kv_lora_rank": 8,
        "qk_rope_head_dim": 4,
        "qk_nope_head_dim": 8,
        "v_head_dim": 8,
    },
}
_STATE_SPACE: Mapping[str, Options] = {
    "mamba": _STATES,
    "mamba2": {**_STATES, "num_heads": 8, "head_dim": 8, "n_groups": 2, "chunk_size": 8},
    "falcon_mamba": _STATES,
}
_ENCODERS: Mapping[str, Options] = {
    "bert": _SIZES,
    "roberta": _SIZES,
    "distilbert": {
        "dim": 32,
        "n_layers": 2,
        "n_heads": 4,
        "hidden_dim": 64,
        "vocab_size": _VOCABULARY,
        "max_position_embeddings": 64,
    },
    "electra": {**_SIZES, "embedding_size": 32},
    "albert": {**_SIZES, "embedding_size": 16},
    "deberta-v2": {
        **_SIZES,
        "relative_attention": True,
        "position_buckets": 8,
        "pos_att_type": ["p2c", "c2p"],
    },
    "mpnet": _SIZES,
    "modernbert": {
        **_SIZES,
        "global_attn_every_n_layers": 2,
        "local_attention": 8,
        "cls_token_id": 3,
        "sep_token_id": 4,
    },
    "roformer": _SIZES,
    "convbert": {**_SIZES, "embedding_size": 32, "head_ratio": 2, "conv_kernel_size": 3},
}
_ENCODER_DECODERS: Mapping[str, Options] = {
    "t5": _T5,
    "mt5": _T5,
    "bart": _BART,
    "pegasus": _BART,
    "marian": _BART,
    "m2m_100": _BART,
}
_VISION: Mapping[str, Options] = {
    "vit": _IMAGES,
    "beit": _IMAGES,
    "dinov2": _IMAGES,
    "resnet": {
        "embedding_size": 8,
        "hidden_sizes": [8, 16],
        "depths": [1, 1],
        "num_labels": _LABELS,
        "layer_type": "basic",
    },
    "regnet": {
        "embedding_size": 8,
        "hidden_sizes": [8, 16],
        "depths": [1, 1],
        "groups_width": 8,
        "num_labels": _LABELS,
    },
    "convnext": {**_STAGES, "drop_path_rate": 0.0},
    "poolformer": _STAGES,
    "swin": {
        "image_size": 32,
        "patch_size": 4,
        "embed_dim": 16,
        "depths": [2, 2],
        "num_heads": [2, 4],
        "window_size": 4,
        "num_labels": _LABELS,
    },
    "mobilenet_v2": {"image_size": 32, "depth_multiplier": 0.35, "num_labels": _LABELS},
    "segformer": {
        "num_encoder_blocks": 2,
        "depths": [1, 1],
        "sr_ratios": [2, 1],
        "hidden_sizes": [8, 16],
        "patch_sizes": [7, 3],
        "strides": [4, 2],
        "num_attention_heads": [1, 2],
        "mlp_ratios": [2, 2],
        "num_labels": _LABELS,
    },
}
_SPEECH: Mapping[str, Options] = {"wav2vec2": _WAVES, "hubert": _WAVES, "wavlm": _WAVES}
_WHISPER: Options = {
    **_TWO_STACKS,
    **_TOKENS,
    "max_source_positions": 50,
    "max_target_positions": 64,
    "num_mel_bins": 16,
    "decoder_start_token_id": 1,
    "suppress_tokens": None,
    "begin_suppress_tokens": None,
}
_SPECTROGRAMS: Options = {
    "hidden_size": 32,
    "num_hidden_layers": 2,
    "num_attention_heads": 4,
    "intermediate_size": 64,
    "patch_size": 8,
    "frequency_stride": 8,
    "time_stride": 8,
    "max_length": 32,
    "num_mel_bins": 16,
    "num_labels": _LABELS,
}


def _ids() -> Tensor:
    return torch.randint(3, _VOCABULARY, (2, _LENGTH))


def _text() -> dict[str, Any]:
    ids = _ids()
    return {"input_ids": ids, "labels": ids}


def _masked_text() -> dict[str, Any]:
    """Two rows, the second of them shorter."""
    inputs = _text()
    mask = torch.ones_like(inputs["input_ids"])
    mask[1, -3:] = 0
    return {**inputs, "attention_mask": mask}


def _images() -> dict[str, Any]:
    return {"pixel_values": torch.randn(2, 3, 32, 32), "labels": torch.tensor([1, 3])}


def _waves() -> dict[str, Any]:
    return {"input_values": torch.randn(2, 800), "labels": torch.randint(1, 32, (2, 6))}


def _features() -> dict[str, Any]:
    return {"input_features": torch.randn(2, 16, 100), "labels": _ids()}


def _spectrograms() -> dict[str, Any]:
    return {"input_values": torch.randn(2, 32, 16), "labels": torch.tensor([1, 3])}


def _text_and_images() -> dict[str, Any]:
    return {"input_ids": _ids(), "pixel_values": torch.randn(2, 3, 32, 32), "return_loss": True}


FAMILIES: Mapping[str, tuple[str, Mapping[str, Options], Inputs, Options]] = {
    "decoder": ("AutoModelForCausalLM", _DECODERS, _text, _TOKENS),
    "mixture of experts": ("AutoModelForCausalLM", _EXPERTS, _text, _TOKENS),
    "state space": ("AutoModelForCausalLM", _STATE_SPACE, _text, _TOKENS),
    "encoder": ("AutoModelForMaskedLM", _ENCODERS, _masked_text, _TOKENS),
    "encoder-decoder": ("AutoModelForSeq2SeqLM", _ENCODER_DECODERS, _masked_text, _TOKENS),
    "vision": ("AutoModelForImageClassification", _VISION, _images, {}),
    "speech": ("AutoModelForCTC", _SPEECH, _waves, {}),
    "speech to text": ("AutoModelForSpeechSeq2Seq", {"whisper": _WHISPER}, _features, {}),
    "audio": (
        "AutoModelForAudioClassification",
        {"audio-spectrogram-transformer": _SPECTROGRAMS},
        _spectrograms,
        {},
    ),
    "text and image": (
        "AutoModelForZeroShotImageClassification",
        {
            "clip": {
                "text_config": {**_SIZES, "eos_token_id": 2},
                "vision_config": _IMAGES,
                "projection_dim": 16,
            }
        },
        _text_and_images,
        {},
    ),
}
"""For each family: transformers' class, options of its models' configurations, their inputs, and options of
all of them.
"""
_GENERATE = frozenset({"decoder", "mixture of experts", "state space"})


def model_cases() -> dict[str, ModelCase]:
    """All cases by name; torchvision's where that package is installed."""
    cases = [
        ModelCase(
            name=name,
            family=family,
            make=_transformer(auto, name, {**shared, **options}),
            inputs=inputs,
            generates=family in _GENERATE,
        )
        for family, (auto, models, inputs, shared) in FAMILIES.items()
        for name, options in models.items()
    ]
    if importlib.util.find_spec("torchvision") is not None:
        from tools.conformance.models.torchvision_models import NAMES, classifier, image

        cases += [
            ModelCase(name=f"torchvision-{name}", family="torchvision", make=classifier(name), inputs=image)
            for name in NAMES
        ]
    return {case.name: case for case in cases}


def _transformer(auto: str, model_type: str, options: Options) -> Callable[[], nn.Module]:
    def make() -> nn.Module:
        import transformers

        config = transformers.AutoConfig.for_model(model_type, **options)
        model: nn.Module = getattr(transformers, auto).from_config(config)
        return model.eval()

    return make
