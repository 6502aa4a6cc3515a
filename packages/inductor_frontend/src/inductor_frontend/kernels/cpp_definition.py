"""Parses the entry declaration of an Inductor C++ kernel to typed data."""

from __future__ import annotations

import re
from collections.abc import Hashable
from dataclasses import dataclass, replace

from torch._inductor import cpu_vec_isa
from torch._inductor.codegen.cpp_utils import DTYPE_TO_CPP

from inductor_frontend.convert import to_dtype
from inductor_frontend.errors import ConversionError
from inductor_frontend.record.events import CallKernel, DefineKernel
from inductor_frontend.requirements import required_headers
from wrapper_ir import ir

_ENTRY = re.compile(
    r'extern\s+"C"\s+(?:\w+\s+)*?void\s+(?:\w+\s+)*?(?P<entry>\w+)\s*\((?P<params>.*)\)', re.DOTALL
)
_PARAM = re.compile(r"\s*(?P<const>const\s+)?(?P<type>[\w:<>]+)\s*(?P<pointer>\*)?\s*(?P<name>\w+)\s*")
_POINTERS = {text: dtype for dtype, text in DTYPE_TO_CPP.items()}
_SCALARS = {
    "int64_t": ir.DType.I64,
    "long": ir.DType.I64,
    "int32_t": ir.DType.I32,
    "float": ir.DType.F32,
    "double": ir.DType.F64,
}


@dataclass(frozen=True, slots=True)
class CppDefinition:
    """A kernel without the access of its pointers, which depends on its calls. `read_only`: its const
    parameters."""

    kernel: ir.CppKernel
    read_only: frozenset[str]

    identity: Hashable = None
    """None: all calls of one name use the same definition."""

    @property
    def arguments(self) -> int:
        """The number of arguments of a call."""
        return len(self.kernel.params)

    @property
    def positions(self) -> tuple[int, ...]:
        """For each parameter, its position among the arguments of a call."""
        return tuple(range(self.arguments))

    def access(self, param: ir.KernelParam, buffer: str, event: CallKernel) -> ir.Access:
        """Returns the access of a call through a pointer.

        A const pointer is read. A buffer that this kernel produces is overwritten completely. Any other
        buffer may be written in part, so it is also read.
        """
        if param.name in self.read_only:
            return ir.Access.READ
        return ir.Access.WRITE if buffer in event.produced else ir.Access.READWRITE

    def completed(
        self, name: str, params: tuple[ir.KernelParam, ...], device: str
    ) -> ir.CppKernel | ir.ForeignKernel:
        """Returns the kernel with the parameters of its calls.

        For a device type other than the CPU, the package of that device builds and runs the kernel. Its
        payload is a line with the instruction set, followed by the source.
        """
        if device != ir.CPU.type:
            payload = f"// isa: {' '.join(self.kernel.isa)}\n{self.kernel.source}"
            return ir.ForeignKernel(name=name, params=params, runtime=device, payload=payload)
        return replace(self.kernel, name=name, params=params)


def _isa() -> tuple[str, ...]:
    """Returns the vector instruction sets that Inductor emits C++ for.

    Inductor detects them by compiling, so call this only for programs with C++ kernels.
    """
    isa = cpu_vec_isa.pick_vec_isa()  # falsy if there are none; the code is then scalar
    return tuple(str(isa).split()) if isa else ()


def cpp_definition(event: DefineKernel) -> CppDefinition:
    """Parses a declaration; raises ConversionError FE303, and FE305 for dtypes without a counterpart in the
    IR."""
    match = _ENTRY.search(event.declaration)
    if match is None:
        raise ConversionError(
            "FE303", f"kernel {event.name}: cannot read declaration {event.declaration[:200]!r}"
        )
    params = [_param(event.name, text) for text in match["params"].split(",") if text.strip()]
    kernel = ir.CppKernel(
        name=event.name,
        params=tuple(param for param, _ in params),
        source=event.source,
        entry=match["entry"],
        isa=_isa(),
        requires=required_headers(event.source),
    )
    return CppDefinition(kernel, frozenset(param.name for param, constant in params if constant))


def _param(kernel: str, text: str) -> tuple[ir.KernelParam, bool]:
    """Parses one parameter; returns it, and whether it is const."""
    match = _PARAM.fullmatch(text)
    pointer = match is not None and match["pointer"] is not None
    if match is None or match["type"] not in (_POINTERS if pointer else _SCALARS):
        raise ConversionError("FE303", f"kernel {kernel}: cannot read parameter {text.strip()!r}")
    kind = ir.ParamKind.POINTER if pointer else ir.ParamKind.SCALAR
    dtype = to_dtype(_POINTERS[match["type"]]) if pointer else _SCALARS[match["type"]]
    return ir.KernelParam(name=match["name"], kind=kind, dtype=dtype), match["const"] is not None
