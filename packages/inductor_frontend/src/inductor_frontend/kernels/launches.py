"""Kernel launches: definitions completed by their calls, arguments, and scratch memory."""

from __future__ import annotations

from collections.abc import Hashable, Iterable
from dataclasses import dataclass, field, replace

from torch._inductor import ir
from torch._inductor.codegen.common import WorkspaceZeroMode

from inductor_frontend.convert import to_device, to_dtype
from inductor_frontend.errors import ConversionError, at_node
from inductor_frontend.kernels.cpp_definition import CppDefinition, cpp_definition
from inductor_frontend.kernels.extents import clear_fresh, extents_of
from inductor_frontend.kernels.multi_kernels import Merged, MultiTable, Part, leading
from inductor_frontend.kernels.operator_kernels import OperatorKernels, OperatorTable, reordered
from inductor_frontend.kernels.sharing import Passed, Use, uses_of
from inductor_frontend.record.events import (
    AllocateWorkspace,
    BufferArg,
    CallKernel,
    DefineKernel,
    DefineMulti,
    DefineTriton,
    LaunchArg,
)
from inductor_frontend.scope.scope import Scope
from inductor_frontend.triton.definition import TritonDefinition, definition_of
from inductor_frontend.triton.templates import TEMPLATE, merged_instances, with_grid
from wrapper_ir.expr import Expr, Int, SymKind, to_bool, to_int, where
from wrapper_ir.ir import (
    CPU,
    Access,
    AllocPurpose,
    Arg,
    CppKernel,
    DType,
    ForeignKernel,
    Item,
    KernelParam,
    StorageType,
    SymbolDef,
    TensorType,
    TritonKernel,
    Value,
    ZeroMode,
    extent_bytes,
    is_tensor,
)

Definition = CppDefinition | TritonDefinition
"""A parsed definition; the translation of a launch is the same for both."""

LaunchedKernel = CppKernel | TritonKernel | ForeignKernel


@dataclass(frozen=True, slots=True)
class KernelTable:
    """The kernels of one program: Inductor's definitions, and the kernels created from them."""

    defined: dict[str, Definition] = field(default_factory=dict)
    multis: dict[str, DefineMulti] = field(default_factory=dict)
    kernels_by_use: dict[tuple[str, Hashable], LaunchedKernel] = field(default_factory=dict)
    choices: MultiTable = field(default_factory=MultiTable)
    operators: OperatorTable = field(default_factory=dict)


_ZERO = {
    WorkspaceZeroMode.UNINITIALIZED: ZeroMode.NONE,
    WorkspaceZeroMode.ZERO_ON_CALL: ZeroMode.CALL,
    WorkspaceZeroMode.ZERO_PER_GRAPH: ZeroMode.ONCE,
}


class Launches:
    """The kernels and scratch memory of one function.

    A definition is completed at its first call, which determines the access of each pointer.
    """

    def __init__(self, scope: Scope, table: KernelTable) -> None:
        self._scope = scope
        self._table = table
        self._operators = OperatorKernels(scope, table.operators)
        self._scratch: set[Value] = set()
        """Uninitialized scratch storages of the next launch."""

    def define(self, event: DefineKernel | DefineTriton | DefineMulti) -> None:
        """Parses a definition, or stores the candidates of a multi-kernel; raises ConversionError FE303."""
        match event:
            case DefineKernel():
                self._table.defined[event.name] = cpp_definition(event)
            case DefineTriton():
                self._table.defined[event.name] = definition_of(event.name, event.source)
            case DefineMulti():
                self._table.multis[event.name] = event

    def allocate(self, event: AllocateWorkspace) -> None:
        """Allocates scratch memory. Each launch has separate memory, even if Inductor shares it among
        kernels."""
        scope, workspace = self._scope, event.workspace
        name = workspace.outer_name
        type = TensorType(
            to_dtype(workspace.dtype), (scope.expr(workspace.count),), (Int(1),), to_device(workspace.device)
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

    def call(self, event: CallKernel) -> None:
        """Appends a launch; the definition is completed with the accesses of this call."""
        scope = self._scope
        scope.function.prov = scope.provenance.read(event.origins, event.name)
        launch = self._launch(event)
        for param, arg in zip(launch.kernel.params, launch.args, strict=True):
            root = scope.root(arg) if isinstance(arg, Value) else None
            if param.access is Access.READWRITE and root is not None and isinstance(root.type, StorageType):
                clear_fresh(scope, root)
        scope.function.launch(launch.kernel, launch.args, extents=launch.extents, grid=launch.grid)

    def _launch(self, event: CallKernel) -> Part | Merged:
        multi = self._table.multis.get(event.name)
        if multi is None:
            return self._part(self._definition(event.name), tuple(range(len(event.args))), event)
        parts = self._parts(multi, event)
        for part in parts:
            self._scope.program.kernel(part.kernel)
        if all(part.kernel == parts[0].kernel for part in parts):
            return parts[0]
        return self._table.choices.merged(event.name, parts)

    def _definition(self, name: str) -> Definition:
        definition = self._table.defined.get(name)
        if definition is None:
            raise ConversionError("FE303", f"kernel {name} is called, but was never defined")
        return definition

    def _triton(self, name: str) -> TritonDefinition:
        definition = self._definition(name)
        assert isinstance(definition, TritonDefinition), "only Triton has multi-kernels"
        return definition

    def _parts(self, multi: DefineMulti, event: CallKernel) -> list[Part]:
        """Returns the kernels of a multi-kernel, each with the arguments of its call; common arguments come
        first."""
        operator = multi.operator
        end = len(event.args) - (0 if operator is None else operator.tensors)
        shared = end - multi.own * len(multi.kernels)
        groups = self._chosen_definitions(multi)
        every = tuple(range(shared))
        arguments = [
            (
                *(multi.takes[members[0]] if multi.takes else every),
                *(shared + i * multi.own + j for i in members for j in range(multi.own)),
            )
            for _, members in groups
        ]
        read = [{t[p] for p in d.positions} for (d, _), t in zip(groups, arguments, strict=True)]
        parts: list[Part] = []
        if operator is not None:
            pointers = {
                t[p]
                for (d, _), t in zip(groups, arguments)
                for p, q in zip(d.positions, d.kernel.params)
                if q.kind.takes_tensor
            }
            values = {p: self._tensor(event.args[p], event) for p in sorted(pointers)}
            tensors = {p: self._tensor(event.args[p], event) for p in range(end, len(event.args))}
            [out] = (p for p in values if _name(event.args[p]) in event.produced)
            parts.append(self._operators.part(operator, values, tensors, out))
            read.append({*parts[0].positions})
        common = set[int].intersection(*read)
        parts = [self._operators.named(reordered(part, common)) for part in parts]
        for (definition, members), positions in zip(groups, arguments, strict=True):
            first = leading(definition, [i for i, at in enumerate(positions) if at in common])
            hint = multi.hints[members[0]] if multi.hints else None
            parts.append(replace(self._part(first, positions, event), hint=hint))
        return parts

    def _chosen_definitions(self, multi: DefineMulti) -> list[tuple[TritonDefinition, tuple[int, ...]]]:
        """Returns the kernels of a multi-kernel with their positions; instances of one template are
        merged."""
        definitions = [self._triton(name) for name in multi.kernels]
        if not multi.hints:
            return [(definition, (i,)) for i, definition in enumerate(definitions)]
        entries = []
        for hint in dict.fromkeys(multi.hints):
            members = [i for i, h in enumerate(multi.hints) if h == hint]
            merged = merged_instances([definitions[i] for i in members])
            entries += [(d, tuple(members[i] for i in group)) for d, group in merged]
        return entries

    def _part(self, definition: Definition, arguments: tuple[int, ...], event: CallKernel) -> Part:
        """Returns a kernel with the arguments of a call at the positions `arguments`."""
        grid_params = definition.kernel.grid_params if isinstance(definition, TritonDefinition) else ()
        expected = definition.arguments + len(grid_params)
        if len(arguments) != expected:
            raise ConversionError(
                "FE303",
                f"kernel {definition.kernel.name} has {expected} parameters, but {len(arguments)} arguments",
            )
        positions = tuple(arguments[p] for p in definition.positions)
        sources = [event.args[p] for p in positions]
        args = [self._argument(p, a, event) for p, a in zip(definition.kernel.params, sources, strict=True)]
        extents = extents_of(self._scope, args, sources)
        grid = [self._grid_size(event.args[p], event) for p in arguments[definition.arguments :]]
        if isinstance(definition, TritonDefinition) and definition.kernel.heuristic == TEMPLATE:
            definition, grid = with_grid(definition, grid)
        uses = self._uses(definition, sources, args, event)
        kernel = self._kernel(definition, uses, extents, _device(args))
        return Part(kernel=kernel, positions=positions, args=tuple(args), extents=extents, grid=tuple(grid))

    # --- kernels

    def _uses(
        self, definition: Definition, sources: list[LaunchArg], args: list[Arg], event: CallKernel
    ) -> tuple[Use, ...]:
        roots = [self._scope.root(a) if isinstance(a, Value) else None for a in args]
        operands = [
            Passed(
                name=param.name,
                dtype=param.dtype,
                access=self._access(definition, param, _name(arg), root, event),
                buffer=_name(arg),
                value=value,
                storage=root,
            )
            for param, arg, value, root in zip(definition.kernel.params, sources, args, roots, strict=True)
        ]
        return uses_of(operands, event.inplace, own=event.writes is not None)

    def _access(
        self, definition: Definition, param: KernelParam, buffer: str, root: Value | None, event: CallKernel
    ) -> Access:
        """Returns the access of a call through a parameter. Uninitialized scratch memory is never read."""
        if not param.kind.takes_tensor:
            return Access.NONE
        return Access.WRITE if root in self._scratch else definition.access(param, buffer, event)

    def _kernel(
        self, definition: Definition, uses: tuple[Use, ...], extents: tuple[Expr, ...], device: str
    ) -> LaunchedKernel:
        """Returns the typed kernel.

        If a source is called on another device type, with other uses of its parameters or with other extents,
        a second kernel is defined: all launches of one kernel have the same extents.
        """
        name = definition.kernel.name
        key = name, (definition.identity, uses, extents, device)
        kernel = self._table.kernels_by_use.get(key)
        if kernel is None:
            count = sum(other == name for other, _ in self._table.kernels_by_use)
            params = tuple(
                replace(p, access=use.access, may_alias=use.may_alias, may_overlap=use.may_overlap)
                for p, use in zip(definition.kernel.params, uses, strict=True)
            )
            kernel = definition.completed(name if count == 0 else f"{name}_{count}", params, device)
            self._table.kernels_by_use[key] = kernel
        return kernel

    # --- arguments

    def _argument(self, param: KernelParam, arg: LaunchArg, event: CallKernel) -> Arg:
        if not param.kind.takes_tensor:
            return self._number(param, arg, event)
        value = self._tensor(arg, event)
        if value.type.dtype is not param.dtype:
            raise ConversionError(
                "FE303", f"kernel {event.name} receives {value.type.dtype} as {param.dtype}{_place(event)}"
            )
        return value

    def _tensor(self, arg: LaunchArg, event: CallKernel) -> Value[TensorType]:
        match arg:
            case BufferArg(name):
                value = self._scope.find(name)
            case ir.IRNode():
                value = self._scope.reference(arg)
            case _:
                value = None
        if is_tensor(value):
            return value
        raise ConversionError(
            "FE303", f"argument {arg!r} of kernel {event.name} is not a tensor{_place(event)}"
        )

    def _number(self, param: KernelParam, arg: LaunchArg, event: CallKernel) -> Expr:
        number = (
            self._read(self._tensor(arg, event)) if isinstance(arg, BufferArg) else self._size(arg, event)
        )
        if (number.kind is SymKind.FLOAT) != param.dtype.is_floating:
            raise ConversionError(
                "FE303", f"kernel {event.name} receives {number} as {param.dtype.value}{_place(event)}"
            )
        return number

    def _read(self, tensor: Value[TensorType]) -> Expr:
        """Reads a one-element tensor at this launch: Inductor passes such host tensors by value."""
        dtype, item = tensor.type.dtype, Item(tensor)
        kind = SymKind.FLOAT if dtype.is_floating else SymKind.INT
        base, count = f"{tensor.name}_number", 0
        name = base
        while name in self._scope.symbols.defined:
            count += 1
            name = f"{base}_{count}"
        number = where(to_bool(item), Int(1), Int(0)) if dtype is DType.BOOL else item
        return self._scope.symbols.define(SymbolDef(name=name, kind=kind, backed=False), number)

    def _grid_size(self, arg: LaunchArg, event: CallKernel) -> Expr:
        """Converts a size of the grid, in programs. Raises ConversionError FE303 for a float."""
        size = self._size(arg, event)
        if size.kind is SymKind.FLOAT:
            raise ConversionError("FE303", f"the grid of kernel {event.name} has {size}{_place(event)}")
        return to_int(size) if size.kind is SymKind.BOOL else size

    def _size(self, arg: LaunchArg, event: CallKernel) -> Expr:
        if isinstance(arg, BufferArg | ir.IRNode):
            raise ConversionError(
                "FE303", f"argument {arg!r} of kernel {event.name} is not a number{_place(event)}"
            )
        return self._scope.expr(arg)


def _device(args: Iterable[Arg]) -> str:
    """Returns the device type of the tensors among the arguments."""
    return next((arg.type.device.type for arg in args if is_tensor(arg)), CPU.type)


def _name(arg: LaunchArg) -> str:
    """Returns the name of a buffer argument; '' for other arguments."""
    return arg.name if isinstance(arg, BufferArg) else ""


def _place(event: CallKernel) -> str:
    return at_node(event.name, ", ".join(n.name for n in event.origins))
