"""Compiled kernels as an artifact carries them: made for it, and used instead of compiling."""

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
    """Counts the jobs that an artifact carries only other code for."""
    keys, known = {b.key for b in carried}, {b.kernel for b in carried}
    stats.passed_over += sum(job.key not in keys and content_hash(kernel) in known for kernel, job in jobs)


def compiled_ahead(
    made: Sequence[tuple[ir.TritonKernel, ir.KernelBinary | Exception]],
) -> list[ir.KernelBinary]:
    """What an artifact carries of what was compiled, several of one kernel for its candidate configs. A candidate
    that the compiler refused is left out, as tuning would do; where it refused all of a kernel's, the first refusal is
    raised, and so is whatever else went wrong."""
    found = [one for _, one in made if isinstance(one, ir.KernelBinary)]
    compiled = {binary.kernel for binary in found}
    for kernel, one in made:
        if isinstance(one, Exception) and not (
            isinstance(one, CompileError) and content_hash(kernel) in compiled
        ):
            raise one
    return found


def kernel_binary(one: Launchable, key: str, binary: Binary) -> ir.KernelBinary:
    """A compiled kernel with what its driver is given for the arguments of a launch. Raises KernelError TR103, TR109."""
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
