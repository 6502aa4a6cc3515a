"""An explanation as JSON."""

from __future__ import annotations

import dataclasses
import enum
import json

from wrapper_ir_tools.explain.model import Explanation


def explanation_json(explanation: Explanation) -> str:
    """The explanation as JSON; its schema is `schema/explain.schema.json`."""
    return json.dumps(explanation_data(explanation), indent=2, ensure_ascii=False) + "\n"


def explanation_data(value: object) -> object:
    """Converts a value to JSON types: a dataclass to a dictionary of its fields."""
    if isinstance(value, enum.Enum):
        return value.value
    if dataclasses.is_dataclass(value) and not isinstance(value, type):
        # not `asdict`, which would copy hundreds of thousands of texts
        return {f.name: explanation_data(getattr(value, f.name)) for f in dataclasses.fields(value)}
    if isinstance(value, tuple):
        return [explanation_data(item) for item in value]
    return dict(value) if isinstance(value, dict) else value
