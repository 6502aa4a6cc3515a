"""Converts Wrapper IR to readable Python source, and to a callable."""

from py_wrapper.emit.program import EmittedModule
from py_wrapper.emitter import EMITTER, PythonEmitter, compile, emit, write
from py_wrapper.machine import TORCH_MACHINE, TorchMachine
from py_wrapper.options import PyOptions

__all__ = [
    "EMITTER",
    "TORCH_MACHINE",
    "EmittedModule",
    "PyOptions",
    "PythonEmitter",
    "TorchMachine",
    "compile",
    "emit",
    "write",
]
