"""The JSON form: canonical text, without pickle or evaluation.

Its JSON Schemas (draft 2020-12) are in `wrapper_ir/schema`; a test compares these files with the codecs.
"""

from wrapper_ir.json.program import from_json, program_schema, to_json
from wrapper_ir.json.signature import signature_from_json, signature_schema, signature_to_json

__all__ = [
    "SCHEMAS",
    "from_json",
    "program_schema",
    "signature_from_json",
    "signature_schema",
    "signature_to_json",
    "to_json",
]

SCHEMAS = {"program.schema.json": program_schema, "signature.schema.json": signature_schema}
"""Generators of the schema files in `wrapper_ir/schema`."""
