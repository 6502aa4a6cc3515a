"""A compiler's wrapper program as a value: build, print, parse, check, store, step through and emit it."""

from wrapper_ir.artifact import Artifact, TensorData
from wrapper_ir.program import Program

__all__ = ["Artifact", "Program", "TensorData"]
