"""`torch.compile(model, backend="wrapper_ir")`: torch's compile flow with our inner compiler and our own cache."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

from torch.fx import GraphModule

from inductor_frontend.backend.function import compile_function
from inductor_frontend.backend.options import BackendOptions
from inductor_frontend.functionalize.resizes import lend

__all__ = ["BackendOptions", "wrapper_ir_backend"]


def wrapper_ir_backend(
    gm: GraphModule,
    example_inputs: Sequence[Any],  # Any: tensors, symbolic and plain numbers
    *,
    options: Mapping[str, Any] | None = None,  # Any: as the user typed them
    mode: str | None = None,
) -> Callable[..., Any]:
    """The backend's entry point, called by torch's frontend for each graph.

    Compiled code never enters torch's caches, nor comes from them. Raises CaptureError (FE103 for options and
    modes that are not understood), HookError, ConversionError and BackendError.
    """
    return compile_function(lend(gm, example_inputs), example_inputs, BackendOptions.parse(options, mode))
