"""Captures PyTorch models, as Inductor schedules them, as typed programs of Wrapper IR.

Names are imported on first use: a compiled function from the cache needs only a small part of this package.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from wrapper_ir.support.lazy import loaded_on_use

if TYPE_CHECKING:
    from inductor_frontend.backend.dumping import dump_compilation
    from inductor_frontend.backend.explaining import ModelExplanation, explain
    from inductor_frontend.backend.standalone import CompiledPiece, load_piece, standalone_compile
    from inductor_frontend.cache import load_cache_artifacts, save_cache_artifacts
    from inductor_frontend.errors import BackendError, CaptureError, ConversionError, HookError
    from inductor_frontend.frontend import FRONTEND, InductorFrontend, capture
    from inductor_frontend.options import CaptureOptions, PaddingOptions

__all__ = [
    "FRONTEND",
    "BackendError",
    "CaptureError",
    "CaptureOptions",
    "CompiledPiece",
    "ConversionError",
    "HookError",
    "InductorFrontend",
    "ModelExplanation",
    "PaddingOptions",
    "capture",
    "dump_compilation",
    "explain",
    "load_cache_artifacts",
    "load_piece",
    "save_cache_artifacts",
    "standalone_compile",
]

_MODULES = {
    "backend.dumping": ("dump_compilation",),
    "backend.explaining": ("ModelExplanation", "explain"),
    "backend.standalone": ("CompiledPiece", "load_piece", "standalone_compile"),
    "cache": ("load_cache_artifacts", "save_cache_artifacts"),
    "errors": ("BackendError", "CaptureError", "ConversionError", "HookError"),
    "frontend": ("FRONTEND", "InductorFrontend", "capture"),
    "options": ("CaptureOptions", "PaddingOptions"),
}
"""The public names of each module; a test compares them with `__all__`."""

__getattr__, __dir__ = loaded_on_use(__name__, _MODULES)
