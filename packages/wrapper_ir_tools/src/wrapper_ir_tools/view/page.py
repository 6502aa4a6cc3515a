"""Builds a self-contained HTML file from the view's data, the page's scripts, and the embedded libraries."""

from __future__ import annotations

import base64
import dataclasses
import enum
import hashlib
import json
from collections.abc import Iterable
from importlib.resources import files
from typing import Final

from wrapper_ir import ir
from wrapper_ir_tools.diff import ProgramPart, pair_lines, program_parts
from wrapper_ir_tools.view.model import Edge, Group, ProgramView, SourceSegment, ValueUse

_LIBRARIES: Final = ("preact.min.umd.js", "preact-hooks.umd.js", "htm.umd.js")
_SCRIPTS: Final = (
    "index.js",
    "lines.js",
    "list.js",
    "program.js",
    "source.js",
    "details.js",
    "memory.js",
    "run.js",
    "app.js",
)
_BEGIN: Final = """(() => {
"use strict";
const {h, render} = preact, html = htm.bind(h);
const {useState, useMemo, useEffect, useLayoutEffect, useRef, useReducer} = preactHooks;
"""
_END: Final = "})();\n"
_LISTS: Final = (Edge, Group, SourceSegment, ValueUse)
"""Frequent records, which are serialized as lists, without field names."""


def view_json(view: ProgramView, other: ProgramView | None = None, diff: str = "") -> str:
    """Serializes the data of a page as one line of ASCII JSON: `programs` and, for two of them, `diff`.

    Fields with default values are omitted.
    """
    programs = ",".join(_json(v) for v in (view, other) if v is not None)
    rest = f',"diff":{diff}' if diff else ""
    # no text ends the script
    return f'{{"programs":[{programs}]{rest}}}'.replace("<", "\\u003c")


def view_html(view: ProgramView) -> str:
    """Builds the page of one program."""
    return _page(view_json(view))


def diff_html(
    old: tuple[ir.Program, ProgramView], new: tuple[ir.Program, ProgramView], *, names: bool = False
) -> str:
    """Builds the page of two programs side by side, aligned as by `wir diff`; `names` as in
    `diff_programs`."""
    diff = _diff(program_parts(old[0], new[0], names=names), names)
    return _page(view_json(old[1], new[1], diff))


def _diff(parts: Iterable[ProgramPart], names: bool) -> str:
    functions, texts = [], []
    for part in parts:
        pairs = [[p.old, p.new, int(p.same)] for p in pair_lines(part, names=names)]
        if part.kind == "func":
            functions.append({"name": part.name, "pairs": pairs})
        else:
            texts.append(dataclasses.asdict(part) | {"pairs": pairs})
    return json.dumps({"functions": functions, "parts": texts}, separators=(",", ":"))


def _json(view: ProgramView) -> str:
    return json.dumps(view, default=_plain, separators=(",", ":"))


def _plain(item: object) -> object:
    """Converts a record to JSON types."""
    if isinstance(item, enum.Enum):
        return item.value
    assert dataclasses.is_dataclass(item)
    # `asdict` would convert nested records too
    fields = {f.name: getattr(item, f.name) for f in dataclasses.fields(item)}
    if isinstance(item, _LISTS):
        return list(fields.values())
    return {f.name: fields[f.name] for f in dataclasses.fields(item) if fields[f.name] != f.default}


def _page(data: str) -> str:
    script = _script()
    # only this script may run: markup in the program's text cannot execute
    policy = f"default-src 'none'; style-src 'unsafe-inline'; script-src '{_hash(script)}'"
    page = _asset("page.html")
    for mark, text in {
        "POLICY": policy,
        "STYLE": _asset("style.css"),
        "SCRIPT": script,
        "DATA": data,
    }.items():
        page = page.replace(f"@{mark}@", text)
    return page


def _script() -> str:
    libraries = "\n".join(_without_map(_text("vendor", name)) for name in _LIBRARIES)
    scripts = "".join(_without_indentation(_asset(name)) for name in _SCRIPTS)
    return f"{libraries}\n{_BEGIN}{scripts}{_END}"


def _without_indentation(script: str) -> str:
    """Removes leading spaces, which neither JavaScript nor the templates of htm need: pages stay small."""
    return "".join(line.lstrip(" ") for line in script.splitlines(keepends=True))


def _without_map(script: str) -> str:
    """Removes the name of a source map, which a browser would request."""
    return "\n".join(line for line in script.splitlines() if not line.startswith("//# sourceMappingURL="))


def _hash(script: str) -> str:
    return f"sha256-{base64.b64encode(hashlib.sha256(script.encode()).digest()).decode()}"


def _asset(name: str) -> str:
    return _text("assets", name)


def _text(folder: str, name: str) -> str:
    return files("wrapper_ir_tools.view").joinpath(folder, name).read_text(encoding="utf-8")
