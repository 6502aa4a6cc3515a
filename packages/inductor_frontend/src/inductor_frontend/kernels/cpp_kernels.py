"""C++ kernels: typed definitions from upstream's declarations, and launches."""

from __future__ import annotations

import re
from dataclasses import dataclass

import sympy
from torch._inductor import cpu_vec_isa
from torch._inductor.codegen.cpp_utils import DTYPE_TO_CPP

from inductor_frontend.convert import to_dtype
from inductor_frontend.errors import ConversionError, at_node
from inductor_frontend.kernels.extents import clear_fresh, extents_of
from inductor_frontend.kernels.requirements import required_headers
from inductor_frontend.kernels.sharing import Passed, Use, uses_of
from inductor_frontend.kernels.triton_kernels import TritonTable
from inductor_frontend.record.events import CallKernel, DefineKernel
from inductor_frontend.scope.scope import Scope
from wrapper_ir.expr import Expr, Int
from wrapper_ir.kernels import Access, CppKernel, KernelParam, ParamKind
from wrapper_ir.ops import Arg
from wrapper_ir.types import DType, StorageType, TensorType
from wrapper_ir.values import Value

__all__ = ["KernelTable", "Kernels"]

_ENTRY = re.compile(
    r'extern\s+"C"\s+(?:\w+\s+)*?void\s+(?:\w+\s+)*?(?P<entry>\w+)\s*\((?P<params>.*)\)', re.DOTALL
)
_PARAM = re.compile(r"\s*(?P<const>const\s+)?(?P<type>[\w:<>]+)\s*(?P<pointer>\*)?\s*(?P<name>\w+)\s*")
_SCALARS = {
    "int64_t": DType.I64,
    "long": DType.I64,
    "int32_t": DType.I32,
    "float": DType.F32,
    "double": DType.F64,
}


@dataclass(frozen=True, slots=True)
class _Declared:
    """One parameter as declared in C++."""

    name: str
    dtype: DType
    pointer: bool
    constant: bool


def _pointer_types() -> dict[str, DType]:
    return {text: to_dtype(dtype) for dtype, text in DTYPE_TO_CPP.items()}


def _isa() -> tuple[str, ...]:
    """The vector instructions that upstream writes C++ for. It finds out by compiling, so a program without C++ kernels must
    not ask."""
    chosen = cpu_vec_isa.pick_vec_isa()  # false where there are none, and the code is scalar
    return tuple(str(chosen).split()) if chosen else ()


class KernelTable:
    """The kernels of one program: those that upstream has defined, and those made from them so far."""

    def __init__(self) -> None:
        self.defined: dict[str, DefineKernel] = {}
        self.made: dict[tuple[str, tuple[Use, ...], tuple[Expr, ...]], CppKernel] = {}
        self.triton = TritonTable()


class Kernels:
    """Kernel definitions waiting for their first call, which tells what each pointer is used for."""

    def __init__(self, scope: Scope, table: KernelTable) -> None:
        self._scope = scope
        self._defined = table.defined
        self._pointer_types = _pointer_types()
        self._made = table.made

    def define(self, event: DefineKernel) -> None:
        """Remembers a definition."""
        self._defined[event.name] = event

    def call(self, event: CallKernel) -> None:
        """Launch; the definition is completed from this call's accesses."""
        scope = self._scope
        scope.function.prov = scope.provenance.read(event.origins, event.name)
        definition = self._defined.get(event.name)
        if definition is None:
            raise ConversionError("FE303", f"kernel {event.name} is called, but was never defined")
        declared = self._declared(definition)
        if len(declared) != len(event.args):
            raise ConversionError(
                "FE303",
                f"kernel {event.name} has {len(declared)} parameters, but is called with {len(event.args)}",
            )
        args = [self._argument(p, text, event) for p, text in zip(declared, event.args)]
        roots = [scope.root(a) if isinstance(a, Value) else None for a in args]
        passed = [
            Passed(
                name=p.name,
                dtype=p.dtype,
                access=self._access(p, text, event),
                buffer=text,
                value=arg,
                storage=root,
            )
            for p, text, arg, root in zip(declared, event.args, args, roots, strict=True)
        ]
        uses = uses_of(passed, event.inplace)
        for use, root in zip(uses, roots):
            if use.access is Access.READWRITE and root is not None and isinstance(root.type, StorageType):
                clear_fresh(scope, root)
        extents = extents_of(scope, args, event.args)
        kernel = self._kernel(definition, declared, uses, tuple(extents))
        scope.function.launch(kernel, args, extents=extents)

    # --- definitions

    def _declared(self, definition: DefineKernel) -> list[_Declared]:
        match = _ENTRY.search(definition.declaration)
        if match is None:
            raise ConversionError(
                "FE303", f"kernel {definition.name}: cannot read declaration {definition.declaration[:200]!r}"
            )
        texts = [t for t in match["params"].split(",") if t.strip()]
        return [self._param(definition.name, text) for text in texts]

    def _param(self, kernel: str, text: str) -> _Declared:
        match = _PARAM.fullmatch(text)
        pointer = match is not None and match["pointer"] is not None
        table = self._pointer_types if pointer else _SCALARS
        if match is None or match["type"] not in table:
            raise ConversionError("FE303", f"kernel {kernel}: cannot read parameter {text.strip()!r}")
        return _Declared(match["name"], table[match["type"]], pointer, match["const"] is not None)

    def _access(self, param: _Declared, arg: str, event: CallKernel) -> Access:
        """Reads come through const pointers. A buffer that this kernel makes is written whole; any other that it
        writes may be written in part, so its old content counts as read."""
        if not param.pointer:
            return Access.NONE
        if param.constant:
            return Access.READ
        return Access.WRITE if arg in event.produced else Access.READWRITE

    def _kernel(
        self,
        definition: DefineKernel,
        declared: list[_Declared],
        uses: tuple[Use, ...],
        extents: tuple[Expr, ...],
    ) -> CppKernel:
        """The typed kernel. One source called with other uses of its parameters, or with windows of other sizes,
        becomes a second definition, so that all launches of one kernel state the same extents."""
        key = (definition.name, uses, extents)
        found = self._made.get(key)
        if found is not None:
            return found
        match = _ENTRY.search(definition.declaration)
        assert match is not None  # read before, in _declared
        count = sum(name == definition.name for name, _, _ in self._made)
        params = tuple(
            KernelParam(
                name=p.name,
                kind=ParamKind.POINTER if p.pointer else ParamKind.SCALAR,
                dtype=p.dtype,
                access=use.access,
                may_alias=use.may_alias,
                may_overlap=use.may_overlap,
            )
            for p, use in zip(declared, uses)
        )
        kernel = CppKernel(
            name=definition.name if count == 0 else f"{definition.name}_{count}",
            params=params,
            source=definition.source,
            entry=match["entry"],
            isa=_isa(),
            requires=required_headers(definition.source),
        )
        self._made[key] = kernel
        return kernel

    # --- arguments

    def _argument(self, param: _Declared, text: str, event: CallKernel) -> Arg:
        if not param.pointer:
            return self._scalar(text, event)
        value = self._scope.find(text)
        if value is None or not isinstance(value.type, TensorType):
            source = ", ".join(n.name for n in event.origins)
            raise ConversionError(
                "FE303", f"argument {text!r} of kernel {event.name} is no tensor{at_node(event.name, source)}"
            )
        return value

    def _scalar(self, text: str, event: CallKernel) -> Expr:
        if text.lstrip("-").isdigit():
            return Int(int(text))
        symbol = self._scope.symbols.defined.get(text)
        return self._scope.expr(sympy.Symbol(text, integer=True) if symbol is None else symbol)
