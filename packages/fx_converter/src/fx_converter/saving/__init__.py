"""Graphs that travel: a `.wir` artifact with the graph beside its program. No pickle anywhere."""

from fx_converter.saving.files import load, save

__all__ = ["load", "save"]
