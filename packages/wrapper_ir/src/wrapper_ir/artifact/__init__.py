"""A program with its constants, calling convention, kernels and texts; `file/` has the file format."""

from wrapper_ir.artifact.model import Artifact, TensorData, bare_artifact, memory_of, window_of

__all__ = ["Artifact", "TensorData", "bare_artifact", "memory_of", "window_of"]
