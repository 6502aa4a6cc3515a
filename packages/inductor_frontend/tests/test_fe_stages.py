"""Stages of a capture: the model passes through each stage once."""

from __future__ import annotations

import sys
from itertools import groupby
from pathlib import Path
from types import FrameType

import torch
from torch import fx, nn
from torch.export import ExportedProgram

import inductor_frontend

ROOT = f"{Path(inductor_frontend.__file__).parent}/"
STAGES = ("export", "functionalize", "guards", "record", "translate")


def stages_given_the_model(model: nn.Module, x: torch.Tensor) -> list[str]:
    """Returns the stages whose functions receive the model, an exported program or a graph, in call order."""
    stages: list[str] = []
    frames: set[FrameType] = set()  # frames, alive: a generator that goes on is called once

    def note(frame: FrameType, event: str, _: object) -> None:
        path = frame.f_code.co_filename
        if event != "call" or not path.startswith(ROOT) or frame in frames:
            return
        frames.add(frame)
        parameters = frame.f_code.co_varnames[: frame.f_code.co_argcount + frame.f_code.co_kwonlyargcount]
        values = [frame.f_locals.get(name) for name in parameters]
        if any(isinstance(value, nn.Module | ExportedProgram | fx.Graph) for value in values):
            stages.append(path.removeprefix(ROOT).partition("/")[0])

    inductor_frontend.capture(model, (x,))  # torch prepares its patterns once, which is long when profiled
    sys.setprofile(note)
    try:
        inductor_frontend.capture(model, (x,))
    finally:
        sys.setprofile(None)
    return [stage for stage, _ in groupby(stage for stage in stages if stage in STAGES)]


def test_the_model_passes_each_stage_once() -> None:
    model = nn.Sequential(nn.Linear(8, 8), nn.ReLU(), nn.Linear(8, 4))
    # `translate` gets what was recorded, and no graph of torch's
    assert stages_given_the_model(model, torch.ones(3, 8)) == list(STAGES[:-1])
