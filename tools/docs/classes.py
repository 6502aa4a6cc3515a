"""Markdown for dataclasses and enums, from their docstrings, annotations and defaults."""

from __future__ import annotations

import ast
import dataclasses
import enum
import inspect
import textwrap
from collections.abc import Iterable
from importlib import import_module

from wrapper_ir import ir
from wrapper_ir.expr import Expr


def docstring(x: object) -> str:
    """Returns the docstring without its indentation; raises ValueError if it is missing."""
    doc = inspect.getdoc(x)
    if not doc:
        raise ValueError(f"{x!r} has no docstring")
    return doc


def attribute_docs(cls: type) -> dict[str, str]:
    """The strings written under attributes, which Python itself does not keep."""
    body = ast.parse(textwrap.dedent(inspect.getsource(cls))).body[0]
    assert isinstance(body, ast.ClassDef)
    docs: dict[str, str] = {}
    for statement, following in zip(body.body, body.body[1:], strict=False):
        match statement, following:
            case (
                ast.AnnAssign(target=ast.Name(id=name)) | ast.Assign(targets=[ast.Name(id=name)]),
                ast.Expr(value=ast.Constant(value=str(text))),
            ):
                docs[name] = inspect.cleandoc(text)
            case _:
                pass
    return docs


def defined_classes(module: str) -> list[type]:
    """Public dataclasses and enums that `module` defines, in the order of its source."""
    loaded = import_module(module)
    classes = [
        c
        for name, c in vars(loaded).items()
        if isinstance(c, type)
        and not name.startswith("_")
        and c.__module__ == module
        and (dataclasses.is_dataclass(c) or issubclass(c, enum.Enum))
    ]
    return sorted(classes, key=lambda c: inspect.getsourcelines(c)[1])


def table(header: Iterable[str], rows: Iterable[Iterable[str]]) -> list[str]:
    """Formats a Markdown table; empty columns are omitted."""
    head = list(header)
    body = [[cell.replace("|", "\\|").replace("\n", " ") for cell in row] for row in rows]
    columns = [i for i in range(len(head)) if any(row[i] for row in body)]
    lines = [
        [head[i] for i in columns],
        ["---" for _ in columns],
        *([row[i] for i in columns] for row in body),
    ]
    return [f"| {' | '.join(line)} |" for line in lines]


def class_section(cls: type, level: int) -> list[str]:
    """A heading, the docstring, and a table of members or fields."""
    lines = [f"{'#' * level} {cls.__name__}", "", docstring(cls), ""]
    if issubclass(cls, enum.Enum):
        docs = attribute_docs(cls)
        rows = [(f"`{member.value}`", docs.get(name, "")) for name, member in cls.__members__.items()]
        if any(doc for _, doc in rows):
            return [*lines, *table(("value", "meaning"), rows), ""]
        return [*lines, f"Values: {', '.join(value for value, _ in rows)}.", ""]
    return [*lines, *field_table(cls), ""]


def field_table(cls: type) -> list[str]:
    """Name, annotation, default and meaning of every field."""
    docs = attribute_docs(cls)
    rows = [
        (f"`{f.name}`", f"`{f.type}`", default_text(f), docs.get(f.name, ""))
        for f in dataclasses.fields(cls)  # the caller passes dataclasses
    ]
    return table(("field", "type", "default", "meaning"), rows) if rows else []


def default_text(field: dataclasses.Field[object]) -> str:
    """The default as a reader would write it, '' for required fields."""
    if field.default_factory is not dataclasses.MISSING:
        return "empty"
    value = field.default
    if value is dataclasses.MISSING:
        return ""
    if isinstance(value, enum.Enum):
        return f"`{value.name}`"
    if isinstance(value, Expr | ir.Device):
        return f"`{value}`"
    made_empty = dataclasses.is_dataclass(value) and not isinstance(value, type) and value == type(value)()
    return f"`{type(value).__name__}()`" if made_empty else f"`{value!r}`"
