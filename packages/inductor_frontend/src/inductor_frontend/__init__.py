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

_HOME = {
    "FRONTEND": "frontend",
    "BackendError": "errors",
    "CaptureError": "errors",
    "CaptureOptions": "options",
    "CompiledPiece": "backend.standalone",
    "ConversionError": "errors",
    "HookError": "errors",
    "InductorFrontend": "frontend",
    "ModelExplanation": "backend.explaining",
    "PaddingOptions": "options",
    "capture": "frontend",
    "dump_compilation": "backend.dumping",
    "explain": "backend.explaining",
    "load_cache_artifacts": "cache",
    "load_piece": "backend.standalone",
    "save_cache_artifacts": "cache",
    "standalone_compile": "backend.standalone",
}
"""The module of each public name; a test compares the keys with `__all__`."""

__getattr__, __dir__ = loaded_on_use(__name__, _HOME)
