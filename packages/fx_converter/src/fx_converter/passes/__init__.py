"""Passes over graphs that write memory. Torch's passes of these kinds treat every call as a pure function of
its arguments.

They change the module in place, as `eliminate_dead_code` does, and keep its calling convention and its
origin. `split` creates a new module.
"""

from fx_converter.passes.cse import cse
from fx_converter.passes.fold import fold_constants, foldable
from fx_converter.passes.split import split, with_convention

__all__ = ["cse", "fold_constants", "foldable", "split", "with_convention"]
