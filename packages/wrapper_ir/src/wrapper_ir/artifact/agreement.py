"""Manifests by which processes check for equal programs before they share memory or an artifact.

A manifest omits device indices, source locations and the device names in kernels, so that processes that run
the same program on different devices have equal manifests.
"""

from __future__ import annotations

import hashlib
import re
from collections.abc import Iterator

from wrapper_ir import ir
from wrapper_ir.analysis.memo import Analyses
from wrapper_ir.artifact import Artifact
from wrapper_ir.json import signature_to_json
from wrapper_ir.text import print_function, print_op

_ID_BITS, _SITE_BITS = 63, 16

_INDEX = re.compile(r"(?<=index=)\d+")


def program_digest(program: ir.Program) -> str:
    """Returns 64 bits of a hash over all functions, as hexadecimal digits."""
    text = "\n".join(print_function(f, program) for f in program.functions)
    return _digest(text)


def allocation_ids(program: ir.Program) -> Iterator[int]:
    """Yields unused allocation ids, equal in all processes with this program, different for others.

    An id combines a hash of the program with a number for each allocation.
    """
    ids = {op.result.type.space.alloc_id for op in program.ops_of(ir.AllocStorage)}
    first = (int(program_digest(program), 16) >> (64 - _ID_BITS)) >> _SITE_BITS << _SITE_BITS
    yield from (first + n for n in range(1 << _SITE_BITS) if first + n not in ids)


def _digest(text: str) -> str:
    return hashlib.sha256(text.encode("utf-8", "surrogatepass")).hexdigest()[:16]


def manifest(analyses: Analyses) -> tuple[str, ...]:
    """Returns the lines that must be equal in each process.

    They describe inputs, allocations of group memory, collectives in order, results of tuning, and the whole
    program.
    """
    program = analyses.program
    return (
        f"inputs: {print_function(program.main, program).partition(chr(10))[0]}",
        *_plan(program),
        *_collectives(analyses),
        f"tuning: {_digest(chr(10).join(_kernels(program)))}",
        f"program: {program_digest(program)}",
    )


def artifact_manifest(artifact: Artifact) -> tuple[str, ...]:
    """Returns the lines that must be equal in the artifacts of two processes for one to run the other's.

    They describe inputs, constants, signature, results of tuning, kernels, and every op.
    """
    program, data = artifact.program, artifact.constants
    text = "\n".join(print_function(f, program) for f in program.functions)
    head, *ops = text.encode("utf-8", "surrogatepass").decode("utf-8", "replace").split("\n")
    return (
        f"inputs: {head}",
        *(f"constant {name}: {data[name].sha256()[:16]}" for name in sorted(data)),
        f"signature: {_digest(signature_to_json(artifact.signature))}",
        *(f"tuning of {key}: {_digest(text)}" for key, text in sorted(artifact.tuning.items())),
        *(f"kernel {kernel.partition(' ')[0]}: {_digest(kernel)}" for kernel in _kernels(program)),
        *(op.strip() for op in ops),
    )


def _plan(program: ir.Program) -> Iterator[str]:
    for function in program.functions:
        for op in function.ops_of(ir.AllocStorage, ir.Slot):
            if op.result.type.is_group_memory:
                yield f"plan @{function.name}: {print_op(op, program)}"


def _collectives(analyses: Analyses) -> Iterator[str]:
    for function in analyses.program.functions:
        for op in function.body:
            if _communicates(op, analyses):
                yield f"collective @{function.name}: {print_op(op, analyses.program)}"


def _communicates(op: ir.Op, analyses: Analyses) -> bool:
    match op:
        case ir.CollectiveStart():
            return True
        case ir.CallExtern():
            info = analyses.extern_info.get(op.target)
            return info is not None and ir.ExternTag.COLLECTIVE in info.extern.tags
        case _:
            return False


def _kernels(program: ir.Program) -> Iterator[str]:
    """Yields each kernel's name, configuration and source, without device indices."""
    for kernel in program.kernels:
        yield f"{kernel.name} {_INDEX.sub('', repr(kernel))}"
