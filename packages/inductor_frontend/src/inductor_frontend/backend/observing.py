"""Reports compiled graphs to the function's observers, torch's structured trace, and the dump folder, if
enabled."""

from __future__ import annotations

from torch._logging._internal import trace_log

from inductor_frontend.backend.live_graphs import GraphInfo
from inductor_frontend.settings import dump_folder


def observe(info: GraphInfo) -> None:
    """Reports one graph before its first call. Raises BackendError FE404 if the dump folder cannot be
    written."""
    for observer in info.function.observers:
        observer(info)
    if trace_log.handlers:
        from inductor_frontend.backend.tracing import trace_graph  # deferred: rarely needed

        trace_graph(info)
    folder = dump_folder()
    if folder is not None:
        from inductor_frontend.backend.dumping import write_graph  # deferred: rarely needed

        write_graph(info, folder)
