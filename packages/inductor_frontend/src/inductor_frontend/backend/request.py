"""The request that torch passes to an inner compiler."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import torch
from torch import fx
from torch._inductor.virtualized import V
from torch.fx import GraphModule

from inductor_frontend.errors import CaptureError
from inductor_frontend.guards.checks import ModelCheck
from inductor_frontend.lazy_bits import is_lazy
from inductor_frontend.torch_patches._compat import shape_env_from_inputs

if TYPE_CHECKING:
    from torch._inductor.utils import InputType
    from torch.fx.experimental.symbolic_shapes import ShapeEnv


@dataclass(frozen=True, slots=True)
class GraphRequest:
    """The arguments of an inner compiler: a graph, its inputs, and `facts`, the keyword arguments.

    Facts about CUDA graphs (`cudagraphs`, `boxed_forward_device_index`), labels and logs are ignored.
    """

    gm: GraphModule
    inputs: Sequence[InputType]
    facts: Mapping[str, Any]  # Any: each fact has its own type
    checks: Sequence[ModelCheck] = ()
    """The model's assertions, with the messages of its author."""

    @property
    def is_backward(self) -> bool:
        """True for a backward graph."""
        return bool(self.facts.get("is_backward", False))

    @property
    def lazy_inputs(self) -> tuple[int, ...]:
        """Positions of inputs that may have the conjugate or negative bit.

        Dynamo guards the bits of a function's inputs. Tensors that a forward graph saves have the bits of the
        trace. A tangent comes from code that torch has not traced.
        """
        nodes = self.gm.graph.find_nodes(op="placeholder")
        pairs = enumerate(zip(self.inputs, nodes, strict=True))
        return tuple(
            n for n, (x, node) in pairs if isinstance(x, torch.Tensor) and self._may_be_lazy(x, node)
        )

    def _may_be_lazy(self, x: torch.Tensor, node: fx.Node) -> bool:
        if is_lazy(x):
            return True
        is_traced = not self.is_backward or not (x.is_complex() or node.name.startswith("tangents"))
        return not is_traced and (x.is_complex() or x.is_floating_point())

    @property
    def static_inputs(self) -> tuple[int, ...]:
        """Positions of weights and of tensors that a forward graph saves: their memory is the same in each
        call."""
        lazy = self.lazy_inputs
        return tuple(n for n in self.facts.get("static_input_idxs", ()) if n not in lazy)

    @property
    def kind(self) -> str:
        """`backward`, `inference` or `forward`."""
        if self.is_backward:
            return "backward"
        return "inference" if self.facts.get("is_inference") else "forward"

    @property
    def shape_env(self) -> ShapeEnv | None:
        """The ShapeEnv of the graph's sizes; None if all are constant."""
        env = getattr(self.gm, "shape_env", None)  # autograd stores it there
        return shape_env_from_inputs(self.inputs) if env is None else env

    def check(self) -> None:
        """Raises CaptureError FE103 if torch requests a kind of code that the backend does not emit."""
        kinds = [name for name in ("cpp_wrapper", "fx_wrapper") if self.facts.get(name)]
        kinds += ["aot_mode"] if V.aot_compilation or self.facts.get("aot_mode") else []
        kinds += ["extern_node_serializer"] if self.facts.get("extern_node_serializer") else []
        if kinds:
            raise CaptureError(
                "FE103",
                f"torch requests {', '.join(kinds)}, which this backend does not support",
                hint="export the model and use inductor_frontend.capture, then an emitter",
            )
