"""Modes and options of Inductor: their effect in the backend or the alternative, which works."""

from __future__ import annotations

import dataclasses
import re
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import Tensor, nn
from torch._dynamo.utils import counters

from inductor_frontend import CaptureError, CaptureOptions
from inductor_frontend.backend import BackendOptions, inductor_options, lowered
from tests.common.torch_versions import since
from wrapper_ir import ir
from wrapper_ir.artifact import Artifact
from wrapper_ir.plugins.protocols import CompiledProgram
from wrapper_ir.plugins.registry import emitter

KNOWN = {f.name for f in dataclasses.fields(CaptureOptions)} | {
    "emitter",
    "persistent_buffers",
    "passes",
    "cuda_graphs",
    "tune",
}


_NEW = {"triton.cudagraph_min_partition_size": "2.12"}
"""Options that came after torch 2.11, with the version that brought them."""


def refused(options: dict[str, Any], *parts: str) -> None:
    """`options` are refused with FE103, in a message with these parts."""
    with pytest.raises(CaptureError) as caught:
        BackendOptions.parse(options)
    assert caught.value.code == "FE103"
    for part in parts:
        assert part in str(caught.value)


@pytest.mark.parametrize(
    ("mode", "chosen"),
    [
        ("default", (0, "extern", False, False)),
        ("reduce-overhead", (16, "extern", False, False)),
        ("max-autotune-no-cudagraphs", (0, "candidates", True, True)),
        ("max-autotune", (16, "candidates", True, True)),
    ],
)
def test_modes_of_inductor(mode: str, chosen: tuple[object, ...]) -> None:
    """They imply options, and also work on a CPU, where nothing is captured."""
    options = BackendOptions.parse({}, mode)
    assert (
        options.cuda_graphs,
        options.capture.matmuls,
        options.capture.multi_kernels,
        options.tune,
    ) == chosen
    x = torch.randn(3, 3)
    torch.testing.assert_close(torch.compile(torch.mm, backend="wrapper_ir", mode=mode)(x, x), x @ x)


def test_options_go_before_modes() -> None:
    assert BackendOptions.parse({"cuda_graphs": 3}, "max-autotune").cuda_graphs == 3
    assert BackendOptions.parse({"triton.cudagraphs": True}).cuda_graphs == 16
    assert BackendOptions.parse({"triton.cudagraphs": False}, "reduce-overhead").cuda_graphs == 0
    with torch._inductor.config.patch({"triton.cudagraphs": True}):
        assert BackendOptions.parse({}).cuda_graphs == 16
        assert BackendOptions.parse({"cuda_graphs": 0}).cuda_graphs == 0


def test_emitters_that_cannot() -> None:
    options = BackendOptions.parse({"tune": True, "emitter": "cpp"})
    with pytest.raises(CaptureError, match=r"(?s)FE103.*'tune': the emitter 'cpp' cannot.*python"):
        options.find_emitter()
    refused({"cuda_graphs": True}, "'cuda_graphs' is True", "0 for none")
    refused({"cuda_graphs": -1}, "'cuda_graphs' is -1")


def test_each_emitter_says_what_it_captures() -> None:
    pipelines = {
        name: BackendOptions.parse({"emitter": name, "cuda_graphs": 4, "passes": "strip-debug"}).pipeline
        for name in ("python", "fx", "cpp")
    }
    assert pipelines == {
        "python": "cuda-graphs{donated=true},reuse-in-place,strip-debug",
        "fx": "cuda-graphs{donated=true},reuse-in-place,strip-debug",
        "cpp": "cuda-graphs{own_memory=true},plan-memory,strip-debug",
    }


def test_memory_of_programs_for_a_gpu_is_planned() -> None:
    """Unless another option determines memory."""
    others = (
        {"planned_memory": False},
        {"persistent_buffers": True},
        {"passes": "strip-debug"},
        {"cuda_graphs": 4},
    )
    assert BackendOptions.parse({}).pipeline == "plan-memory"
    assert [BackendOptions.parse(o).pipeline for o in others] == [
        "",
        "",
        "strip-debug",
        "cuda-graphs{donated=true},reuse-in-place",
    ]
    refused({"planned_memory": 1}, "'planned_memory' is 1", "True or False")


def test_every_mode_of_inductor_is_known() -> None:
    assert set(torch._inductor.list_mode_options()) == set(inductor_options._MODES)


def test_a_mode_of_nobody() -> None:
    with pytest.raises(Exception, match=r"(?s)FE103.*no mode 'fast'.*leave it out.*reduce-overhead"):
        torch.compile(torch.sin, backend="wrapper_ir", mode="fast")(torch.randn(3))


LITE = torch._inductor.list_mode_options("lite")


class Normed(nn.Module):
    """Layers that Inductor would decompose and fuse, a dropout, and a write to a buffer."""

    calls: torch.Tensor

    def __init__(self) -> None:
        super().__init__()
        self.linear = nn.Linear(4, 8)
        self.norm = nn.LayerNorm(8)
        self.register_buffer("calls", torch.zeros(()))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        self.calls += 1
        x = self.norm(self.linear(x).relu()).softmax(-1)
        return nn.functional.dropout(x.flatten() + x.shape[0], 0.5)


@pytest.mark.parametrize("emitter", ["python", "fx", pytest.param("cpp", marks=pytest.mark.slow)])
@pytest.mark.parametrize("dynamic", [False, True])
def test_lite_calls_operators_as_eager_mode_does(emitter: str, dynamic: bool, tmp_path: Path) -> None:
    """Forward, backward, and from the cache: equal to the last bit, random numbers too."""
    torch.manual_seed(0)
    model, x = Normed(), torch.randn(3, 4)
    options = {**LITE, "emitter": emitter, "cache": str(tmp_path), "on_unsupported": "error"}
    for _ in range(2):
        torch._dynamo.reset()
        compiled = torch.compile(model, backend="wrapper_ir", dynamic=dynamic, options=options)
        programs = []
        for run in (compiled, model):
            torch.manual_seed(1)
            model.zero_grad()
            result = run(x)
            (result * result).sum().backward()
            programs.append([result.detach(), *(p.grad for p in model.parameters())])
        torch.testing.assert_close(programs[0], programs[1], rtol=0, atol=0)
    assert model.calls == 4


def test_lite_has_no_kernels() -> None:
    sources = Recording()
    torch._dynamo.reset()
    options = {**LITE, "emitter": sources, "cache": False, "on_unsupported": "error"}
    compiled = torch.compile(Normed(), backend="wrapper_ir", options=options)
    compiled(torch.randn(3, 4)).sum().backward()
    assert sources.sources == []


def test_lite_is_a_mode() -> None:
    torch._dynamo.reset()
    x = torch.randn(3)
    torch.testing.assert_close(torch.compile(torch.sin, backend="wrapper_ir", mode="lite")(x), x.sin())
    assert BackendOptions.parse({}, "lite").inductor == BackendOptions.parse(LITE).inductor
    assert BackendOptions.parse({"use-dce": True}, "lite").inductor["use_dce"] is True


def test_each_option_that_a_capture_sets_is_named_with_its_way_out() -> None:
    refused(
        {"triton.cudagraph_skip_dynamic_graphs": True, "size-asserts": False, "speed": 11},
        "wrapper_ir sets itself: size-asserts, triton.cudagraph_skip_dynamic_graphs\n",
        "\n  size-asserts: `layout_asserts`",
        '\n  triton.cudagraph_skip_dynamic_graphs: `options={"cuda_graphs": N}`',
    )
    refused({"memory_planning": True}, 'memory_planning: `options={"passes": "plan-memory"}` plans')


def test_options_of_inductor() -> None:
    """They are patched while a function is compiled; padding is an option of capture."""
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
        assert inductor_options.is_inductors(name) or not since(_NEW.get(name, "2.11")), name
        assert {a or b for a, b in re.findall(r"^`(\w+)`$|^`(\w+)` is", advice)} <= KNOWN, name
    for options in inductor_options._MODES.values():
        assert all(option in KNOWN or inductor_options.is_inductors(option) for option in options)


@dataclass
class Recording:
    """The emitter `python`, which records the sources of the kernels that it compiled."""

    name: str = "recording"
    sources: list[str] = field(default_factory=list)

    def compile(self, artifact: Artifact, guarded: ir.Guarded = ir.NOT_GUARDED) -> CompiledProgram:
        self.sources += [k.source for k in artifact.program.kernels if isinstance(k, ir.CppKernel)]
        return emitter("python").compile(artifact, guarded)


@pytest.mark.parametrize("by", ["options", "configuration"])
def test_inductors_configuration_is_followed(by: str) -> None:
    """A sum of four elements is unrolled or a loop, depending on the option at compile time.

    The same option applies to its gradient, which is compiled later.
    """

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
    counts: list[int] = []
    compile = lowered.compile_anew

    def watching(*args: Any) -> Any:
        counts.append(torch._inductor.config.unroll_reductions_threshold)
        return compile(*args)

    monkeypatch.setattr(lowered, "compile_anew", watching)
    options: dict[str, Any] = {"cache": cached and str(tmp_path), "unroll_reductions_threshold": 3}
    y = torch.compile(torch.sin, backend="wrapper_ir", options=options)(torch.randn(4, requires_grad=True))
    torch.autograd.backward(y.sum())
    assert counts == [3, 3]


def test_counts_of_inductor_are_kept_with_a_graph(tmp_path: Path) -> None:
    """Kernels and matches count as in a lowering, and lookups as Inductor's."""
    totals = []
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
        totals.append((torch._inductor.metrics.generated_kernel_count, mine, lookups))
    (kernels, matches, missed), (again, same, hit) = totals
    assert kernels == again > 0
    assert matches == same
    assert (missed, hit) == ((1, 0), (0, 1))
