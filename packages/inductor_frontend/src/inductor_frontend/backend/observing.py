"""Tells of compiled graphs: observers of the function, torch's trace, and the folder that all compilations are written to, if
there are such."""

from __future__ import annotations

from torch._logging._internal import trace_log

from inductor_frontend.backend.live_graphs import GraphInfo
from inductor_frontend.settings import dump_folder


def observe(info: GraphInfo) -> None:
    """Tells of one graph, whose code can run but has not yet. Raises BackendError FE404 where the folder cannot be written."""
    for observer in info.function.observers:
        observer(info)
    if trace_log.handlers:
        from inductor_frontend.backend.tracing import trace_graph  # for those who ask for it

        trace_graph(info)
    folder = dump_folder()
    if folder is not None:
        from inductor_frontend.backend.dumping import write_graph  # for those who ask for it

        write_graph(info, folder)
