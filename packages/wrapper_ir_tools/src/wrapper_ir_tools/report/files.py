"""A memory report as files: a page, a picture, a table."""

from __future__ import annotations

import dataclasses
import json
from collections.abc import Callable, Mapping
from importlib.resources import files
from pathlib import Path
from types import MappingProxyType

from wrapper_ir.errors import ReportError
from wrapper_ir_passes.planner import Buffer, write_csv
from wrapper_ir_tools.report.memory import MemoryReport

_UNPLANNED = ("call", "trip", "temporary")


def report_json(report: MemoryReport) -> str:
    """The report as JSON; its schema is `schema/memory.schema.json`."""
    return json.dumps(dataclasses.asdict(report), indent=2) + "\n"


def report_html(report: MemoryReport) -> str:
    """Formats the report as one standalone page: storages over ops and addresses."""
    page = _text("memory.html").replace("@SCRIPT@", _text("memory.js"))
    data = json.dumps(dataclasses.asdict(report), separators=(",", ":"))
    # no text ends the script
    return page.replace("@REPORT@", data.replace("<", "\\u003c"))


def _text(name: str) -> str:
    return files("wrapper_ir_tools.report").joinpath(name).read_text(encoding="utf-8")


def report_csv(report: MemoryReport) -> str:
    """Formats the storages of main as a table that `planner.read_csv` reads (MiniMalloc's form).

    Slots replace the pools that contain them.
    """
    storages = report.functions[0].storages
    hosts = {s.pool for s in storages}
    return write_csv(
        Buffer(s.name, s.begin, s.end, s.bytes, s.alignment)
        for s in storages
        if s.kind not in _UNPLANNED and s.name not in hosts
    )


def write_report(report: MemoryReport, path: str | Path) -> None:
    """Writes the report in the format of the file's suffix, one of `REPORT_FORMS`.

    Raises ReportError WIR270 for any other suffix, and WIR271 for a picture if the package Pillow is missing.
    """
    form = REPORT_FORMS.get(Path(path).suffix)
    if form is None:
        suffixes = ", ".join(REPORT_FORMS)
        raise ReportError("WIR270", f"no report ends in {Path(path).suffix!r}", hint=f"one of {suffixes}")
    Path(path).write_bytes(form(report))


def _picture(report: MemoryReport) -> bytes:
    from wrapper_ir_tools.report.picture import report_png  # on demand: it needs an optional package

    return report_png(report)


REPORT_FORMS: Mapping[str, Callable[[MemoryReport], bytes]] = MappingProxyType(
    {
        ".html": lambda report: report_html(report).encode(),
        ".json": lambda report: report_json(report).encode(),
        ".csv": lambda report: report_csv(report).encode(),
        ".png": _picture,
    }
)
"""Writers by file suffix."""
