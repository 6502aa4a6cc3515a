"""Steps of training on several GPUs: a model that is split by tensors, and one whose weights are shared out
(FSDP2).
"""

from __future__ import annotations

import copy
from collections.abc import Callable, Sequence
from functools import partial
from typing import Any

import torch
import torch.distributed as dist
from torch import Tensor, nn
from torch.distributed.device_mesh import init_device_mesh
from torch.distributed.fsdp import fully_shard
from torch.nn import functional as F
from transformers import GPT2Config, GPT2LMHeadModel

from tests.common.parallel_models import ParallelGpt
from tools.bench.collective_process import SIDES, Found, Rank, Settings, timed, told

# Any in this file: compiled callables
_STEPS = 20


def gpt(me: Rank) -> tuple[ParallelGpt, Tensor]:
    """GPT-2 small on the GPU, a tiny one elsewhere."""
    torch.manual_seed(me.rank)
    large = {"blocks": 12, "width": 768, "heads": 12, "words": 50304, "tokens": 128}
    small = {"blocks": 2, "width": 32, "heads": 4, "words": 128, "tokens": 16}
    sizes = large if me.on_gpu else small
    model = ParallelGpt(**sizes, world=me.world).to(me.device, me.dtype)
    for name, p in model.named_parameters():
        if p.dim() == 1 or "words" in name or "places" in name:  # whole on every process
            dist.broadcast(p.data, 0)
    ids = torch.randint(0, sizes["words"], (1, sizes["tokens"]), generator=torch.Generator().manual_seed(7))
    return model, ids.to(me.device)


def _losses(me: Rank, model: nn.Module, run: Callable[..., Any], ids: Tensor, steps: int) -> list[float]:
    optimizer = torch.optim.SGD(model.parameters(), lr=1e-2)
    return [float(_step(run, optimizer, ids)) for _ in range(steps)]


def _step(run: Callable[..., Any], optimizer: torch.optim.Optimizer, ids: Tensor) -> Tensor:
    loss: Tensor = run(ids)
    loss.backward()  # type: ignore[no-untyped-call]  # torch's own
    optimizer.step()
    optimizer.zero_grad(set_to_none=True)
    return loss.detach()


class _Loss(nn.Module):
    def __init__(self, model: nn.Module) -> None:
        super().__init__()
        self.model = model

    def forward(self, ids: Tensor) -> Tensor:
        output = self.model(ids)
        logits = (output if isinstance(output, Tensor) else output[0]).float()
        return F.cross_entropy(logits[:, :-1].flatten(0, 1), ids[:, 1:].flatten())


def gpt_training(me: Rank) -> Found:
    """GPT-2 small, split by tensors."""
    first, ids = gpt(me)

    def make(settings: Settings | None) -> tuple[nn.Module, Callable[..., Any]]:
        model = _Loss(copy.deepcopy(first))
        return model, model if settings is None else torch.compile(model, fullgraph=True, **settings)

    return _training(me, make, ids, ("torch.compile", "ours", "ours, FX", "ours, lowered"))


def fsdp_training(me: Rank) -> Found:
    """GPT-2 small with sharded weights (FSDP2) and compiled blocks; each process has separate tokens."""
    torch.manual_seed(0)
    large = {"n_layer": 12, "n_embd": 768, "n_head": 12, "vocab_size": 50304, "n_positions": 128}
    small = {"n_layer": 2, "n_embd": 32, "n_head": 4, "vocab_size": 128, "n_positions": 16}
    sizes = large if me.on_gpu else small
    ends = {"bos_token_id": 0, "eos_token_id": 0}
    config = GPT2Config(**sizes, **ends, resid_pdrop=0.0, embd_pdrop=0.0, attn_pdrop=0.0, use_cache=False)
    first = GPT2LMHeadModel(config).to(me.device)
    ids = torch.randint(
        0, sizes["vocab_size"], (1, sizes["n_positions"]), generator=torch.Generator().manual_seed(me.rank)
    )
    mesh = init_device_mesh(me.device.type, (me.world,))

    def make(settings: Settings | None) -> tuple[nn.Module, Callable[..., Any]]:
        model = _Loss(copy.deepcopy(first))
        for block in model.get_submodule("model.transformer.h").children():
            if settings is not None:
                block.compile(**settings)
            fully_shard(block, mesh=mesh)
        fully_shard(model, mesh=mesh)
        return model, model

    return _training(me, make, ids.to(me.device), ("torch.compile", "ours", "ours, FX"))


def _training(
    me: Rank,
    make: Callable[[Settings | None], tuple[nn.Module, Callable[..., Any]]],
    ids: Tensor,
    sides: Sequence[str],
) -> Found:
    """Runs steps of a model on each side; returns its curve of 20 losses, and its peak bytes."""
    calls: dict[str, Callable[[], object]] = {}
    curves: dict[str, list[float]] = {}
    peaks: dict[str, int] = {}
    failed: dict[str, str] = {}
    for side in ("eager", *sides):
        torch._dynamo.reset()
        why = ""
        try:
            model, run = make(None if side == "eager" else SIDES[side])
            _step(run, torch.optim.SGD(model.parameters(), lr=0.0), ids)
            if me.on_gpu:
                torch.cuda.reset_peak_memory_stats()
            before = torch.cuda.memory_allocated() if me.on_gpu else 0
            curves[side] = _losses(me, model, run, ids, _STEPS)
            peaks[side] = me.memory() - before
        except Exception as error:  # a side that fails must not end the run
            why = told(error)
        reasons: list[str | None] = [None] * me.world
        dist.all_gather_object(reasons, why, me.calm)
        if any(reasons):
            failed[side] = next(text for text in reasons if text)
        else:
            optimizer = torch.optim.SGD(model.parameters(), lr=1e-3)
            calls[side] = partial(_step, run, optimizer, ids)
    return {"failed": failed, "times": timed(me, calls), "curves": curves, "held": peaks}
