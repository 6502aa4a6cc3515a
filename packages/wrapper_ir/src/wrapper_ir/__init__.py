"""A compiler's wrapper program as a value: build, print, parse, check, store, step through and emit it.

Names are loaded when they are first used, so that `import wrapper_ir` costs next to nothing.
"""

from __future__ import annotations

from wrapper_ir.support.lazy import loaded_on_use

TYPE_CHECKING = False  # true for type checkers; the module `typing` would be most of the cost of this import

if TYPE_CHECKING:
    from wrapper_ir.analysis.memo import Analyses
    from wrapper_ir.artifact import Artifact, TensorData
    from wrapper_ir.artifact.file import load, save, sign
    from wrapper_ir.ir import Program
    from wrapper_ir.json import from_json, to_json
    from wrapper_ir.operators.policy import OperatorPolicy
    from wrapper_ir.text import parse_program, print_program
    from wrapper_ir.verifier import check, verify

__all__ = [
    "Analyses",
    "Artifact",
    "OperatorPolicy",
    "Program",
    "TensorData",
    "check",
    "from_json",
    "load",
    "parse_program",
    "print_program",
    "save",
    "sign",
    "to_json",
    "verify",
]

_MODULES = {
    "analysis.memo": ("Analyses",),
    "artifact.file": ("load", "save", "sign"),
    "artifact.model": ("Artifact", "TensorData"),
    "ir.program": ("Program",),
    "json": ("from_json", "to_json"),
    "operators.policy": ("OperatorPolicy",),
    "text": ("parse_program", "print_program"),
    "verifier": ("check", "verify"),
}
"""The public names of each module; a test compares them with `__all__`."""

__getattr__, __dir__ = loaded_on_use(__name__, _MODULES)
