"""Compiles one job with Triton, in this process."""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, NotRequired, Protocol, TypedDict

from triton_runtime.binding import DIVISIBLE, native_constant
from triton_runtime.compile.binary import binary_to_bytes
from triton_runtime.compile.cubin import resources
from triton_runtime.compile.job import CompileJob, constants_of
from triton_runtime.errors import CompileError, TritonRuntimeError
from triton_runtime.protocols import Binary
from triton_runtime.source import load_checked
from wrapper_ir import ir

if TYPE_CHECKING:
    from triton.runtime.jit import JITFunction

_SHOWN_LINES = 25
_WARP = 32
_ELEMENT_TYPES = {8: 10, 9: 8, 10: 9}
"""The driver's numbers of element types by the device's, if they differ."""


class DescriptorFacts(TypedDict):
    """Triton's description of a tensor descriptor."""

    block_size: Sequence[int]
    elem_type: int
    elem_size: int
    swizzle: int
    fp4_padded: NotRequired[bool]


class _KernelFacts(TypedDict):
    """Triton's metadata of a compiled kernel. The optional keys depend on the version."""

    name: str
    triton_version: str
    num_warps: int
    num_ctas: int
    shared: int
    global_scratch_size: NotRequired[int | None]
    global_scratch_align: NotRequired[int | None]
    profile_scratch_size: NotRequired[int | None]
    profile_scratch_align: NotRequired[int | None]
    launch_cooperative_grid: NotRequired[bool]
    launch_pdl: NotRequired[bool]
    tensordesc_meta: NotRequired[Sequence[DescriptorFacts] | None]


class _Metadata(Protocol):
    """A named tuple with the facts of a kernel."""

    def _asdict(self) -> _KernelFacts: ...


class _Outputs(TypedDict):
    """Outputs of the compiler's stages."""

    ptx: str
    cubin: bytes


class _CompiledKernel(Protocol):
    """Attributes of Triton's `CompiledKernel`, which has no annotations."""

    asm: _Outputs
    metadata: _Metadata


def compile_job(data: bytes) -> bytes:
    """Compiles a `CompileJob`; bytes in and out, so that any executor can run it anywhere.

    Raises CompileError TR201 and KernelError TR102, TR104, TR105.
    """
    return binary_to_bytes(run_job(CompileJob.from_bytes(data)))


def run_job(job: CompileJob) -> Binary:
    """Compiles one job; raises as `compile_job` does."""
    from triton import knobs
    from triton.backends.compiler import GPUTarget
    from triton.compiler import ASTSource, compile

    from triton_runtime._compat import LANGUAGE, no_compiler_hash

    # Triton's own cache considers less than our key does, and its key is expensive
    with LANGUAGE, no_compiler_hash(), knobs.compilation.scope():
        knobs.compilation.always_compile = True
        function = load_checked(job.kernel, job.source, job.entry, Path(job.folder), job.order)
        source = ASTSource(
            function,
            dict(job.signature),
            {name: native_constant(value) for name, value in constants_of(job.constants).items()},
            {(i,): [["tt.divisibility", DIVISIBLE]] for i in job.divisible},
        )
        try:
            compiled = compile(
                source, target=GPUTarget("cuda", job.capability, _WARP), options=json.loads(job.options)
            )
        except TritonRuntimeError:
            raise
        # raised by Triton's front end, LLVM, or ptxas
        except Exception as error:
            raise _refused(job, function, error) from error
    return _binary(job, compiled)


def _binary(job: CompileJob, compiled: _CompiledKernel) -> Binary:
    image, facts = compiled.asm["cubin"], compiled.metadata._asdict()
    registers, local = resources(image)
    return Binary(
        image=image,
        assembly=compiled.asm["ptx"],
        target=f"cuda:sm_{job.capability}",
        compiler=facts["triton_version"],
        facts=ir.LaunchFacts(
            symbol=facts["name"],
            num_warps=facts["num_warps"],
            warp_size=_WARP,
            cluster=(facts["num_ctas"], 1, 1),
            shared_bytes=facts["shared"],
            scratch=_scratch(facts.get("global_scratch_size"), facts.get("global_scratch_align")),
            profile=_scratch(facts.get("profile_scratch_size"), facts.get("profile_scratch_align")),
            cooperative=bool(facts.get("launch_cooperative_grid")),
            dependent_launch=bool(facts.get("launch_pdl")),
            registers=registers,
            local_bytes=local,
        ),
        maps=tuple(map(tensor_map, facts.get("tensordesc_meta") or ())),
    )


def _scratch(nbytes: int | None, align: int | None) -> ir.Scratch:
    return ir.Scratch(nbytes=nbytes or 0, align=align or 1)


def tensor_map(facts: DescriptorFacts) -> ir.TensorMap:
    """The tensor map that Triton reports for a descriptor (`tensordesc_meta`)."""
    kind = facts["elem_type"]
    return ir.TensorMap(
        box=tuple(facts["block_size"]),
        element_type=_ELEMENT_TYPES.get(kind, kind),
        element_size=facts["elem_size"],
        swizzle=facts["swizzle"],
        padded=bool(facts.get("fp4_padded")),
    )


def _refused(job: CompileJob, function: JITFunction, error: Exception) -> CompileError:
    lines = str(error).strip().splitlines() or [type(error).__name__]
    excerpt = "\n".join(f"  | {line}" for line in lines[:_SHOWN_LINES])
    if len(lines) > _SHOWN_LINES:
        excerpt += f"\n  | … {len(lines) - _SHOWN_LINES} more lines"
    return CompileError(
        "TR201",
        f"Triton refused kernel '{job.kernel}' with config {job.config} for sm_{job.capability}"
        f"{_line(job, function, error)}: {type(error).__name__}\n{excerpt}",
        f"the kernel was written for {job.changed}: capture the model again with the installed versions"
        if job.changed
        else "another config may fit where memory or registers ran out; otherwise the kernel's source has to "
        "change",
    )


def _line(job: CompileJob, function: JITFunction, error: Exception) -> str:
    """The line of the kernel's source where Triton stopped, if it is in the kernel's own function."""
    node, source = getattr(error, "node", None), getattr(error, "src", None)
    if node is None or source != function.src:
        return ""
    above = next(
        i
        for i, text in enumerate(function.raw_src)
        if text.lstrip().startswith("def ")
        # skips decorators
    )
    line = function.starting_line_number + above + node.lineno - 1
    return f", line {line}: {job.source.split(chr(10))[line - 1].strip()}"
