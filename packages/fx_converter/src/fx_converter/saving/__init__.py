"""Saved graphs: a `.wir` artifact with the graph beside its program. Nothing is pickled."""

from fx_converter.saving.files import load, save

__all__ = ["load", "save"]
