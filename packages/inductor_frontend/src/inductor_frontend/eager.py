"""Runs the graph that a capture lowers with PyTorch's operators, node by node."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import nullcontext
from typing import Any

import torch
from torch import fx
from torch.export import ExportedProgram
from torch.utils import _pytree as pytree

from inductor_frontend.errors import CaptureError
from inductor_frontend.export.combinations import traced_combinations
from inductor_frontend.export.empty_sizes import layouts_of_empty_tensors, with_empty_sizes
from inductor_frontend.export.exported import export_model
from inductor_frontend.export.mixed_up import refuse_mixed_up
from inductor_frontend.export.torch_export import any_size
from inductor_frontend.functionalize.joint_passes import with_joint_passes
from inductor_frontend.functionalize.pieces import sized_writes
from inductor_frontend.functionalize.preparation import FunctionalModel, functional_model
from inductor_frontend.options import CaptureOptions
from inductor_frontend.session import capture_session
from wrapper_ir.plugins.eager import EagerRun, EagerValue

# Any in this file: the user's models and their arguments.


def eager_run(
    model: torch.nn.Module | Callable[..., object] | ExportedProgram,
    args: tuple[object, ...],
    kwargs: Mapping[str, object],
    *,
    dynamic_shapes: object = None,
    options: CaptureOptions | None = None,
) -> EagerRun:
    """Returns the functional graph of a model with these arguments, ready to run.

    Its nodes have the names that a capture with the same options uses in the provenance of ops. Raises
    CaptureError (FE1nn), FE109 for arguments that are tensor subclasses or share memory that the model
    writes.
    """
    options = with_empty_sizes(options or CaptureOptions(), dynamic_shapes, args, kwargs)
    refuse_mixed_up(model)
    layouts = layouts_of_empty_tensors() if options.empty_sizes else nullcontext()
    with capture_session(options), sized_writes(), traced_combinations(), layouts:
        exported = export_model(model, args, kwargs, dynamic_shapes, empty_sizes=options.empty_sizes)
        with any_size():
            functional = with_joint_passes(functional_model(exported), packed_weights=options.packed_weights)
    if functional.flat.unwraps or functional.merged.windows:
        raise CaptureError(
            "FE109",
            "inputs of the graph are parts of arguments, which a node-by-node eager run cannot pass",
            hint="compare with plain tensors that do not share memory",
        )
    return _EagerGraph(functional, pytree.tree_leaves((args, dict(kwargs))))


class _EagerGraph:
    """The `EagerRun` of a functional model."""

    def __init__(self, model: FunctionalModel, leaves: Sequence[Any]) -> None:
        self._model = model
        self._leaves = leaves

    @property
    def constants(self) -> Mapping[str, torch.Tensor]:
        """The tensors of the model, by each of their names."""
        roles = self._model.roles.values()
        return {name: role.data.detach() for role in roles for name in (role.name, *role.names)}

    def values(self) -> Iterator[EagerValue]:
        """Runs the graph and yields the value of each node; see `EagerRun`."""
        interpreter = fx.Interpreter(self._model.gm)
        interpreter.args_iter = iter([self._input(node.name) for node in self._model.inputs])
        with torch.no_grad():
            for node in self._model.gm.graph.nodes:
                if node.op == "output":
                    return
                result = interpreter.run_node(node)
                interpreter.env[node] = result
                for last in interpreter.user_to_last_uses.get(node, ()):
                    del interpreter.env[last]
                if node.op != "placeholder":
                    parts = result if isinstance(result, tuple | list) else (result,)
                    for part in parts:
                        if isinstance(part, torch.Tensor | bool | int | float):
                            yield EagerValue(node=node.name, value=part)

    def _input(self, name: str) -> object:
        """Returns a copy of the value of a placeholder, since the graph may write it."""
        role = self._model.roles.get(name)
        value = self._leaves[self._model.flat.leaves[name]] if role is None else role.data
        if not isinstance(value, torch.Tensor):
            return value
        moved = value.detach() if role is None or role.device is None else value.detach().to(role.device)
        return moved.clone()
