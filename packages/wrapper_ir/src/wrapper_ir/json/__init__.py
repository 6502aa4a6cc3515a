"""The JSON form: canonical text, without pickle or evaluation.

Its JSON Schemas (draft 2020-12) are in `wrapper_ir/schema`; a test compares these files with the codecs.

Names are imported on first use: other readers of JSON use `decode` without the codecs of programs.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from wrapper_ir.support.lazy import loaded_on_use

if TYPE_CHECKING:
    from wrapper_ir.json.program import from_json, program_schema, to_json
    from wrapper_ir.json.signature import signature_from_json, signature_schema, signature_to_json

__all__ = [
    "from_json",
    "program_schema",
    "signature_from_json",
    "signature_schema",
    "signature_to_json",
    "to_json",
]

_MODULES = {
    "program": ("from_json", "program_schema", "to_json"),
    "signature": ("signature_from_json", "signature_schema", "signature_to_json"),
}
"""The public names of each module; a test compares them with `__all__`."""

__getattr__, __dir__ = loaded_on_use(__name__, _MODULES)
