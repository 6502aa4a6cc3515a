"""Graph modules of IR text, and their calls."""

from __future__ import annotations

from packages.py_wrapper.tests.py_case import HEADER, find_runtime
from torch import fx

import fx_converter
import wrapper_ir
from fx_converter import FxOptions
from fx_converter.kernels import KernelCalls
from wrapper_ir.artifact import bare_artifact


def graph(text: str, form: KernelCalls = "hop") -> fx.GraphModule:
    artifact = bare_artifact(wrapper_ir.parse_program(HEADER + text))
    return fx_converter.convert(artifact, FxOptions(kernel_calls=form, find_runtime=find_runtime))


def called(module: fx.GraphModule) -> list[str]:
    """Returns the names of call targets, in order, after the check of inputs."""
    nodes = [n for n in module.graph.nodes if n.op == "call_function" and n.name != "check_inputs"]
    return [str(getattr(n.target, "__name__", n.target)) for n in nodes]
