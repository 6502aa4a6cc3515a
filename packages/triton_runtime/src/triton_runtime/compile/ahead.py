"""Compiled kernels stored in an artifact, which replace compilation."""

from __future__ import annotations

from collections.abc import Sequence

from triton_runtime.compile.job import CompileJob
from triton_runtime.compile.params import driver_params
from triton_runtime.compile.service import CompileStats
from triton_runtime.errors import CompileError
from triton_runtime.protocols import Binary, Launchable
from wrapper_ir import ir
from wrapper_ir.json.kernel_hash import content_hash


def count_passed_over(
    jobs: Sequence[tuple[ir.TritonKernel, CompileJob]],
    carried: Sequence[ir.KernelBinary],
    stats: CompileStats,
) -> None:
    """Counts the jobs for whose kernels an artifact has only other binaries."""
    keys, kernels = {b.key for b in carried}, {b.kernel for b in carried}
    stats.passed_over += sum(job.key not in keys and content_hash(kernel) in kernels for kernel, job in jobs)


def compiled_ahead(
    results: Sequence[tuple[ir.TritonKernel, ir.KernelBinary | Exception]],
) -> list[ir.KernelBinary]:
    """Selects the binaries to store in an artifact; several of one kernel for its candidate configs.

    Candidates that the compiler refused are omitted, as in tuning. If it refused all of a kernel's
    candidates, the first error is raised, as is any other error.
    """
    binaries = [one for _, one in results if isinstance(one, ir.KernelBinary)]
    compiled = {binary.kernel for binary in binaries}
    for kernel, one in results:
        if isinstance(one, Exception) and not (
            isinstance(one, CompileError) and content_hash(kernel) in compiled
        ):
            raise one
    return binaries


def kernel_binary(one: Launchable, key: str, binary: Binary) -> ir.KernelBinary:
    """A compiled kernel with the parameters that its driver passes. Raises KernelError TR103, TR109."""
    return ir.KernelBinary(
        runtime=one.kernel.kind,
        kernel=content_hash(one.kernel),
        target=binary.target,
        key=key,
        compiler=binary.compiler,
        config=one.config,
        kind=ir.ImageKind.CUBIN,
        facts=binary.facts,
        params=driver_params(one.kernel.name, one.binding, binary),
        image=binary.image,
    )
