"""Inductor's Triton kernels as data: plain source, parameters, candidates, and grids as expressions."""
