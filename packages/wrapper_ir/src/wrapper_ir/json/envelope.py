"""The outermost object of a document: its format, its version, and its fields beside them."""

from __future__ import annotations

from dataclasses import dataclass

from wrapper_ir.json.codec import Schema
from wrapper_ir.json.decode import array, fault, field, obj, string
from wrapper_ir.support.json_value import Json
from wrapper_ir.support.versions import Form


@dataclass(frozen=True, slots=True)
class Envelope:
    """`{"format": name, "version": ..., ...}`."""

    name: str
    form: Form

    def close(self, body: Json) -> dict[str, Json]:
        """The document of these fields."""
        return {"format": self.name, "version": self.form.version, **obj(body)}

    def open(self, document: dict[str, Json]) -> dict[str, Json]:
        """The fields, as those of today's version. Raises Fault: WIR521 another format, WIR501 a version that is not read."""
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
        """The JSON Schema of documents, of the schema of their fields, with the definitions that are needed."""
        own: Schema = {"format": {"const": self.name}, "version": {"const": self.form.version}, **tables}
        properties, required = obj(body["properties"]), array(body["required"])
        whole: Schema = {
            "$schema": "https://json-schema.org/draft/2020-12/schema",
            "title": title,
            **body,
            "properties": {**own, **properties},
            "required": [*own, *required],
        }
        whole["$defs"] = _needed(whole, definitions)
        return whole


def _needed(schema: Schema, definitions: Schema) -> Schema:
    """The definitions that a schema refers to, through others too."""
    found: Schema = {}
    open_: list[Json] = [schema]
    while open_:
        match open_.pop():
            case {"$ref": str(target)}:
                name = target.removeprefix("#/$defs/")
                if name not in found:
                    found[name] = definitions[name]
                    open_.append(found[name])
            case dict(inner):
                open_.extend(inner.values())
            case list(items):
                open_.extend(items)
            case _:
                pass
    return found
