"""Runs Inductor's joint-graph passes on a functional graph, and packs weights if requested."""

from __future__ import annotations

from dataclasses import replace

import torch
from torch._guards import detect_fake_mode
from torch._inductor.compile_fx import _recursive_joint_graph_passes
from torch._inductor.virtualized import V
from torch._subclasses.fake_tensor import FakeTensorMode

from inductor_frontend.errors import torch_step
from inductor_frontend.functionalize.packed_linear import join_packed_linear
from inductor_frontend.functionalize.packing import channels_last_weights, pack_weights
from inductor_frontend.functionalize.pattern_registration import patterns_as_needed
from inductor_frontend.functionalize.preparation import FunctionalModel
from wrapper_ir_torch.int8_matmuls import show_int8_matmuls


def with_joint_passes(model: FunctionalModel, *, packed_weights: bool) -> FunctionalModel:
    """Returns the model with a simplified graph. Raises CaptureError FE104."""
    values = [n.meta.get("val") for n in model.gm.graph.nodes]
    fake_mode = detect_fake_mode(values) or FakeTensorMode(allow_non_fake_inputs=True)
    with (
        V.set_fake_mode(fake_mode),
        torch_step("FE104", "Inductor's joint passes fail"),
        patterns_as_needed(),
    ):
        # Patterns are traced once a process, on this device; a match is traced again on the device of the
        # graph.
        gm = _recursive_joint_graph_passes(model.gm, input_device=torch.device("cpu"))
        join_packed_linear(gm)
        roles = channels_last_weights(gm, model.roles)
        if packed_weights:
            gm = pack_weights(gm, roles)
        else:
            show_int8_matmuls(gm, {name: role.data for name, role in roles.items() if not role.mutable})
    return replace(model, gm=gm, roles=roles)
