"""Exceptions that fx_converter raises, each with a stable code.

Limits of every target are wrapper_ir's NotSupportedError (WIR91n); failures at run time are its
ExecutionError.

| code | meaning |
| --- | --- |
| FX101 | a program is not valid: `wrapper_ir.verify` says why |
| FX102 | a constant has no data, or too little |
| FX103 | an option has a value that it cannot have |
| FX104 | the source of a Triton kernel does not load |
| FX105 | a graph interpreter cannot return the model's outputs |
| FX106 | a program has an op that the options, or the compiler behind the graph, forbid |
| FX107 | a compiled program cannot run from files: a compiler of graphs created its code |
| FX108 | torch fails to create the nodes of an op, or their fake values |
| FX201 | a graph cannot be saved: a file cannot name a target, an argument or an attribute |
| FX202 | a saved graph is damaged, or there is none in the file |
| FX203 | a saved graph is of another version, or of another release of torch |
| FX204 | a saved graph calls an operator that this process does not have |
| FX205 | a saved graph replaces a tensor's memory, or creates a window outside of it |
"""

from __future__ import annotations

from wrapper_ir.errors import WirError


class FxConverterError(WirError):
    """Base class of this package's errors."""


class ConvertError(FxConverterError):
    """Error of a conversion to a graph (FX10n)."""


class SavedGraphError(FxConverterError):
    """Error of saving a graph, or of reading a saved one (FX20n)."""


class GraphPicklingError(SavedGraphError, TypeError):
    """Error of pickling a graph module (FX201); a TypeError, as for all objects that Python cannot pickle."""
