"""A training step of GPT-2 small, and its memory in a separate process."""

from __future__ import annotations

import copy
import gc
from collections.abc import Callable, Mapping
from typing import Any

import torch
from torch import Tensor, nn

from tools.bench.bench_memory_gpu import gpt2_small

NAME = "GPT-2 small, training step of 4 x 128 tokens"

Settings = Mapping[str, Any]  # Any: keywords of torch.compile
_WARM = 6
"""Steps after which every graph is captured."""


def training_step(model: nn.Module, settings: Settings | None) -> Callable[[], Tensor]:
    """Returns a training step of a copy of the model, compiled with `settings`, which returns its loss."""
    own = copy.deepcopy(model).train()
    run: Any = own if settings is None else torch.compile(own, **settings)  # a module, to its users
    optimizer = torch.optim.AdamW(own.parameters(), lr=1e-5)
    ids = torch.randint(0, 50257, (4, 128), generator=torch.Generator().manual_seed(0)).cuda()

    def step() -> Tensor:
        optimizer.zero_grad(set_to_none=True)
        logits: Tensor = run(ids)[0]
        loss = nn.functional.cross_entropy(logits[:, :-1].flatten(0, 1), ids[:, 1:].flatten())
        del logits  # autograd keeps the parts that it needs
        torch.autograd.backward(loss)
        optimizer.step()
        return loss.detach().clone()

    return step


def step_memory(settings: Settings | None) -> dict[str, float]:
    """Returns the peak bytes that torch's allocator has from the driver during a step, and the bytes
    allocated then.

    Cached blocks are released before it. In a process that has compiled anything before, both depend on the
    remaining memory.
    """
    model = gpt2_small()
    step = training_step(model, settings)
    del model
    for _ in range(_WARM):
        step()
    gc.collect()
    torch.cuda.synchronize()
    torch.cuda.empty_cache()
    torch.cuda.reset_peak_memory_stats()
    step()
    torch.cuda.synchronize()
    return {
        "reserved": float(torch.cuda.max_memory_reserved()),
        "allocated": float(torch.cuda.max_memory_allocated()),
    }
