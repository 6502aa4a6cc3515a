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

_HOME = {
    "Analyses": "analysis.memo",
    "Artifact": "artifact.model",
    "OperatorPolicy": "operators.policy",
    "Program": "ir.program",
    "TensorData": "artifact.model",
    "check": "verifier",
    "from_json": "json",
    "load": "artifact.file",
    "parse_program": "text",
    "print_program": "text",
    "save": "artifact.file",
    "sign": "artifact.file",
    "to_json": "json",
    "verify": "verifier",
}
"""The module of each public name; a test compares the keys with `__all__`."""

__getattr__, __dir__ = loaded_on_use(__name__, _HOME)
