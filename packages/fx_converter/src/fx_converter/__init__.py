"""Converts Wrapper IR to torch.fx graphs, which contain every op, can be saved and loaded, and run fast."""

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
