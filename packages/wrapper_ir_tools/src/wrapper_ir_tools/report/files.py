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
    """The report as one page that needs nothing else: storages over ops and addresses."""
    page = files("wrapper_ir_tools.report").joinpath("memory.html").read_text(encoding="utf-8")
    data = json.dumps(dataclasses.asdict(report), separators=(",", ":"))
    return page.replace("@REPORT@", data.replace("<", "\\u003c"))  # no text ends the script


def report_csv(report: MemoryReport) -> str:
    """The storages of main, slots in place of what they lie in, as the table that `planner.read_csv` reads (MiniMalloc's form)."""
    storages = report.functions[0].storages
    hosts = {s.pool for s in storages}
    return write_csv(
        Buffer(s.name, s.begin, s.end, s.bytes, s.alignment)
        for s in storages
        if s.kind not in _UNPLANNED and s.name not in hosts
    )


def write_report(report: MemoryReport, path: str | Path) -> None:
    """Writes the report in the form that the file's name ends in, of `REPORT_FORMS`. Raises ReportError WIR270 for another
    one, and WIR271 for a picture without the package Pillow."""
    form = REPORT_FORMS.get(Path(path).suffix)
    if form is None:
        known = ", ".join(REPORT_FORMS)
        raise ReportError("WIR270", f"no report ends in {Path(path).suffix!r}", hint=f"one of {known}")
    Path(path).write_bytes(form(report))


def _picture(report: MemoryReport) -> bytes:
    from wrapper_ir_tools.report.picture import report_png  # on demand: it needs a package of its own

    return report_png(report)


REPORT_FORMS: Mapping[str, Callable[[MemoryReport], bytes]] = MappingProxyType(
    {
        ".html": lambda report: report_html(report).encode(),
        ".json": lambda report: report_json(report).encode(),
        ".csv": lambda report: report_csv(report).encode(),
        ".png": _picture,
    }
)
"""By the end of a file's name: what is written into it."""
