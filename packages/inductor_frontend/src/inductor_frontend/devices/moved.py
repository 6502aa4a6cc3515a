"""Moves a copy of an exported program to another device.

`torch.export.passes.move_to_device_pass` moves programs in place, with their tensors. Here a copy of the
graph is moved; the tensors stay.
"""

from __future__ import annotations

import copy

import torch
from torch import fx
from torch._subclasses.fake_tensor import FakeTensor
from torch.export import ExportedProgram
from torch.fx.node import Argument, map_aggregate
from torch.utils import _pytree as pytree

from inductor_frontend.errors import CaptureError
from wrapper_ir_torch.graph_modules import graph_modules, nested_nodes


def moved_program(program: ExportedProgram, device: torch.device) -> ExportedProgram:
    """Returns a copy whose graph has `device` in place of the CPU: in the values of its inputs and nodes, and
    in arguments.

    This includes uses of the CPU that the model itself requests. State and constants are shared with
    `program`. Raises CaptureError FE103 for operators that exist on the CPU only.
    """
    moved = copy.copy(program)
    moved._graph_module = copy.deepcopy(program.graph_module)
    fakes: dict[int, FakeTensor] = {}
    nodes = zip(nested_nodes(program.graph_module), nested_nodes(moved.graph_module), strict=True)
    for original, node in nodes:
        _check(node, device)
        node.name = original.name  # signatures refer to nodes by name, and a copy may rename them
        node.args = map_aggregate(node.args, lambda x: _elsewhere(x, device))
        node.kwargs = map_aggregate(node.kwargs, lambda x: _elsewhere(x, device))
        if "val" in node.meta:
            node.meta["val"] = pytree.tree_map(lambda x: _fake(x, device, fakes), node.meta["val"])
    for part in graph_modules(moved.graph_module):
        part.recompile()
    return moved


def _check(node: fx.Node, device: torch.device) -> None:
    name = str(node.target)
    if node.op == "call_function" and ("for_cpu" in name or name.startswith(("mkldnn.", "onednn."))):
        raise CaptureError(
            "FE103",
            f"the exported program calls {name}, which {device.type} does not have",
            hint="capture the model, or the program before its decompositions were run",
        )


def _elsewhere(argument: Argument, device: torch.device) -> Argument:
    return device if isinstance(argument, torch.device) and argument.type == "cpu" else argument


def _fake(value: object, device: torch.device, fakes: dict[int, FakeTensor]) -> object:
    if not isinstance(value, FakeTensor) or value.fake_device.type != "cpu":
        return value
    if id(value) not in fakes:
        with value.fake_mode, torch.no_grad():
            moved = value.detach()
        assert isinstance(moved, FakeTensor)
        moved.fake_device = device
        fakes[id(value)] = moved
    return fakes[id(value)]
