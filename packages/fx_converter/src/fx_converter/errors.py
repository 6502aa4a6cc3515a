"""Every exception that fx_converter raises, each with a stable code.

What no target can do is wrapper_ir's NotSupportedError (WIR91n), what fails at run time its ExecutionError.

| code | meaning |
| --- | --- |
| FX101 | a program is not valid: `wrapper_ir.verify` says why |
| FX102 | a constant has no data, or too little |
| FX103 | an option has a value that it cannot have |
| FX104 | the source of a Triton kernel does not load |
| FX105 | a graph interpreter cannot give the model's outputs |
| FX106 | a program has an op that the options, or the compiler behind the graph, forbid |
| FX107 | a compiled program cannot run from files: a compiler of graphs made its code |
| FX108 | torch fails to make the nodes of an op, or their fake values |
| FX201 | a graph cannot be saved: a file cannot name what it calls or holds |
| FX202 | a saved graph is damaged, or there is none in the file |
| FX203 | a saved graph is of another version, or of another release of torch |
| FX204 | a saved graph calls an operator that this process does not have |
| FX205 | a saved graph gives a tensor other memory, or makes a window outside of what it lies in |
"""

from __future__ import annotations

from wrapper_ir.errors import WirError


class FxConverterError(WirError):
    """Base of this package's own errors."""


class ConvertError(FxConverterError):
    """A program cannot become a graph (FX10n)."""


class SavedGraphError(FxConverterError):
    """A graph cannot be saved, or a saved one cannot be read (FX20n)."""


class GraphPicklingError(SavedGraphError, TypeError):
    """A graph module was given to pickle (FX201); a TypeError, as of all that Python cannot pickle."""
