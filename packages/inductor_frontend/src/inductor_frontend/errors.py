"""Exceptions of inductor_frontend, each with a stable code (FEnnn).

| code | meaning |
| --- | --- |
| FE101 | the model could not be exported |
| FE102 | an input or output of the model has a type that a signature cannot express |
| FE103 | an option is unknown or has an invalid value |
| FE104 | Inductor refused to lower the graph |
| FE105 | the model changes the storage of a tensor in a way that a signature cannot express |
| FE106 | inputs share memory that the model writes, and cannot be merged into one |
| FE107 | the model changes Python objects while it runs, which a program cannot |
| FE108 | programs for several instruction sets differ in more than the sources of their kernels |
| FE109 | a node-by-node eager run cannot pass the arguments of the graph |
| FE110 | an exported program may mix up tensors: a fake kernel returned its argument as a new tensor |
| FE201 | Inductor wrote a wrapper line that has no typed form here |
| FE202 | Inductor called a wrapper hook that capture does not support |
| FE203 | capture does not support an Inductor node class |
| FE301 | a library operator cannot be expressed (no schema, or no out variant) |
| FE302 | an argument of a library call has no typed form |
| FE303 | a kernel definition does not have the expected shape |
| FE304 | a symbol is used that nothing defines |
| FE305 | a dtype, device or layout has no counterpart in the IR |
| FE306 | a constant cannot be stored |
| FE307 | a view cannot be expressed |
| FE310 | a collective cannot be expressed |
| FE360 | Inductor compiles a graph that the backend cannot compile (a warning) |
| FE361 | a piece to be saved needs gradients |
| FE362 | a piece cannot be saved |
| FE363 | a file contains no piece of this torch version, or its guards do not match the trace |
| FE364 | a piece is called with another number of inputs |
| FE370 | the package of a device does not load, or describes none |
| FE401 | no emitter of this name, or the emitter failed |
| FE402 | a backward graph that could not be compiled is called again |
| FE403 | compiled autograd needs the graph of a backward function that was loaded from the cache or a file |
| FE404 | a compilation cannot be written to the dump folder |
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from wrapper_ir.errors import WirError


class CaptureError(WirError, RuntimeError):
    """A model cannot be captured (FE1nn)."""


class HookError(CaptureError):
    """Inductor did something that capture has no hook for (FE2nn)."""


class ConversionError(CaptureError):
    """A part of a captured graph cannot be expressed in the IR (FE3nn)."""


class BackendError(WirError, RuntimeError):
    """The torch.compile backend failed (FE36n, FE4nn)."""


class SettingWarning(UserWarning):
    """An option of Inductor is set that has no effect."""


class FallbackWarning(UserWarning):
    """Inductor compiles a graph itself (FE360); `refusal` is the error of the backend, with its code."""

    code = "FE360"

    def __init__(self, refusal: WirError) -> None:
        self.refusal = refusal
        super().__init__(
            f"[{self.code}] Inductor itself compiles a function that the wrapper_ir backend cannot compile, "
            f"because of {refusal}\n  To report it, send this message and the traceback of "
            'torch.compile(..., options={"on_unsupported": "error"}).'
        )


def at_node(name: str, source: str) -> str:
    """Formats the place of an error: Inductor's name and the source op; '' if both are unknown."""
    parts = [f"Inductor's {name}" if name else "", f"from {source}" if source else ""]
    text = ", ".join(p for p in parts if p)
    return f" ({text})" if text else ""


@contextmanager
def torch_step(code: str, what: str, hint: str = "") -> Iterator[None]:
    """Converts exceptions of torch to CaptureError with `code`.

    A `WirError` or an interrupt is raised unchanged, even if torch wraps it in another exception.
    """
    try:
        yield
    except WirError:
        raise
    except Exception as error:
        own = error.__cause__ or error.__context__
        while isinstance(own, Exception) and not isinstance(own, WirError):
            own = own.__cause__ or own.__context__
        if own is not None:
            raise own from error
        raise CaptureError(code, f"{what}: {error}", hint=hint) from error
