"""The backend of `torch.compile(model, backend="wrapper_ir")`."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from torch._functorch import config as functorch_config
from torch.fx import GraphModule

from inductor_frontend.backend.function import compile_function
from inductor_frontend.backend.options import BackendOptions

if TYPE_CHECKING:
    from torch._inductor.utils import InputType

__all__ = ["BackendOptions", "wrapper_ir_backend"]


def wrapper_ir_backend(
    gm: GraphModule,
    example_inputs: Sequence[InputType],  # tensors, symbolic and plain numbers
    *,
    options: Mapping[str, object] | None = None,  # values as the user typed them
    mode: str | None = None,
) -> Callable[..., Any]:  # Any: the results of the graph
    """Compiles one graph; the entry point that Dynamo calls for each graph.

    Compiled code is neither stored in torch's caches nor loaded from them. Raises CaptureError (FE103 for
    unknown options and modes), HookError, ConversionError and BackendError.
    """
    if _is_ahead():
        from inductor_frontend.backend.ahead import compile_ahead  # deferred: rarely needed

        return compile_ahead(gm, example_inputs, options, mode)
    return compile_function(gm, example_inputs, BackendOptions.parse(options, mode))


def _is_ahead() -> bool:
    """Returns whether Dynamo compiles ahead of time, derived from its settings of AOTAutograd's cache."""
    settings = ("bundled_autograd_cache", "force_non_lazy_backward_lowering", "bypass_autograd_cache_key")
    return all(getattr(functorch_config, name, False) for name in settings)  # some exist in newer torch only
