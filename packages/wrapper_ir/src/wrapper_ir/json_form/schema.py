"""The JSON Schemas (draft 2020-12) of programs and signatures, made by the codecs that encode and decode.

The files in `wrapper_ir/schema` are written from here; a test compares them.
"""

from __future__ import annotations

from wrapper_ir.json_form.program import program_schema
from wrapper_ir.json_form.signature import signature_schema

__all__ = ["SCHEMAS", "program_schema", "signature_schema"]

SCHEMAS = {"program.schema.json": program_schema, "signature.schema.json": signature_schema}
"""The shipped files and what makes them."""
