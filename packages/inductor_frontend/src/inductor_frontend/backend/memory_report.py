"""The pages of the option `memory_report`."""

from __future__ import annotations

import logging
from pathlib import Path

from inductor_frontend.backend.request import GraphRequest
from inductor_frontend.errors import CaptureError
from wrapper_ir import ir
from wrapper_ir.errors import ExpressionError
from wrapper_ir_tools.report import memory_report, write_report

_LOG = logging.getLogger(__name__)


def write_memory_report(program: ir.Program, request: GraphRequest, folder: Path) -> None:
    """Writes `graph_N_inference.html` (or `forward`, `backward`) into `folder`, which is created if missing.

    N is torch's number of the graph in this process. Sizes are those that the graph was compiled with. If one
    has no value then, logs a warning and writes no page. Raises CaptureError FE103 if the folder cannot be
    written to.
    """
    number = request.facts.get("graph_id")
    try:
        report = memory_report(program)
        folder.mkdir(parents=True, exist_ok=True)
        write_report(report, folder / f"graph_{0 if number is None else number}_{request.kind}.html")
    except ExpressionError as error:
        _LOG.warning("no memory report of graph %s: %s", number, error)
    except OSError as error:
        raise CaptureError(
            "FE103", f"option 'memory_report': {error}", hint="a folder to write to"
        ) from error
