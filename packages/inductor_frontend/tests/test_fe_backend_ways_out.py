"""Modes and options of Inductor, which the backend refuses with what to do instead; and that this works."""

from __future__ import annotations

import dataclasses
import re
from dataclasses import dataclass, field
from typing import Any

import pytest
import torch
from torch import Tensor

from inductor_frontend import CaptureError, CaptureOptions
from inductor_frontend.backend import BackendOptions, inductor_options
from wrapper_ir.artifact import Artifact
from wrapper_ir.guarded import NOT_GUARDED, Guarded
from wrapper_ir.kernels import CppKernel
from wrapper_ir.protocols import CompiledProgram
from wrapper_ir.registry import emitter

KNOWN = {f.name for f in dataclasses.fields(CaptureOptions)} | {"emitter", "persistent_buffers", "passes"}


def refused(options: dict[str, Any], *parts: str) -> None:
    """`options` are refused with FE103, in a message with these parts."""
    with pytest.raises(CaptureError) as caught:
        BackendOptions.parse(options)
    assert caught.value.code == "FE103"
    for part in parts:
        assert part in str(caught.value)


@pytest.mark.parametrize(
    ("mode", "way_out"),
    [
        ("reduce-overhead", "persistent_buffers"),
        ("max-autotune", "multi_kernels.*persistent_buffers"),
        ("max-autotune-no-cudagraphs", "WRAPPER_IR_TRITON_TUNE"),
        ("lite", "leave it out"),
    ],
)
def test_modes_of_inductor(mode: str, way_out: str) -> None:
    with pytest.raises(Exception, match=rf"(?s)FE103.*mode.*hint: .*{way_out}"):
        torch.compile(torch.sin, backend="wrapper_ir", mode=mode)(torch.randn(3))


def test_every_mode_of_inductor_has_a_way_out() -> None:
    assert set(torch._inductor.list_mode_options()) - {"default"} <= set(inductor_options._MODES)


def test_a_mode_of_nobody() -> None:
    with pytest.raises(CaptureError, match=r"(?s)FE103.*'fast'.*leave it out.*reduce-overhead"):
        inductor_options.require_default_mode("fast")


def test_each_option_of_inductor_is_named_with_its_way_out() -> None:
    refused(
        {"epilogue_fusion": False, "triton.cudagraphs": True, "size-asserts": True, "speed": 11},
        "backend wrapper_ir: epilogue_fusion, size-asserts, triton.cudagraphs\n",
        '\n  epilogue_fusion: `with torch._inductor.config.patch({"epilogue_fusion": False}):`',
        "\n  size-asserts: `layout_asserts`",
        '\n  triton.cudagraphs: `options={"persistent_buffers": True}`',
    )
    refused({"pad_channels_last": True}, '`options={"padding": {"pad_channels_last": True}}`')
    refused({"memory_planning": True}, "memory_planning: leave it out: a capture does not follow it")


def test_a_name_that_is_nearly_right() -> None:
    refused({"persistent_buffer": True}, "did you mean 'persistent_buffers'?")


def test_what_messages_name_exists() -> None:
    for name, advice in inductor_options._COUNTERPARTS.items():
        assert inductor_options.is_inductors(name), name
        assert {a or b for a, b in re.findall(r"^`(\w+)`$|^`(\w+)` is", advice)} <= KNOWN, name
    assert set(re.findall(r'"(\w+)": ', "".join(inductor_options._MODES.values()))) <= KNOWN


@dataclass
class Recording:
    """The emitter `python`, which remembers the sources of the kernels that it compiled."""

    name: str = "recording"
    sources: list[str] = field(default_factory=list)

    def compile(self, artifact: Artifact, guarded: Guarded = NOT_GUARDED) -> CompiledProgram:
        self.sources += [k.source for k in artifact.program.kernels if isinstance(k, CppKernel)]
        return emitter("python").compile(artifact, guarded)


def test_patching_inductors_configuration_is_followed() -> None:
    """A sum of four elements is unrolled, or a loop, as the option says while the function is compiled."""

    def total(x: Tensor) -> Tensor:
        return x.sum(-1)

    sources = []
    for threshold in (8, 1):
        torch._dynamo.reset()
        mine, x = Recording(), torch.randn(64, 4)
        options: dict[str, Any] = {"emitter": mine, "cache": False}
        with torch._inductor.config.patch({"unroll_reductions_threshold": threshold}):
            torch.testing.assert_close(
                torch.compile(total, backend="wrapper_ir", options=options)(x), x.sum(-1)
            )
        sources.append("".join(mine.sources))
    unrolled, looped = (source.count("for(") for source in sources)
    assert unrolled < looped
