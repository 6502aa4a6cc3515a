"""Every exception that inductor_frontend raises, each with a stable code (FEnnn).

| code | meaning |
| --- | --- |
| FE101 | the model could not be exported |
| FE102 | an input or output of the model has a type that has no place in a signature |
| FE103 | an option value is not understood |
| FE104 | Inductor refused to lower the graph |
| FE105 | the model changes the storage of a tensor in a way that a signature cannot say |
| FE106 | inputs share memory that the model writes, and cannot be taken as one |
| FE107 | the model changes Python objects while it runs, which a program cannot |
| FE108 | programs for several instruction sets differ in more than the sources of their kernels |
| FE109 | eager runs node by node cannot give the graph its arguments |
| FE110 | an exported program may mix up tensors, because a fake kernel returned its argument as a new tensor |
| FE201 | Inductor wrote a wrapper line that has no typed form here |
| FE202 | Inductor called a wrapper hook that capture does not support |
| FE203 | an Inductor node class is not known to capture |
| FE301 | a library operator cannot be expressed (no schema, or no out variant) |
| FE302 | an argument of a library call has no typed form |
| FE303 | a kernel definition does not have the expected shape |
| FE304 | a symbol is used that nothing defines |
| FE305 | a dtype, device or layout has no counterpart in the IR |
| FE306 | a constant cannot be stored |
| FE307 | a view cannot be expressed |
| FE310 | a collective cannot be expressed |
| FE360 | a graph is compiled by Inductor itself, since it cannot be compiled here (a warning) |
| FE361 | a piece to be kept needs gradients |
| FE362 | a piece cannot be kept |
| FE363 | a file holds no piece of this torch, or one that does not fit the trace |
| FE364 | a piece is called with another number of inputs |
| FE370 | the package of a device does not load, or describes none |
| FE401 | no emitter of this name, or the emitter failed |
| FE402 | a backward graph that could not be compiled is called again |
| FE403 | compiled autograd wants the graph of a backward function that came out of the cache |
| FE404 | a compilation cannot be written to the folder that was asked for |
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
    """Something captured has no form in the IR (FE3nn)."""


class BackendError(WirError, RuntimeError):
    """The torch.compile backend cannot go on (FE4nn)."""


class SettingWarning(UserWarning):
    """An option of Inductor is set that nothing follows."""


class FallbackWarning(UserWarning):
    """Inductor compiles a graph itself (FE360): `refusal` says, with its code, why it is not compiled here."""

    code = "FE360"

    def __init__(self, refusal: WirError) -> None:
        self.refusal = refusal
        super().__init__(
            f"[{self.code}] Inductor itself compiles a function that the wrapper_ir backend cannot compile, because of "
            f"{refusal}\n  To report it, send this message, and the traceback that "
            'torch.compile(..., options={"on_unsupported": "error"}) gives.'
        )


def at_node(name: str, source: str) -> str:
    """The place of an error: Inductor's name and the source op, as far as they are known."""
    parts = [f"Inductor's {name}" if name else "", f"from {source}" if source else ""]
    text = ", ".join(p for p in parts if p)
    return f" ({text})" if text else ""


@contextmanager
def torch_step(code: str, what: str, hint: str = "") -> Iterator[None]:
    """Errors of ours pass, and interrupts, also out of the exceptions that torch raises on their way; all others become
    `code`."""
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
