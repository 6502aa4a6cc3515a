"""Side effects of a model on Python objects are refused: a program cannot perform them."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import pytest
import torch
from torch import Tensor, nn

from inductor_frontend import capture
from wrapper_ir.errors import WirError
from wrapper_ir.plugins.registry import machine
from wrapper_ir_runtime.interp import call

# Any in this file: models, their arguments and results.


def refused(code: str, *parts: str) -> Any:
    """Expects an error of this code with these words in its message."""
    return pytest.raises(WirError, match=r"(?s)" + ".*".join([rf"\[{code}\]", *parts]))


def x() -> Tensor:
    return torch.ones(4, 3)


@dataclass
class Point:
    """A class that is not registered with pytree."""

    a: Any
    b: Any


class Remembers(nn.Module):
    """Mutates itself in one of several ways."""

    def __init__(self, what: str) -> None:
        super().__init__()
        self.what = what
        self.calls = 0
        self.seen: list[Any] = []
        self.last: Any = None

    def forward(self, x: Tensor) -> Any:
        if self.what == "calls":
            self.calls += 1
        elif self.what == "seen":
            self.seen.append(x + 1)
        elif self.what == "last":
            self.last = x + 1
        elif self.what == "new":
            self.new = 3
        return x + 1


class TestPythonObjects:
    @pytest.mark.parametrize("what", ["calls", "seen", "last", "new"])
    def test_attributes(self, what: str) -> None:
        model = nn.Sequential(Remembers("nothing"), Remembers(what))
        with refused("FE107", rf"1\.{what}", "hint"):
            capture(model, (x(),))
        assert model[1].calls == 0

    def test_arguments(self) -> None:
        def adds(d: dict[str, Tensor]) -> Any:
            d["y"] = d["x"] + 1
            return d["y"]

        def replaces(p: Any) -> Any:
            p.a = p.a + 1
            return p.a * 2

        for function, value in ((adds, {"x": x()}), (replaces, Point(x(), None))):
            with refused("FE107", "container", "hint"):
                capture(function, (value,))

    def test_what_stays_as_it_is(self) -> None:
        model = nn.Sequential(Remembers("nothing"), nn.LSTM(3, 3))
        artifact = capture(model, (x(),))
        assert len(call(artifact, machine("torch"), (x(),))) == 2
