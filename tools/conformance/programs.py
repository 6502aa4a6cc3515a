"""The programs of a case, from torch.export, or from torch.compile graph by graph."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from enum import StrEnum
from typing import Any, Literal, Protocol

import torch

import inductor_frontend
from inductor_frontend import CaptureOptions
from tools.conformance.cases import Call
from tools.conformance.collector import Collector, Graphs, How
from tools.conformance.compare import observe
from wrapper_ir.artifact import Artifact


class Kernels(StrEnum):
    """Language of the kernels."""

    CPP = "cpp"
    TRITON = "triton"
    """Run by Triton's interpreter."""
    GPU = "gpu"
    """Triton's, compiled for the GPU on which the inputs are."""

    @property
    def device(self) -> str:
        """Device of the inputs."""
        return "cuda" if self is Kernels.GPU else "cpu"

    @property
    def on_cpu(self) -> Literal["cpp", "triton"]:
        """Capture option for programs on the CPU."""
        return "triton" if self is Kernels.TRITON else "cpp"


class Source(StrEnum):
    """Source of a case's programs. The stages that need programs run on all of them."""

    EXPORT = "torch.export"
    """`capture`: one program for the whole case."""
    COMPILE = "torch.compile"
    """For cases that torch.export refuses: the graphs of `torch.compile(backend="wrapper_ir")`, with Python
    running between them at graph breaks.
    """


class Programs(Protocol):
    """The programs of a case."""

    @property
    def source(self) -> Source:
        """Source of the programs."""
        ...

    @property
    def artifacts(self) -> tuple[Artifact, ...]:
        """All of them."""
        ...

    def runner(self, how: How) -> Callable[..., Any]:  # Any: an operator's results are its own
        """The case's function, with every program run by `how`."""
        ...


@dataclass(frozen=True, slots=True)
class _Exported:
    artifact: Artifact
    source: Source = Source.EXPORT

    @property
    def artifacts(self) -> tuple[Artifact, ...]:
        return (self.artifact,)

    def runner(self, how: How) -> Callable[..., Any]:
        return how(self.artifact)


@dataclass(frozen=True, slots=True)
class _Compiled:
    graphs: Graphs
    compiled: Callable[..., Any]
    source: Source = Source.COMPILE

    @property
    def artifacts(self) -> tuple[Artifact, ...]:
        return tuple(self.graphs.artifacts)

    def runner(self, how: How) -> Callable[..., Any]:
        self.graphs.run_with(how)
        return self.compiled


def capture(call: Call, kernels: Kernels) -> Programs:
    """Captures the whole case as one program, not yet verified.

    Raises the exceptions of the frontend's `capture`.
    """
    options = CaptureOptions(verify=False, cpu_kernels=kernels.on_cpu)
    return _Exported(inductor_frontend.capture(call.function, call.inputs, options=options))


def collect(call: Call, seed: int, how: How, kernels: Kernels) -> Programs:
    """Collects the graphs of `torch.compile` in a first call, in which they run by `how`; none are verified.

    Raises exceptions of compilation. If a graph raises when it runs, later graphs are missing: running it
    again reports that.
    """
    torch._dynamo.reset()
    graphs = Graphs(how)
    options: dict[str, Any]  # torch.compile does not declare objects, which this backend accepts
    options = {"emitter": Collector(graphs), "verify": False, "cpu_kernels": kernels.on_cpu}
    compiled = torch.compile(call.function, backend="wrapper_ir", options=options)
    try:
        observe(call, compiled, seed)
    except Exception:
        if not graphs.failed:
            raise
    return _Compiled(graphs, compiled)
