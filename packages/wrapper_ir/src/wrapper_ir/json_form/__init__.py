"""The JSON form: canonical text, no pickle, no evaluation. Its JSON Schema ships in `wrapper_ir/schema`."""

from wrapper_ir.json_form.program import from_json, to_json
from wrapper_ir.json_form.signature import signature_from_json, signature_to_json

__all__ = ["from_json", "signature_from_json", "signature_to_json", "to_json"]
