"""JSON form of signatures."""

from __future__ import annotations

from wrapper_ir import ir
from wrapper_ir.json.decode import dump, load
from wrapper_ir.json.envelope import Envelope
from wrapper_ir.json.model_codecs import CODECS, Decoder, Encoder
from wrapper_ir.support.json_value import Json
from wrapper_ir.support.versions import SIGNATURE_JSON

SIGNATURE_ENVELOPE = Envelope("wrapper-ir-signature", SIGNATURE_JSON)

_SIGNATURE = CODECS.of(ir.Signature)


def signature_to_json(signature: ir.Signature) -> str:
    """Returns the canonical JSON of a signature; its schema is `schema/signature.schema.json`."""
    return dump(SIGNATURE_ENVELOPE.close(_SIGNATURE.encode(Encoder(), signature)))


def signature_from_json(text: str) -> ir.Signature:
    """Decodes the signature in `text`. Raises ParseError as `from_json` does."""
    signature: ir.Signature = load(text, lambda x: _SIGNATURE.decode(Decoder(), SIGNATURE_ENVELOPE.open(x)))
    return signature


def signature_schema() -> dict[str, Json]:
    """Returns the JSON Schema of `signature_to_json`."""
    return SIGNATURE_ENVELOPE.schema(
        "Wrapper IR signature", CODECS.definitions["signature"], {}, {**CODECS.definitions}
    )
