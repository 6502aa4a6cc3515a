"""The model that the benchmarks of torch.compile share: a GPT-2 of transformers, small."""

from __future__ import annotations

import os

import torch
from torch import Tensor, nn

_VOCABULARY = 1000


def small_gpt2() -> nn.Module:
    """4 blocks of width 256, 8 heads, 1,000 tokens to choose from, no dropout.

    The same weights in every process.
    """
    os.environ.setdefault("HF_HUB_OFFLINE", "1")
    # Imported here because it takes seconds, which only some processes need.
    from transformers import GPT2Config, GPT2LMHeadModel

    torch.manual_seed(0)
    config = GPT2Config(
        n_layer=4, n_embd=256, n_head=8, n_positions=128, vocab_size=_VOCABULARY,
        resid_pdrop=0.0, embd_pdrop=0.0, attn_pdrop=0.0, bos_token_id=0, eos_token_id=0, loss_type="ForCausalLM",
    )  # fmt: skip
    model: nn.Module = GPT2LMHeadModel(config)
    return model


def tokens() -> Tensor:
    """4 sequences of 64 tokens."""
    torch.manual_seed(1)
    return torch.randint(0, _VOCABULARY, (4, 64))
