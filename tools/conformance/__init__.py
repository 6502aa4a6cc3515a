"""Torch's operator database through every path of ours, held against eager. `python -m tools.conformance` runs it."""
