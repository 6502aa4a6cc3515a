"""Where upstream's scheduler calls us: a recording wrapper code generator and graph, and the events they record."""

from inductor_frontend.hooks.events import Event
from inductor_frontend.hooks.graph import RecordingGraph, RecordingSubgraph
from inductor_frontend.hooks.wrapper import RecordingWrapper

__all__ = ["Event", "RecordingGraph", "RecordingSubgraph", "RecordingWrapper"]
