"""Bytes that operators allocate and give back inside one call: one module for each family of operators, and the table of all."""
