"""Models of the zoo in the form of `wir capture`."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from torch import nn

from tests.common.zoo import ZOO

Made = tuple[nn.Module, tuple[Any, ...], Mapping[str, Any]]  # Any: a model's arguments are its own


def _made(name: str) -> Made:
    case = ZOO[name]()
    return case.model, case.args, case.kwargs or {}


def mlp() -> Made:
    """Four linear layers."""
    return _made("mlp")


def mlp_cuda() -> Made:
    """Four linear layers on a CUDA device."""
    model, args, kwargs = mlp()
    return model.cuda(), tuple(x.cuda() for x in args), kwargs


def gpt2() -> Made:
    """GPT-2 with two blocks."""
    return _made("gpt2")


def lstm() -> Made:
    """A bidirectional LSTM."""
    return _made("lstm")
