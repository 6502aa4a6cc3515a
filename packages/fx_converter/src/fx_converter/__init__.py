"""Converts Wrapper IR to torch.fx graphs, which contain every op, can be saved and loaded, and run fast.

Names are imported on first use: a saved graph needs few of them.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from wrapper_ir.support.lazy import loaded_on_use

if TYPE_CHECKING:
    from fx_converter.boxed import boxed_call, boxed_source
    from fx_converter.compilers import GraphCompiler
    from fx_converter.converter import convert
    from fx_converter.emitter import EMITTER, FxEmitter, compile
    from fx_converter.options import FxOptions
    from fx_converter.saving import load, save
    from fx_converter.tuning import KernelTuning

__all__ = [
    "EMITTER",
    "FxEmitter",
    "FxOptions",
    "GraphCompiler",
    "KernelTuning",
    "boxed_call",
    "boxed_source",
    "compile",
    "convert",
    "load",
    "save",
]

_MODULES = {
    "boxed": ("boxed_call", "boxed_source"),
    "compilers": ("GraphCompiler",),
    "converter": ("convert",),
    "emitter": ("EMITTER", "FxEmitter", "compile"),
    "options": ("FxOptions",),
    "saving": ("load", "save"),
    "tuning": ("KernelTuning",),
}
"""The public names of each module; a test compares them with `__all__`."""

__getattr__, __dir__ = loaded_on_use(__name__, _MODULES)
