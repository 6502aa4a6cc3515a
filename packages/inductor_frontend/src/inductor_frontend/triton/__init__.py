"""Triton kernels that upstream wrote, as data: plain source, parameters, candidates, and grids as expressions."""

from inductor_frontend.triton.definition import TritonDefinition, definition_of
from inductor_frontend.triton.grids import grid_of

__all__ = ["TritonDefinition", "definition_of", "grid_of"]
