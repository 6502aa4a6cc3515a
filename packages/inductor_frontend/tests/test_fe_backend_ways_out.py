"""Modes and options of Inductor, which the backend refuses with what to do instead; and that this works."""

from __future__ import annotations

import dataclasses
import re
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import Tensor
from torch._dynamo.utils import counters

from inductor_frontend import CaptureError, CaptureOptions
from inductor_frontend.backend import BackendOptions, inductor_options, lowered
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


def test_each_option_that_a_capture_sets_is_named_with_its_way_out() -> None:
    refused(
        {"triton.cudagraphs": True, "size-asserts": False, "speed": 11},
        "wrapper_ir sets itself: size-asserts, triton.cudagraphs\n",
        "\n  size-asserts: `layout_asserts`",
        '\n  triton.cudagraphs: `options={"persistent_buffers": True}`',
    )
    refused({"memory_planning": True}, "memory_planning: leave it out: a capture does not follow it")


def test_options_of_inductor() -> None:
    """They are patched while a function is compiled; padding is a capture's own."""
    parsed = BackendOptions.parse(
        {"epilogue-fusion": False, "max_autotune": False, "pad_channels_last": True, "layout_asserts": False}
    )
    assert parsed.inductor == {"epilogue_fusion": False, "pad_channels_last": True}
    assert parsed.capture.padding.pad_channels_last
    assert not parsed.capture.layout_asserts
    assert not torch._inductor.config.pad_channels_last
    refused({"epilogue_fusion": "yes"}, "epilogue_fusion", "bool")


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


@pytest.mark.parametrize("by", ["options", "configuration"])
def test_inductors_configuration_is_followed(by: str) -> None:
    """A sum of four elements is unrolled, or a loop, as the option says while the function is compiled; so is its gradient's,
    which is compiled later."""

    def total(x: Tensor) -> Tensor:
        return (x.sum(-1) ** 2).sum()

    sources = []
    for threshold in (8, 1):
        torch._dynamo.reset()
        mine, x = Recording(), torch.randn(64, 4, requires_grad=True)
        setting = {"unroll_reductions_threshold": threshold}
        options: dict[str, Any] = {"emitter": mine, "cache": False, **(setting if by == "options" else {})}
        with torch._inductor.config.patch(setting if by == "configuration" else {}):
            torch.testing.assert_close(
                torch.compile(total, backend="wrapper_ir", options=options)(x), total(x)
            )
        sources.append("".join(mine.sources))
    unrolled, looped = (source.count("for(") for source in sources)
    assert unrolled < looped


@pytest.mark.parametrize("cached", [False, True])
def test_options_reach_graphs_that_are_compiled_later(
    cached: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    seen: list[int] = []
    compile = lowered.compile_anew

    def watching(*args: Any) -> Any:
        seen.append(torch._inductor.config.unroll_reductions_threshold)
        return compile(*args)

    monkeypatch.setattr(lowered, "compile_anew", watching)
    options: dict[str, Any] = {"cache": cached and str(tmp_path), "unroll_reductions_threshold": 3}
    y = torch.compile(torch.sin, backend="wrapper_ir", options=options)(torch.randn(4, requires_grad=True))
    torch.autograd.backward(y.sum())
    assert seen == [3, 3]


def test_counts_of_inductor_are_kept_with_a_graph(tmp_path: Path) -> None:
    """Kernels and matches count as they do where the graph is lowered, and lookups as Inductor's."""
    found = []
    for _ in range(2):
        torch._dynamo.reset()
        torch._inductor.metrics.reset()
        counters.clear()
        function = torch.compile(
            lambda x, y: (x @ y + x).sin().sum(), backend="wrapper_ir", options={"cache": str(tmp_path)}
        )
        function(torch.randn(4, 4), torch.randn(4, 4))
        mine = dict(counters["inductor"])
        lookups = mine.pop("fxgraph_cache_miss", 0), mine.pop("fxgraph_cache_hit", 0)
        found.append((torch._inductor.metrics.generated_kernel_count, mine, lookups))
    (kernels, matches, missed), (again, same, hit) = found
    assert kernels == again > 0
    assert matches == same
    assert (missed, hit) == ((1, 0), (0, 1))
