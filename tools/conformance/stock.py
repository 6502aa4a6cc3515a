"""The oracle for the cases that count: whether Inductor's own compiler gets a case right."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from tempfile import TemporaryDirectory
from typing import Any

import torch
from torch._dynamo.utils import counters
from torch._inductor import config as inductor_config

from tools.conformance.cases import Call, CaseId
from tools.conformance.compare import UNDEFINED_VALUES, Observed, assert_same, observe

_FX = {"fx_wrapper": True, "size_asserts": False, "alignment_asserts": False, "scalar_asserts": False}
"""Inductor's converter refuses its own checks, which are lines of text."""


@dataclass(frozen=True, slots=True)
class Verdict:
    """`graphs` were compiled (0: eager ran everything); `error` is empty where the results are eager's."""

    graphs: int
    error: str = ""


def judge(case: CaseId, call: Call, *, fx: bool = False) -> Verdict:
    """Compiles the case with stock `torch.compile`, to FX graphs or else to its Python wrapper, and compares
    it with eager. Raises eager's exceptions.

    Random numbers are drawn as in eager; only then can they be compared.
    """
    want = observe(call, call.function, case.seed)
    torch._dynamo.reset()
    counters.clear()
    try:
        with inductor_config.patch({"fallback_random": True, **(_FX if fx else {})}):
            got = observe(call, torch.compile(call.function), case.seed)
        assert_same(got, want, call, values=case.op not in UNDEFINED_VALUES)
    except Exception as error:
        return Verdict(
            counters["stats"]["unique_graphs"], f"{type(error).__name__}: {' '.join(str(error).split())}"
        )
    return Verdict(counters["stats"]["unique_graphs"])


def judge_library(case: CaseId, call: Call) -> Verdict:
    """Builds the case with AOTInductor, and compares it with eager through its package loader.

    Raises eager's exceptions.
    """
    want = observe(call, call.function, case.seed)
    try:
        with inductor_config.patch({"fallback_random": True}), TemporaryDirectory() as folder:
            exported = torch.export.export(_Module(call.function), call.inputs)
            path = torch._inductor.aoti_compile_and_package(exported, package_path=f"{folder}/m.pt2")
            got = observe(call, torch._inductor.aoti_load_package(path), case.seed)
        assert_same(got, want, call, values=case.op not in UNDEFINED_VALUES)
    except Exception as error:
        return Verdict(1, f"{type(error).__name__}: {' '.join(str(error).split())}")
    return Verdict(1)


class _Module(torch.nn.Module):
    """A function as a module."""

    def __init__(self, function: Callable[..., Any]) -> None:  # Any: an operator's results are its own
        super().__init__()
        self.function = function

    def forward(self, *inputs: torch.Tensor) -> Any:
        return self.function(*inputs)


def stock_values(call: Call, seed: int) -> Observed:
    """Returns the results of stock `torch.compile`. Raises its exceptions."""
    torch._dynamo.reset()
    return observe(call, torch.compile(call.function), seed)
