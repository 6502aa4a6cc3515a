"""Models of the zoo as `wir capture` takes them."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from torch import nn

from tests.common.zoo import ZOO

__all__ = ["gpt2", "lstm", "mlp"]

Made = tuple[nn.Module, tuple[Any, ...], Mapping[str, Any]]  # Any: a model's arguments are its own


def _made(name: str) -> Made:
    case = ZOO[name]()
    return case.model, case.args, case.kwargs or {}


def mlp() -> Made:
    """Four linear layers."""
    return _made("mlp")


def gpt2() -> Made:
    """GPT-2 with two blocks."""
    return _made("gpt2")


def lstm() -> Made:
    """A bidirectional LSTM."""
    return _made("lstm")
