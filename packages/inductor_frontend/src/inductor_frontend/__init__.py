"""PyTorch to Wrapper IR: capture what Inductor scheduled as a typed program."""

from inductor_frontend.errors import BackendError, CaptureError, ConversionError, HookError
from inductor_frontend.frontend import FRONTEND, InductorFrontend, capture
from inductor_frontend.options import CaptureOptions, PaddingOptions

__all__ = [
    "FRONTEND",
    "BackendError",
    "CaptureError",
    "CaptureOptions",
    "ConversionError",
    "HookError",
    "InductorFrontend",
    "PaddingOptions",
    "capture",
]
