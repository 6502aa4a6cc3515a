"""Compiles an artifact's kernels for `wir compile`."""

from __future__ import annotations

from wrapper_ir.artifact import Artifact
from wrapper_ir.errors import PluginError, WirError
from wrapper_ir.runtime.ahead import compile_ahead

__all__ = ["compiled_artifact"]


def compiled_artifact(artifact: Artifact, candidates: bool) -> Artifact:
    """The artifact with its kernels; what a kernel runtime raises becomes PluginError WIR905."""
    try:
        return compile_ahead(artifact, candidates=candidates)
    except WirError:
        raise
    except Exception as error:  # of the runtime's own classes
        raise PluginError("WIR905", f"the kernels cannot be compiled: {error}") from error
