"""Streams and events of a model: as they are traced, as its program has them, and around a compiled graph."""

from inductor_frontend.streams.around import between_streams
from inductor_frontend.streams.memory import early_memory
from inductor_frontend.streams.outer import OuterStreams
from inductor_frontend.streams.tracing import traced_streams, writing_to_inputs

__all__ = ["OuterStreams", "between_streams", "early_memory", "traced_streams", "writing_to_inputs"]
