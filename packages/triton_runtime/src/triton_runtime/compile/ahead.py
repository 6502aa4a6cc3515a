"""Kernels compiled ahead: made for an artifact to carry, and used instead of compiling."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from triton_runtime.compile.binary import binary_to_bytes
from triton_runtime.compile.job import CompileJob
from triton_runtime.compile.service import CompileStats
from triton_runtime.errors import CompileError
from triton_runtime.protocols import Binary, ByteStore
from wrapper_ir.kernels import KernelBinary, TritonKernel, content_hash

__all__ = ["CarriedStore", "Compile", "compile_ahead", "count_passed_over"]

Compile = Callable[[Sequence[CompileJob]], list[Binary]]


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


def compile_ahead(jobs: Sequence[tuple[TritonKernel, CompileJob]], compile: Compile) -> list[KernelBinary]:
    """Compiles jobs, several of one kernel for its candidate configs. A candidate that the compiler refuses is left out,
    as tuning would do; where it refuses all of a kernel's, its first refusal is raised."""
    try:
        made = compile([job for _, job in jobs])
    except CompileError:
        return _each(jobs, compile)
    return [_carried(kernel, job, binary) for (kernel, job), binary in zip(jobs, made, strict=True)]


def _each(jobs: Sequence[tuple[TritonKernel, CompileJob]], compile: Compile) -> list[KernelBinary]:
    found: list[KernelBinary] = []
    refused: dict[str, CompileError] = {}
    for kernel, job in jobs:
        try:
            [binary] = compile([job])
        except CompileError as error:
            refused.setdefault(kernel.name, error)
        else:
            found.append(_carried(kernel, job, binary))
    compiled = {binary.kernel for binary in found}
    for kernel, _ in jobs:
        if kernel.name in refused and content_hash(kernel) not in compiled:
            raise refused[kernel.name]
    return found


def _carried(kernel: TritonKernel, job: CompileJob, binary: Binary) -> KernelBinary:
    return KernelBinary(
        runtime=kernel.kind,
        kernel=content_hash(kernel),
        target=binary.facts.target,
        key=job.key,
        data=binary_to_bytes(binary),
    )
