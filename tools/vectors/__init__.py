"""Vector functions of the native runtime: their polynomials, and measurements of errors and time."""
