"""Programs as JSON: `from_json(to_json(p)) == p`, and equal programs have equal text."""

from __future__ import annotations

import dataclasses
from functools import partial

from wrapper_ir import ir
from wrapper_ir.json.decode import dump, field, load
from wrapper_ir.json.envelope import Envelope
from wrapper_ir.json.model_codecs import CODECS, Decoder, Encoder, codecs_of
from wrapper_ir.support.collection import paused_collection
from wrapper_ir.support.json_value import Json
from wrapper_ir.support.versions import PROGRAM_JSON

PROGRAM_ENVELOPE = Envelope("wrapper-ir-program", PROGRAM_JSON)

_SYMBOLS = CODECS.of(tuple[ir.SymbolDef, ...])
_TYPES = CODECS.of(tuple[ir.Type, ...])
_PROVENANCES = CODECS.of(tuple[ir.Provenance, ...])


@paused_collection()
def to_json(program: ir.Program, ops: ir.OpSet = ir.OPS) -> str:
    """Returns the canonical JSON of a program; its schema is `schema/program.schema.json`.

    `ops` are the allowed ops; raises TypeError for any other.
    """
    e = Encoder()
    document = PROGRAM_ENVELOPE.close(codecs_of(ops).of(ir.Program).encode(e, program))
    document["types"] = _TYPES.encode(e, tuple(e.types))
    document["provenance"] = _PROVENANCES.encode(e, tuple(e.provenances))
    return dump(document)


@paused_collection()
def from_json(text: str, ops: ir.OpSet = ir.OPS) -> ir.Program:
    """Decodes the program in `text`. The result is not verified.

    Raises ParseError, with the place as a JSON path:

    - WIR013, WIR014 operand or result of a kind that the op does not accept
    - WIR501 another version, WIR506 defined twice, WIR507 unknown provenance
    - WIR520 no JSON, WIR521 wrong structure, WIR522 unknown word
    - WIR551 undeclared symbol, WIR552 undefined value, WIR553 nested too deeply
    """
    return load(text, partial(decode_program, ops=ops))


def decode_program(
    document: dict[str, Json], envelope: Envelope = PROGRAM_ENVELOPE, ops: ir.OpSet = ir.OPS
) -> ir.Program:
    """Decodes the program of a parsed document. Raises Fault."""
    body = envelope.open(document)
    d = Decoder()
    symbols = field(body, "symbols", partial(_SYMBOLS.decode, d)) if "symbols" in body else ()
    d.types = field(body, "types", partial(_TYPES.decode, d))
    d.provenances = field(body, "provenance", partial(_PROVENANCES.decode, d))
    rest = {name: x for name, x in body.items() if name not in ("symbols", "types", "provenance")}
    program: ir.Program = codecs_of(ops).of(ir.Program).decode(d, rest)
    return dataclasses.replace(program, symbols=symbols)


def program_schema(ops: ir.OpSet = ir.OPS) -> dict[str, Json]:
    """Returns the JSON Schema of `to_json`."""
    codecs = codecs_of(ops)
    codecs.of(ir.Program)
    body = codecs.definitions["program"]
    tables: dict[str, Json] = {
        "types": codecs.of(tuple[ir.Type, ...]).schema,
        "provenance": codecs.of(tuple[ir.Provenance, ...]).schema,
    }
    return PROGRAM_ENVELOPE.schema("Wrapper IR program", body, tables, {**codecs.definitions})
