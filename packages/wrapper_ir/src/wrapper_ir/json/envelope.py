"""The outermost object of a document: format, version, and the document's fields."""

from __future__ import annotations

from dataclasses import dataclass

from wrapper_ir.json.codec import Schema
from wrapper_ir.json.decode import array, fault, field, obj, string
from wrapper_ir.support.json_value import Json
from wrapper_ir.support.versions import Form


@dataclass(frozen=True, slots=True)
class Envelope:
    """The outermost object of a format: `{"format": name, "version": ..., ...}`."""

    name: str
    form: Form

    def close(self, body: Json) -> dict[str, Json]:
        """Returns the document of these fields."""
        return {"format": self.name, "version": self.form.version, **obj(body)}

    def open(self, document: dict[str, Json]) -> dict[str, Json]:
        """Returns the fields of a document, upgraded to the current version.

        Raises Fault: WIR521 another format, WIR501 an unsupported version.
        """
        if document.get("format") != self.name:
            fault(f'"format" is not "{self.name}"')
        version = field(document, "version", string)
        steps = self.form.steps(version)
        if steps is None:
            fault(self.form.refusal(version), "WIR501")
        body = {name: x for name, x in document.items() if name not in ("format", "version")}
        for step in steps:
            body = step.apply(body)
        return body

    def schema(self, title: str, body: Schema, tables: Schema, definitions: Schema) -> Schema:
        """Returns the JSON Schema of documents with these fields, tables and the definitions they use."""
        own: Schema = {"format": {"const": self.name}, "version": {"const": self.form.version}, **tables}
        properties, required = obj(body["properties"]), array(body["required"])
        whole: Schema = {
            "$schema": "https://json-schema.org/draft/2020-12/schema",
            "title": title,
            **body,
            "properties": {**own, **properties},
            "required": [*own, *required],
        }
        whole["$defs"] = _definitions(whole, definitions)
        return whole


def _definitions(schema: Schema, definitions: Schema) -> Schema:
    """Returns the definitions that a schema refers to, directly or indirectly."""
    closure: Schema = {}
    worklist: list[Json] = [schema]
    while worklist:
        match worklist.pop():
            case {"$ref": str(target)}:
                name = target.removeprefix("#/$defs/")
                if name not in closure:
                    closure[name] = definitions[name]
                    worklist.append(closure[name])
            case dict(inner):
                worklist.extend(inner.values())
            case list(items):
                worklist.extend(items)
            case _:
                pass
    return closure
