"""Triton kernels that upstream wrote, as data: plain source, parameters, candidates, and grids as expressions."""
