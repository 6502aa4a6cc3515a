"""Bytes that operators allocate and free within one call: one module for each family of operators, and a
table of all."""
