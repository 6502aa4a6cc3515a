"""The entry point of `torch.compile(model, backend="wrapper_ir")`.

Torch looks a backend up without a lock. Threads that compile at once each miss it, load its entry point and register what they got,
and all but the first raise "duplicate name". This entry point registers the backend itself, once, and gives torch None, which
`register_backend` takes as a call without a function: it registers nothing, and the lookup goes on with the backend that is there.
"""

from __future__ import annotations

import threading

_NAME = "wrapper_ir"
_LOCK = threading.Lock()


def register() -> None:
    """Registers the backend in torch, unless it is registered."""
    from torch._dynamo.backends import registry  # loaded by whoever looks a backend up

    from inductor_frontend.backend import wrapper_ir_backend

    with _LOCK:
        if _NAME not in registry._COMPILER_FNS:
            registry.register_backend(compiler_fn=wrapper_ir_backend, name=_NAME)


def __getattr__(name: str) -> None:
    """Registers the backend when the entry point's object, `registered`, is read."""
    if name != "registered":
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    register()
