"""Kernels compiled ahead: made for an artifact to carry, and used instead of compiling."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from triton_runtime.compile.binary import binary_to_bytes
from triton_runtime.compile.job import CompileJob
from triton_runtime.compile.service import CompileStats
from triton_runtime.errors import CompileError
from triton_runtime.protocols import Binary, ByteStore
from wrapper_ir.kernels import KernelBinary, TritonKernel, content_hash

__all__ = ["CarriedStore", "compiled_ahead", "count_passed_over"]


@dataclass(frozen=True, slots=True)
class CarriedStore:
    """What an artifact carries, and behind it a store, which alone is written to: an artifact says what its own kernels
    are, never what those of others are."""

    carried: dict[str, bytes]
    behind: ByteStore
    stats: CompileStats

    def get(self, key: str) -> bytes | None:
        """The bytes under `key`."""
        found = self.carried.get(key)
        if found is None:
            return self.behind.get(key)
        self.stats.carried += 1
        return found

    def put(self, key: str, data: bytes) -> None:
        """Keeps `data` in the store behind."""
        self.behind.put(key, data)


def count_passed_over(
    jobs: Sequence[tuple[TritonKernel, CompileJob]], carried: Sequence[KernelBinary], stats: CompileStats
) -> None:
    """Counts the jobs that an artifact carries only other code for."""
    keys, known = {b.key for b in carried}, {b.kernel for b in carried}
    stats.passed_over += sum(job.key not in keys and content_hash(kernel) in known for kernel, job in jobs)


def compiled_ahead(made: Sequence[tuple[TritonKernel, CompileJob, Binary | Exception]]) -> list[KernelBinary]:
    """What an artifact carries of jobs that were compiled, several of one kernel for its candidate configs. A candidate
    that the compiler refused is left out, as tuning would do; where it refused all of a kernel's, the first refusal is
    raised, and so is whatever else went wrong."""
    found = [_carried(kernel, job, one) for kernel, job, one in made if isinstance(one, Binary)]
    compiled = {binary.kernel for binary in found}
    for kernel, _, one in made:
        if isinstance(one, Exception) and not (
            isinstance(one, CompileError) and content_hash(kernel) in compiled
        ):
            raise one
    return found


def _carried(kernel: TritonKernel, job: CompileJob, binary: Binary) -> KernelBinary:
    return KernelBinary(
        runtime=kernel.kind,
        kernel=content_hash(kernel),
        target=binary.facts.target,
        key=job.key,
        data=binary_to_bytes(binary),
    )
