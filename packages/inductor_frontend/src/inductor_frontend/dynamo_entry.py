"""Entry point of `torch.compile(model, backend="wrapper_ir")`.

Torch looks up a backend without a lock. If several threads compile at once, each loads the entry point and
registers its object, and all but the first raise "duplicate name". This entry point registers the backend
itself, once, and returns None to torch. `register_backend` treats None as a call without a function and
registers nothing, and the lookup continues with the registered backend.
"""

from __future__ import annotations

import threading

_NAME = "wrapper_ir"
_LOCK = threading.Lock()


def register() -> None:
    """Registers the backend in torch, unless it is registered."""
    # Imported here: it is loaded when a backend is looked up.
    from torch._dynamo.backends import registry

    from inductor_frontend.backend import wrapper_ir_backend

    with _LOCK:
        if _NAME not in registry._COMPILER_FNS:
            registry.register_backend(compiler_fn=wrapper_ir_backend, name=_NAME)


def __getattr__(name: str) -> None:
    """Registers the backend when the entry point's object, `registered`, is read."""
    if name != "registered":
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    register()
