"""Compiles one job with Triton, in this process."""

from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING, Any

from triton_runtime.binding import TRITON_TYPES
from triton_runtime.compile.binary import binary_to_bytes
from triton_runtime.compile.cubin import resources
from triton_runtime.compile.job import CompileJob, constants_of
from triton_runtime.errors import CompileError, KernelError, TritonRuntimeError
from triton_runtime.protocols import Binary
from triton_runtime.source import load_function
from wrapper_ir import ir

if TYPE_CHECKING:
    from triton.runtime.jit import JITFunction

_SHOWN_LINES = 25
_WARP = 32
_ELEMENT_TYPES = {8: 10, 9: 8, 10: 9}
"""The driver's numbers of element types by the device's, if they differ."""


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
        function = load_function(job.kernel, job.source, job.entry, Path(job.folder))
        if tuple(function.arg_names) != job.order:
            raise KernelError(
                "TR102",
                f"kernel '{job.kernel}': '{job.entry}' takes ({', '.join(function.arg_names)}), the "
                "definition says "
                f"({', '.join(job.order)})",
            )
        source = ASTSource(
            function,
            dict(job.signature),
            {name: _native(value) for name, value in constants_of(job.constants).items()},
            {(i,): [["tt.divisibility", 16]] for i in job.divisible},
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


def _native(value: object) -> object:
    """Converts a constant to the form of Triton's compiler."""
    from triton.language import str_to_ty

    if isinstance(value, tuple):
        return tuple(map(_native, value))
    return str_to_ty(TRITON_TYPES[value], None) if isinstance(value, ir.DType) else value


# Any: Triton's own object, which has no types
def _binary(job: CompileJob, compiled: Any) -> Binary:
    image: bytes = compiled.asm["cubin"]
    facts: dict[str, Any] = compiled.metadata._asdict()  # Any: values of JSON
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
            scratch=_scratch(facts, "global"),
            profile=_scratch(facts, "profile"),
            cooperative=bool(facts.get("launch_cooperative_grid")),
            dependent_launch=bool(facts.get("launch_pdl")),
            registers=registers,
            local_bytes=local,
        ),
        maps=tuple(map(tensor_map, facts.get("tensordesc_meta") or ())),
    )


def _scratch(facts: dict[str, Any], kind: str) -> ir.Scratch:  # Any: values of JSON
    return ir.Scratch(
        nbytes=facts.get(f"{kind}_scratch_size") or 0, align=facts.get(f"{kind}_scratch_align") or 1
    )


def tensor_map(facts: dict[str, Any]) -> ir.TensorMap:  # Any: values of JSON
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
        f"the kernel was written for {job.changed}: capture the model again with what is here"
        if job.changed
        else "another config may fit where memory or registers ran out; otherwise the kernel's source has to change",
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
