"""Captures C++ kernels with one source for each of several instruction sets, which this machine need not
have."""

from __future__ import annotations

import difflib
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import replace
from types import MappingProxyType

from torch._dynamo.convert_frame import compile_lock
from torch._inductor import config as inductor_config
from torch._inductor import cpu_vec_isa
from torch._inductor.cpu_vec_isa import VecAVX2, VecAVX512, VecISA

from inductor_frontend.errors import CaptureError
from inductor_frontend.torch_patches.replaced import replaced
from inductor_frontend.torch_patches.table import BF16_VECTORS, CHOSEN_VECTORS, CHOSEN_VECTORS_OF_MATMULS
from wrapper_ir import ir
from wrapper_ir.artifact import Artifact
from wrapper_ir.text import print_program

_GENERIC = "generic"
_SETS: Mapping[str, Callable[[], VecISA]] = MappingProxyType(
    {"avx512": VecAVX512, "avx2": VecAVX2, _GENERIC: lambda: cpu_vec_isa.invalid_vec_isa}
)
"""Widest first: a host uses the first source that it can run."""
ISA_NAMES = tuple(_SETS)
_SHOWN_LINES = 8


def capture_for_each(names: Sequence[str], capture: Callable[[], Artifact]) -> Artifact:
    """Returns one artifact whose C++ kernels have a source for each instruction set. `capture` captures for
    one of them.

    Nothing is compiled or run for the instruction sets. Raises CaptureError FE103 for an unknown name, FE108
    if the programs differ in more than sources, and any error of `capture`.
    """
    if unknown := sorted(set(names) - set(_SETS)):
        raise CaptureError(
            "FE103",
            f"'{unknown[0]}' is not an instruction set that C++ is written for",
            hint=f"known: {', '.join(_SETS)}",
        )
    captures: list[tuple[str, Artifact]] = []
    for name in _SETS:
        if name in names:
            with compile_lock, written_for(name):
                captures.append((name, capture()))
    return joined(captures)


@contextmanager
def written_for(name: str) -> Iterator[None]:
    """Generates C++ for this instruction set while the context is active, without a check of machine or
    compiler."""
    isa = _SETS[name]()
    # "ok" answers every check of an instruction set; the generic set has none, so that scalar code is
    # generated.
    options = {"cpp.vec_isa_ok": name != _GENERIC, "cpp.simdlen": isa.bit_width()}
    with (
        inductor_config.patch(options),
        replaced(
            CHOSEN_VECTORS.by(pick_vec_isa=lambda: isa),
            CHOSEN_VECTORS_OF_MATMULS.by(pick_vec_isa=lambda: isa),
            BF16_VECTORS.by(_is_avx512_bf16_supported=lambda: False),
        ),
    ):
        yield


def joined(captures: Sequence[tuple[str, Artifact]]) -> Artifact:
    """Returns the first artifact with the sources of all; raises CaptureError FE108 for any other
    difference."""
    (first_name, first), *others = captures
    for name, other in others:
        if difference := _difference(first, other):
            raise CaptureError(
                "FE108",
                f"the programs for {first_name} and {name} differ in more than the sources of their "
                f"kernels:\n{difference}",
                hint="capture for one of them, or for each into an artifact of its own",
            )
    kernels = tuple(
        _with_sources([artifact.program.kernels[i] for _, artifact in captures])
        for i in range(len(first.program.kernels))
    )
    return replace(first, program=replace(first.program, kernels=kernels))


def _with_sources(kernels: Sequence[ir.KernelDef]) -> ir.KernelDef:
    first = kernels[0]
    if not isinstance(first, ir.CppKernel):
        return first
    others = [k for k in kernels[1:] if isinstance(k, ir.CppKernel)]
    return replace(first, variants=tuple(ir.CppSource(source=k.source, isa=k.isa) for k in others))


def _difference(one: Artifact, other: Artifact) -> str:
    """Returns the first lines that differ; '' if none do."""
    if one.signature != other.signature:
        return "  their signatures"
    lines = (_bare_text(one).splitlines(), _bare_text(other).splitlines())
    changes = [
        line for line in difflib.unified_diff(*lines, n=0, lineterm="") if line[:3] not in ("---", "+++")
    ]
    return "\n".join(f"  | {line}" for line in changes[:_SHOWN_LINES])


def _bare_text(artifact: Artifact) -> str:
    """Returns the text of the program without C++ sources; constants are included by hash."""
    kernels = tuple(
        replace(k, source="", isa=()) if isinstance(k, ir.CppKernel) else k for k in artifact.program.kernels
    )
    return print_program(replace(artifact.program, kernels=kernels))
