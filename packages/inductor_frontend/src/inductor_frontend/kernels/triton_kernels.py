"""Triton kernels: typed definitions from upstream's modules, launches, and their scratch memory."""

from __future__ import annotations

from dataclasses import dataclass, field, replace

import sympy
from torch._inductor import ir
from torch._inductor.codegen.common import WorkspaceZeroMode

from inductor_frontend.convert import to_device, to_dtype
from inductor_frontend.errors import ConversionError, at_node
from inductor_frontend.kernels.extents import clear_fresh, extents_of
from inductor_frontend.kernels.multi_kernels import Merged, MultiTable, Part, leading
from inductor_frontend.kernels.operator_kernels import OperatorKernels, OperatorTable, reordered
from inductor_frontend.kernels.requirements import required_modules
from inductor_frontend.kernels.sharing import Passed, Use, uses_of
from inductor_frontend.record.events import AllocateWorkspace, CallTriton, DefineMulti, DefineTriton
from inductor_frontend.scope.scope import Scope
from inductor_frontend.triton.definition import TritonDefinition, TritonParam, definition_of
from inductor_frontend.triton.templates import TEMPLATE, merged_instances, with_grid
from wrapper_ir.expr import Expr, Float, Int, Item, SymKind, to_bool, where
from wrapper_ir.kernels import Access, KernelParam, ParamKind, TritonConfig, TritonKernel
from wrapper_ir.layout import extent_bytes
from wrapper_ir.ops import AllocPurpose, Arg, ZeroMode
from wrapper_ir.program import SymbolDef
from wrapper_ir.types import DType, StorageType, TensorType
from wrapper_ir.values import Value

__all__ = ["TritonKernels", "TritonTable"]


_Made = tuple[str, tuple[int, ...], tuple[TritonConfig, ...], tuple[Use, ...], tuple[Expr, ...]]


@dataclass(frozen=True, slots=True)
class TritonTable:
    """The Triton kernels of one program: those that upstream has defined, and those made from them so far."""

    defined: dict[str, TritonDefinition] = field(default_factory=dict)
    multis: dict[str, DefineMulti] = field(default_factory=dict)
    made: dict[_Made, TritonKernel] = field(default_factory=dict)
    chosen: MultiTable = field(default_factory=MultiTable)
    operators: OperatorTable = field(default_factory=dict)


_ROLES = ("in_ptr", "out_ptr", "arg_")
"""How upstream calls parameters whose role it is to read or to make a buffer."""

_ZERO = {
    WorkspaceZeroMode.UNINITIALIZED: ZeroMode.NONE,
    WorkspaceZeroMode.ZERO_ON_CALL: ZeroMode.CALL,
    WorkspaceZeroMode.ZERO_PER_GRAPH: ZeroMode.ONCE,
}


class TritonKernels:
    """The kernels and scratch memory of one function."""

    def __init__(self, scope: Scope, table: TritonTable) -> None:
        self._scope = scope
        self._table = table
        self._operators = OperatorKernels(scope, table.operators)
        self._scratch: set[Value] = set()
        """Storages of the next launch that hold nothing when it begins."""

    def define(self, event: DefineTriton) -> None:
        """Reads a definition; raises ConversionError FE303."""
        self._table.defined[event.name] = definition_of(event.name, event.source)

    def allocate(self, event: AllocateWorkspace) -> None:
        """Scratch memory. Each launch has its own, also where upstream lets the kernels of a graph share some."""
        scope, workspace = self._scope, event.workspace
        name = workspace.outer_name
        type = TensorType(
            to_dtype(workspace.dtype),
            (scope.expr(workspace.count),),
            (Int(1),),
            to_device(workspace.device),
        )
        storage = scope.function.alloc_storage(
            f"{name}.s",
            extent_bytes(type),
            device=type.device,
            purpose=AllocPurpose.WORKSPACE,
            zero=_ZERO[workspace.zero_mode],
        )
        if workspace.zero_mode is WorkspaceZeroMode.UNINITIALIZED:
            self._scratch.add(storage)
        scope.bind(name, scope.make_view(name, storage, type))

    def define_multi(self, event: DefineMulti) -> None:
        """Remembers which kernels one is chosen from."""
        self._table.multis[event.name] = event

    def call(self, event: CallTriton) -> None:
        """Launch; the definition is completed from this call's accesses."""
        scope = self._scope
        scope.function.prov = scope.provenance.read(event.origins, event.name)
        launch = self._launch(event)
        for param, arg in zip(launch.kernel.params, launch.args, strict=True):
            root = scope.root(arg) if isinstance(arg, Value) else None
            if param.access is Access.READWRITE and root is not None and isinstance(root.type, StorageType):
                clear_fresh(scope, root)
        scope.function.launch(launch.kernel, launch.args, extents=launch.extents, grid=launch.grid)

    def _launch(self, event: CallTriton) -> Part | Merged:
        multi = self._table.multis.get(event.name)
        if multi is None:
            return self._part(self._definition(event.name), tuple(range(len(event.args))), event)
        parts = self._parts(multi, event)
        for part in parts:
            self._scope.program.kernel(part.kernel)
        if all(part.kernel == parts[0].kernel for part in parts):
            return parts[0]
        return self._table.chosen.merged(event.name, parts)

    def _definition(self, name: str) -> TritonDefinition:
        found = self._table.defined.get(name)
        if found is None:
            raise ConversionError("FE303", f"kernel {name} is called, but was never defined")
        return found

    def _parts(self, multi: DefineMulti, event: CallTriton) -> list[Part]:
        """The kernels of a multi-kernel, each as if it was called with what it takes; what all take comes first."""
        operator = multi.operator
        end = len(event.args) - (0 if operator is None else operator.tensors)
        shared = end - multi.own * len(multi.kernels)
        chosen = self._chosen_definitions(multi)
        every = tuple(range(shared))
        taken = [
            (
                *(multi.takes[members[0]] if multi.takes else every),
                *(shared + i * multi.own + j for i in members for j in range(multi.own)),
            )
            for _, members in chosen
        ]
        given = [{t[p] for p in d.positions} for (d, _), t in zip(chosen, taken, strict=True)]
        parts: list[Part] = []
        if operator is not None:
            pointers = {
                t[p] for (d, _), t in zip(chosen, taken) for p, q in zip(d.positions, d.params) if q.pointer
            }
            values = {p: self._tensor(event.args[p], event) for p in sorted(pointers)}
            tensors = {p: self._tensor(event.args[p], event) for p in range(end, len(event.args))}
            [out] = (p for p in values if event.args[p] in event.produced)
            parts.append(self._operators.part(operator, values, tensors, out))
            given.append({*parts[0].positions})
        common = set[int].intersection(*given)
        parts = [self._operators.named(reordered(part, common)) for part in parts]
        for (definition, members), positions in zip(chosen, taken, strict=True):
            first = leading(definition, [i for i, at in enumerate(positions) if at in common])
            hint = multi.hints[members[0]] if multi.hints else None
            parts.append(replace(self._part(first, positions, event), hint=hint))
        return parts

    def _chosen_definitions(self, multi: DefineMulti) -> list[tuple[TritonDefinition, tuple[int, ...]]]:
        """The kernels of a multi-kernel; instances of one template are one, with their positions in the list."""
        definitions = [self._definition(name) for name in multi.kernels]
        if not multi.hints:
            return [(definition, (i,)) for i, definition in enumerate(definitions)]
        found = []
        for hint in dict.fromkeys(multi.hints):
            members = [i for i, h in enumerate(multi.hints) if h == hint]
            merged = merged_instances([definitions[i] for i in members])
            found += [(d, tuple(members[i] for i in group)) for d, group in merged]
        return found

    def _part(self, definition: TritonDefinition, taken: tuple[int, ...], event: CallTriton) -> Part:
        """A kernel, given the arguments of a call at the positions `taken`."""
        expected = definition.arguments + len(definition.grid_params)
        if len(taken) != expected:
            raise ConversionError(
                "FE303", f"kernel {definition.name} takes {expected} arguments, but is given {len(taken)}"
            )
        scope = self._scope
        positions = tuple(taken[p] for p in definition.positions)
        given = [event.args[p] for p in positions]
        args = [self._argument(p, a, event) for p, a in zip(definition.params, given, strict=True)]
        roots = [scope.root(a) if isinstance(a, Value) else None for a in args]
        extents = extents_of(scope, args, given)
        grid = [self._size(event.args[p], event) for p in taken[definition.arguments :]]
        if definition.heuristic == TEMPLATE:
            definition, grid = with_grid(definition, grid)
        return Part(
            kernel=self._kernel(
                definition, self._uses(definition, given, args, roots, event), tuple(extents)
            ),
            positions=positions,
            args=tuple(args),
            extents=tuple(extents),
            grid=tuple(grid),
        )

    # --- definitions

    def _uses(
        self,
        definition: TritonDefinition,
        given: list[object],
        args: list[Arg],
        roots: list[Value | None],
        event: CallTriton,
    ) -> tuple[Use, ...]:
        passed = [
            Passed(
                name=param.name,
                dtype=param.dtype,
                access=self._access(definition, param, arg, root, event),
                buffer=arg,
                value=value,
                storage=root,
            )
            for param, arg, value, root in zip(definition.params, given, args, roots, strict=True)
        ]
        return uses_of(passed, event.inplace, own=event.written is not None)

    def _access(
        self,
        definition: TritonDefinition,
        param: TritonParam,
        arg: object,
        root: Value | None,
        event: CallTriton,
    ) -> Access:
        """A buffer that this kernel makes is written whole; any other that it writes may be written in part, so its old
        content counts as read. Scratch memory without zeros holds nothing that could be read."""
        if not param.pointer:
            return Access.NONE
        if root in self._scratch:
            return Access.WRITE
        if event.written is not None:
            return Access.READWRITE if param.name in event.written else Access.READ
        if param.name.startswith("in_out_ptr") and arg in event.produced:
            # In place of a buffer that the same kernel makes; an atomic addition reads what it finds.
            return Access.READWRITE if "tl.atomic" in definition.source else Access.WRITE
        if param.name in definition.written or not param.name.startswith(_ROLES):
            return Access.READWRITE
        if param.name.startswith("arg_"):  # of a template
            return Access.READWRITE if arg in event.changed else Access.READ
        if param.name.startswith("in_ptr"):
            return Access.READ
        return Access.WRITE if arg in event.produced else Access.READWRITE

    def _kernel(
        self, definition: TritonDefinition, uses: tuple[Use, ...], extents: tuple[Expr, ...]
    ) -> TritonKernel:
        """The typed kernel. One source called with other uses of its parameters, or with windows of other sizes,
        becomes a second definition, so that all launches of one kernel state the same extents."""
        key = (definition.name, definition.positions, definition.configs, uses, extents)
        found = self._table.made.get(key)
        if found is not None:
            return found
        count = sum(name == definition.name for name, *_ in self._table.made)
        params = tuple(
            KernelParam(
                name=p.name,
                kind=_kind(p),
                dtype=p.dtype,
                access=use.access,
                may_alias=use.may_alias,
                may_overlap=use.may_overlap,
                divisible=p.divisible,
                block=tuple(Int(size) for size in p.block),
            )
            for p, use in zip(definition.params, uses, strict=True)
        )
        kernel = TritonKernel(
            name=definition.name if count == 0 else f"{definition.name}_{count}",
            params=params,
            source=definition.source,
            entry=definition.entry,
            order=definition.order,
            configs=definition.configs,
            grid=definition.grid,
            grid_params=definition.grid_params,
            constants=definition.constants,
            derive=definition.derive,
            options=definition.options,
            restore=tuple(p.name for p in params if p.access is Access.READWRITE)
            if definition.restore is None
            else definition.restore,
            reset=definition.reset,
            size_hints=definition.size_hints,
            heuristic=definition.heuristic,
            cooperative=definition.cooperative,
            multiprocessors=definition.multiprocessors,
            requires=required_modules(definition.source),
        )
        self._table.made[key] = kernel
        return kernel

    # --- arguments

    def _argument(self, param: TritonParam, arg: object, event: CallTriton) -> Arg:
        if not param.pointer:
            return self._number(param, arg, event)
        value = self._tensor(arg, event)
        assert isinstance(value.type, TensorType)
        if value.type.dtype is not param.dtype:
            raise ConversionError(
                "FE303",
                f"kernel {event.name} takes {value.type.dtype} as {param.dtype}{_place(event)}",
            )
        return value

    def _tensor(self, arg: object, event: CallTriton) -> Value:
        value = self._scope.find(arg) if isinstance(arg, str) else None
        if isinstance(arg, ir.IRNode):
            value = self._scope.reference(arg)
        if value is None or not isinstance(value.type, TensorType):
            raise ConversionError(
                "FE303", f"argument {arg!r} of kernel {event.name} is no tensor{_place(event)}"
            )
        return value

    def _number(self, param: TritonParam, arg: object, event: CallTriton) -> Expr:
        held = self._scope.find(arg) if isinstance(arg, str) else None
        found = self._size(arg, event) if held is None else self._read(held)
        if (found.kind is SymKind.FLOAT) != param.dtype.is_floating:
            raise ConversionError(
                "FE303", f"kernel {event.name} takes {found} as {param.dtype.value}{_place(event)}"
            )
        return found

    def _read(self, held: Value) -> Expr:
        """What a tensor of one element holds at this launch: upstream hands such tensors of the host to kernels by
        value."""
        dtype = held.type.dtype if isinstance(held.type, TensorType) else None
        item = Item(held)
        kind = SymKind.FLOAT if dtype is None or dtype.is_floating else SymKind.INT
        wish, count = f"{held.name}_number", 0
        name = wish
        while name in self._scope.symbols.defined:
            count += 1
            name = f"{wish}_{count}"
        number = where(to_bool(item), Int(1), Int(0)) if dtype is DType.BOOL else item
        return self._scope.symbols.define(SymbolDef(name=name, kind=kind, backed=False), number)

    def _size(self, arg: object, event: CallTriton) -> Expr:
        if isinstance(arg, int):
            return Int(arg)
        if isinstance(arg, float):
            return Float(arg)
        if isinstance(arg, str):
            if arg.lstrip("-").isdigit():
                return Int(int(arg))
            known = self._scope.symbols.defined.get(arg)
            arg = sympy.Symbol(arg, integer=True) if known is None else known
        if not isinstance(arg, sympy.Expr):
            raise ConversionError(
                "FE303", f"argument {arg!r} of kernel {event.name} is no number{_place(event)}"
            )
        return self._scope.expr(arg)


def _kind(param: TritonParam) -> ParamKind:
    if param.block:
        return ParamKind.DESCRIPTOR
    return ParamKind.POINTER if param.pointer else ParamKind.SCALAR


def _place(event: CallTriton) -> str:
    return at_node(event.name, ", ".join(n.name for n in event.origins))
