"""Triton kernels that Inductor wrote, as data: plain source, parameters, candidates, and grids as expressions."""
