"""Torch's operator database through all our paths, compared with eager.

`python -m tools.conformance` runs it.
"""
