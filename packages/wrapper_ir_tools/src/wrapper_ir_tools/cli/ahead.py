"""Compiles and tunes an artifact's kernels, for `wir compile` and `wir tune`."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager

from wrapper_ir.artifact import Artifact
from wrapper_ir.errors import PluginError, WirError
from wrapper_ir.plugins.protocols import KernelTuner
from wrapper_ir.plugins.registry import kernel_runtime
from wrapper_ir.plugins.registry import machine as find_machine
from wrapper_ir_runtime.ahead import compile_ahead
from wrapper_ir_runtime.kernels import kernels_by_runtime


def compiled_artifact(artifact: Artifact, candidates: bool, archs: Sequence[str]) -> Artifact:
    """Compiles the artifact's kernels for each of `archs` (see `compile_ahead`).

    Raises PluginError WIR905 for an error of a kernel runtime.
    """
    with _of_runtimes("compiled"):
        return compile_ahead(artifact, candidates=candidates, archs=archs)


def tuned_artifact(
    artifact: Artifact, machine_name: str | None, others: Sequence[Artifact], symbols: Mapping[str, int]
) -> Artifact:
    """Tunes the artifact with each of its kernels' runtimes that can; measures nothing if `machine_name` is
    None.

    Raises PluginError WIR905 for an error of a kernel runtime.
    """
    machine = None if machine_name is None else find_machine(machine_name)
    with _of_runtimes("tuned"):
        for kind in kernels_by_runtime(artifact.program.kernels):
            runtime = kernel_runtime(kind)
            if isinstance(runtime, KernelTuner):
                artifact = runtime.tune(artifact, machine=machine, others=others, symbols=symbols)
    return artifact


@contextmanager
def _of_runtimes(what: str) -> Iterator[None]:
    try:
        yield
    except WirError:
        raise
    # each runtime raises other classes
    except Exception as error:
        raise PluginError("WIR905", f"the kernels cannot be {what}: {error}") from error
