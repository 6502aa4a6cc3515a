"""Builders of programs, which name values and declare the symbols, operators and kernels that ops refer to.

b = ProgramBuilder()
f = b.function("main")
x = f.param("x", f32(8))
y = f.alloc("y", x.type)
f.launch(kernel, (x, y))
f.ret((y,))
program = b.finish()
"""

from __future__ import annotations

import dataclasses
from collections.abc import Iterable, Sequence
from typing import TypeVar

from wrapper_ir import ir
from wrapper_ir.errors import BuildError
from wrapper_ir.expr import Expr, as_expr

Dim = int | Expr
D = TypeVar("D")
TypeT = TypeVar("TypeT", bound=ir.Type)
ResultT = TypeVar("ResultT", bound=ir.TensorType | ir.ScalarType | ir.TupleType | ir.OpaqueType)


def tensor_type(
    dtype: ir.DType, sizes: Sequence[Dim], strides: Sequence[Dim] | None = None, device: ir.Device = ir.CPU
) -> ir.TensorType:
    """Returns a tensor type from ints and expressions; strides are contiguous by default."""
    size = tuple(as_expr(s) for s in sizes)
    stride = ir.contiguous_strides(size) if strides is None else tuple(as_expr(s) for s in strides)
    return ir.TensorType(dtype, size, stride, device)


class FunctionBuilder:
    """Builds one function. Each op method appends one op or a short sequence and returns its result."""

    def __init__(self, program: ProgramBuilder, name: str, prefix: str = "") -> None:
        self.program = program
        self.name = name
        self._prefix = prefix
        self.ops: list[ir.Op] = []
        self.prov: ir.Provenance = ir.UNKNOWN
        """Provenance of ops appended from now on."""
        self.replayable = False
        """See `Function`."""
        self._params: list[ir.Param] = []
        self._captures: dict[str, None] = {}
        self._names: set[str] = set()

    def fresh_name(self, wish: str) -> str:
        """Returns `wish` without the prefix, made unique among values and constants by `_1`, `_2`, ..."""
        wish = wish.removeprefix(self._prefix) or wish
        name, n = wish, 0
        while name in self._names or name in self.program.constant_names:
            n += 1
            name = f"{wish}_{n}"
        self._names.add(name)
        return name

    def value(self, name: str, type: TypeT) -> ir.Value[TypeT]:
        """Returns a new value with a fresh name, for an op of the caller."""
        return ir.Value(self.fresh_name(name), type)

    def append(self, op: ir.Op) -> None:
        """Appends an existing op."""
        self.ops.append(op)

    def param(
        self, name: str, type: TypeT, ownership: ir.Ownership = ir.Ownership.BORROWED
    ) -> ir.Value[TypeT]:
        """Declares a parameter."""
        value = self.value(name, type)
        self._params.append(ir.Param(value=value, ownership=ownership))
        return value

    def capture(self, symbol: str) -> None:
        """Declares a symbol captured from the calling function."""
        self._captures[symbol] = None

    def alloc_storage(
        self,
        name: str,
        nbytes: Dim,
        *,
        device: ir.Device = ir.CPU,
        space: ir.MemorySpace | None = None,
        purpose: ir.AllocPurpose = ir.AllocPurpose.PLAIN,
        zero: ir.ZeroMode = ir.ZeroMode.NONE,
        stream: int = 0,
    ) -> ir.Value[ir.StorageType]:
        """Appends an `AllocStorage`."""
        result = self.value(name, ir.StorageType(as_expr(nbytes), device, space or ir.MemorySpace()))
        op = ir.AllocStorage(result=result, purpose=purpose, zero=zero, stream=stream, prov=self.prov)
        self.append(op)
        return result

    def alloc(self, name: str, type: ir.TensorType, nbytes: Dim | None = None) -> ir.Value[ir.TensorType]:
        """Appends an allocation `<name>.s` of `nbytes` (default: the layout's extent) and a view of it."""
        size = ir.extent_bytes(type) if nbytes is None else as_expr(nbytes)
        storage = self.alloc_storage(f"{name}.s", size, device=type.device)
        return self.view(name, storage, type)

    def slot(
        self,
        name: str,
        pool: ir.Value[ir.StorageType],
        offset: Dim,
        nbytes: Dim,
        *,
        zero: ir.ZeroMode = ir.ZeroMode.NONE,
    ) -> ir.Value[ir.StorageType]:
        """Appends a `Slot`; `offset` and `nbytes` are in bytes."""
        alignment = ir.slot_alignment(pool.type, as_expr(offset))
        result = self.value(name, dataclasses.replace(pool.type, nbytes=as_expr(nbytes), alignment=alignment))
        self.append(ir.Slot(pool=pool, result=result, offset=as_expr(offset), zero=zero, prov=self.prov))
        return result

    def view(
        self,
        name: str,
        source: ir.Value[ir.StorageType | ir.TensorType],
        type: ir.TensorType,
        offset: Dim = 0,
        mode: ir.ViewMode = ir.ViewMode.ALIAS,
    ) -> ir.Value[ir.TensorType]:
        """Appends a `View`; `offset` is in bytes."""
        result = self.value(name, type)
        self.append(ir.View(source=source, result=result, offset=as_expr(offset), mode=mode, prov=self.prov))
        return result

    def launch(
        self,
        kernel: ir.KernelDef,
        args: Iterable[ir.Arg],
        *,
        grid: Iterable[Dim] = (),
        extents: Iterable[Dim] = (),
        stream: int = 0,
    ) -> None:
        """Appends a `Launch` and declares the kernel."""
        self.program.kernel(kernel)
        self.append(
            ir.Launch(
                kernel=kernel.name,
                args=tuple(args),
                grid=tuple(as_expr(g) for g in grid),
                extents=tuple(as_expr(e) for e in extents),
                stream=stream,
                prov=self.prov,
            )
        )

    def call(
        self,
        extern: ir.ExternDef,
        args: Iterable[ir.Arg],
        kwargs: Iterable[tuple[str, ir.Arg]] = (),
        *,
        name: str = "",
        type: ResultT | None = None,
    ) -> ir.Value[ResultT] | None:
        """Appends a `CallExtern` and declares the operator. Without `type`, the op has no result."""
        self.program.extern(extern)
        result = None if type is None else self.value(name or "t", type)
        self.append(
            ir.CallExtern(
                target=extern.name, args=tuple(args), kwargs=tuple(kwargs), result=result, prov=self.prov
            )
        )
        return result

    def collective(
        self,
        extern: ir.ExternDef,
        args: Iterable[ir.Arg],
        kwargs: Iterable[tuple[str, ir.Arg]] = (),
        *,
        group: str,
        results: Iterable[tuple[str, ir.TensorType]],
    ) -> tuple[ir.Value[ir.TensorType], ...]:
        """Appends a `CollectiveStart` and declares the operator. `results` are names and types."""
        self.program.extern(extern)
        in_flight = tuple(self.value(name, type) for name, type in results)
        op = ir.CollectiveStart(
            target=extern.name,
            args=tuple(args),
            kwargs=tuple(kwargs),
            results=in_flight,
            group=group,
            prov=self.prov,
        )
        self.append(op)
        return in_flight

    def wait(self, name: str, source: ir.Value[ir.TensorType]) -> ir.Value[ir.TensorType]:
        """Appends a `Wait`."""
        result = self.value(name, source.type)
        self.append(ir.Wait(source=source, result=result, prov=self.prov))
        return result

    def unpack(
        self, name: str, source: ir.Value[ir.TupleType], path: Iterable[int | str], type: ResultT
    ) -> ir.Value[ResultT]:
        """Appends an `Unpack`."""
        result = self.value(name, type)
        self.append(ir.Unpack(source=source, path=tuple(path), result=result, prov=self.prov))
        return result

    def define(self, symbol: str, expr: Expr) -> None:
        """Appends a `Define`; the symbol must be declared with `ProgramBuilder.symbol`."""
        self.append(ir.Define(symbol=symbol, expr=expr, prov=self.prov))

    def ret(self, values: Iterable[ir.Arg]) -> None:
        """Appends the `Return`."""
        self.append(ir.Return(values=tuple(values), prov=self.prov))

    def finish(self) -> ir.Function:
        """Returns the function. Raises BuildError WIR301 if it does not end in a return."""
        function = ir.Function(
            name=self.name,
            params=tuple(self._params),
            body=tuple(self.ops),
            captures=tuple(self._captures),
            replayable=self.replayable,
        )
        _ = function.returns
        return function


class ProgramBuilder:
    """Builds a program; declares each symbol, constant, operator and kernel once."""

    def __init__(self, target: ir.Target | None = None) -> None:
        self.target = target or ir.Target()
        self._functions: dict[str, FunctionBuilder] = {}
        self._symbols: dict[str, ir.SymbolDef] = {}
        self._constants: dict[str, ir.Constant] = {}
        self._externs: dict[str, ir.ExternDef] = {}
        self._kernels: dict[str, ir.KernelDef] = {}

    @property
    def constant_names(self) -> frozenset[str] | dict[str, ir.Constant]:
        """Names of constants, which are visible in every function."""
        return self._constants

    def function(self, name: str, prefix: str = "") -> FunctionBuilder:
        """Starts a function; the first is `main`.

        Values lose the name prefix `prefix`, with which a compiler may distinguish the values of several
        functions.
        """
        if name in self._functions:
            raise BuildError("WIR306", f"function @{name} exists already")
        return self._functions.setdefault(name, FunctionBuilder(self, name, prefix))

    def fresh_function_name(self, wish: str) -> str:
        """Returns `wish`, made unique among functions by `_1`, `_2`, ..."""
        name, n = wish, 0
        while name in self._functions:
            n += 1
            name = f"{wish}_{n}"
        return name

    def symbol(self, definition: ir.SymbolDef) -> ir.SymbolDef:
        """Declares a symbol. As all declarations, raises BuildError WIR306 for a different earlier one."""
        return self._declare(self._symbols, definition.name, definition)

    def constant(self, constant: ir.Constant) -> ir.Value:
        """Declares a constant."""
        return self._declare(self._constants, constant.value.name, constant).value

    def extern(self, extern: ir.ExternDef) -> ir.ExternDef:
        """Declares an operator."""
        return self._declare(self._externs, extern.name, extern)

    def kernel(self, kernel: ir.KernelDef) -> ir.KernelDef:
        """Declares a kernel."""
        return self._declare(self._kernels, kernel.name, kernel)

    def _declare(self, table: dict[str, D], name: str, definition: D) -> D:
        if table.setdefault(name, definition) != definition:
            raise BuildError("WIR306", f"{name!r} is declared twice, with different definitions")
        return definition

    def finish(self) -> ir.Program:
        """Returns the program, unverified."""
        return self._program(self._functions.values())

    def draft(self) -> ir.Program:
        """Returns the functions that already end in a return as a program, for early analyses."""
        return self._program(f for f in self._functions.values() if f.ops and type(f.ops[-1]) is ir.Return)

    def _program(self, functions: Iterable[FunctionBuilder]) -> ir.Program:
        return ir.Program(
            target=self.target,
            functions=tuple(f.finish() for f in functions),
            symbols=tuple(self._symbols.values()),
            constants=tuple(self._constants.values()),
            externs=tuple(self._externs.values()),
            kernels=tuple(self._kernels.values()),
        )
