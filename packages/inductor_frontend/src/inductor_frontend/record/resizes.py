"""Refuses functional graphs in which torch no longer knows which tensor's storage a model resizes."""

from __future__ import annotations

from collections.abc import Iterator

import torch
from torch import fx

from inductor_frontend.errors import CaptureError

_COPY = torch.ops.aten.copy_.default
_RESIZE = torch.ops.inductor.resize_storage_bytes_.default


def check_resizes(gm: fx.GraphModule) -> None:
    """Raises CaptureError FE105 if a functional graph does not define which of two tensors is resized."""
    resizes = gm.graph.find_nodes(op="call_function", target=_RESIZE)
    copies = gm.graph.find_nodes(op="call_function", target=_COPY) if resizes else []
    for copy in copies:
        owner, value = copy.args[:2]
        assert isinstance(value, fx.Node)
        for resize in resizes:
            if resize.args[0] in {*_versions(value)} - {owner}:
                raise CaptureError(
                    "FE105",
                    f"the storage of {owner} is resized at node {resize.name}, after a write of the graph",
                    hint="resize it outside the compiled part, or before it is written",
                )


def _versions(value: fx.Node) -> Iterator[fx.Node]:
    """Yields a value and its versions before each write: functionalization replaced in-place operators by
    functions of them."""
    while True:
        yield value
        source = value.args[0] if value.op == "call_function" and value.args else None
        if not isinstance(source, fx.Node):
            return
        value = source
