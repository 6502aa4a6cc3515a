"""C++ kernels, and kernels of plug-ins."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from wrapper_ir.ir.kernels.params import KernelParam, Requirement


@dataclass(frozen=True, slots=True, kw_only=True)
class CppSource:
    """The source of a host kernel for other instruction sets.

    Text: `variant isa("avx2") {{{ #include <cmath> }}}`.
    """

    syntax: ClassVar[str] = "variant< isa({isa})> {source:block}"

    source: str
    isa: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class CppKernel:
    """A host kernel: a complete C++ translation unit with one `extern "C" void entry(...)`.

    `isa` names the instruction sets that the source was vectorized for (`avx2`, `avx512`); empty: generic.
    The vector width is part of a source, so `variants` contain the same kernel for other instruction sets. A
    runtime uses the first of `sources` that the host supports. `requires` are the headers that any source
    includes, except the compiler's own.

    Text: `kernel cpp @relu entry "relu" isa("avx2") (read f32* in_ptr0, write f32* out_ptr0) {{{ #include
    <cmath> }}}`.
    """

    kind: ClassVar[str] = "cpp"
    on_host: ClassVar[bool] = True
    syntax: ClassVar[str] = (
        "kernel cpp {name:reference} entry {entry}< isa({isa})> ({params})"
        "<| requires({requires:rows})|> {source:block}{variants:lines}"
    )

    name: str
    params: tuple[KernelParam, ...]
    source: str
    entry: str
    isa: tuple[str, ...] = ()
    variants: tuple[CppSource, ...] = ()
    requires: tuple[Requirement, ...] = ()

    @property
    def sources(self) -> tuple[CppSource, ...]:
        """All sources, in order of preference."""
        return (CppSource(source=self.source, isa=self.isa), *self.variants)


@dataclass(frozen=True, slots=True, kw_only=True)
class ForeignKernel:
    """A kernel of a plug-in, loaded by the runtime registered as `runtime`. The payload is opaque.

    Text: `kernel foreign @relu runtime "mine" (read f32* x, write f32* y) {{{ payload }}}`.
    """

    kind: ClassVar[str] = "foreign"
    on_host: ClassVar[bool] = False
    syntax: ClassVar[str] = "kernel foreign {name:reference} runtime {runtime} ({params}) {payload:block}"

    name: str
    params: tuple[KernelParam, ...]
    runtime: str
    payload: str
    """Text that only the runtime interprets (base64 for binary data)."""
