"""One activation of a function: its values, symbols and storages."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any, Generic, TypeAlias, TypeVar

from wrapper_ir import ir
from wrapper_ir.analysis.aliasing import Aliasing
from wrapper_ir.analysis.input_facts import TensorFacts, extent
from wrapper_ir.analysis.memo import Analyses
from wrapper_ir.artifact import Artifact
from wrapper_ir.errors import ExecutionError
from wrapper_ir.expr import Expr, Number, evaluate
from wrapper_ir.plugins.protocols import LoadedKernel, Machine
from wrapper_ir_runtime.interp.memory import MemoryMeter
from wrapper_ir_runtime.interp.options import InterpOptions
from wrapper_ir_runtime.results import fail_written

T = TypeVar("T")
Content: TypeAlias = Any
"""Content of a value. Any: a tensor, the byte tensor of a storage, a number, nested results, or a handle."""


@dataclass(frozen=True)
class FunctionInfo:
    """Aliasing of one function, indexed for execution."""

    function: ir.Function
    aliasing: Aliasing

    @cached_property
    def born(self) -> dict[int, tuple[ir.Value, ...]]:
        """Roots by the position of the op that creates them; owned parameters have position -1."""
        roots_at: dict[int, list[ir.Value]] = {}
        for root, position in self.aliasing.owned.items():
            roots_at.setdefault(position, []).append(root)
        return {position: tuple(roots) for position, roots in roots_at.items()}


@dataclass(slots=True)
class Session(Generic[T]):
    """State that all activations of one run share."""

    artifact: Artifact
    machine: Machine[T]
    options: InterpOptions
    analyses: Analyses
    constants: Mapping[ir.Value, T]
    kernels: Mapping[str, LoadedKernel]
    infos: dict[str, FunctionInfo] = field(default_factory=dict)
    meter: MemoryMeter = field(default_factory=MemoryMeter)
    layouts: Mapping[int, Sequence[ir.Value]] = field(default_factory=dict)
    """Parameters of `main` whose layouts are checked after the op at a position."""
    ops: int = 0

    def info(self, name: str) -> FunctionInfo:
        """Returns the analysis of a function, computed once."""
        info = self.infos.get(name)
        if info is None:
            function = self.analyses.program.function(name)
            info = FunctionInfo(function, self.analyses.aliasing(function))
            self.infos[name] = info
        return info


class Frame(Generic[T]):
    """An activation of a function."""

    def __init__(self, session: Session[T], info: FunctionInfo, depth: int) -> None:
        self.session = session
        self.machine: Machine[T] = session.machine
        self.info = info
        self.depth = depth
        self.values: dict[ir.Value, Content] = {}
        self.symbols: dict[str, Number] = {}
        self.roots: dict[ir.Value, int] = {}
        """Storage keys of the live roots."""
        self.slots: dict[ir.Value, T] = {}
        """Bytes of the live slots."""
        self.scopes: list[ir.EnterProfile | ir.EnterMemoryPool] = []
        """Ops that opened the scopes around this point."""
        self.tenants: dict[ir.Value, dict[ir.Value, None]] = {}
        """For each root, the defined values that may be in it."""

    # --- reading values

    def value(self, value: ir.Value) -> Content:
        """Returns the content of a value; raises ExecutionError WIR923 if it is not defined, or no longer."""
        content = self.values.get(value, self)
        if content is self:
            content = self.session.constants.get(value, self)
        if content is self:
            raise ExecutionError(
                "WIR923",
                f"%{value.name} has no value here: it is not defined yet, or was freed, dropped or moved",
            )
        return content

    def number(self, expr: Expr) -> Number:
        """Evaluates an expression."""
        return evaluate(expr, self.symbols, self._atom)

    def ints(self, exprs: Sequence[Expr]) -> list[int]:
        """Evaluates integer expressions."""
        return [int(self.number(e)) for e in exprs]

    def _atom(self, atom: Expr) -> Number:
        match atom:
            case ir.SizeOf(value, dim):
                return self.machine.sizes(self.value(value))[dim]
            case ir.StrideOf(value, dim):
                return self.machine.strides(self.value(value))[dim]
            case ir.OffsetOf(value):
                return self.machine.offset(self.value(value))
            case ir.Item(value):
                return self.item(self.value(value))
            case _:
                raise ExecutionError("WIR923", f"{atom} has no value here")

    def item(self, content: Content) -> Number:
        """Returns the number in a tensor of one element, or the number itself."""
        number: Number = self.machine.item(content) if self.machine.is_tensor(content) else content
        return number

    def argument(self, arg: ir.Arg) -> Content:
        """Returns an argument of a call in the machine's types."""
        match arg:
            case ir.Value():
                return self.value(arg)
            case Expr():
                return self.number(arg)
            case tuple():
                return [self.argument(item) for item in arg]
            case None | str():
                return arg
            case ir.Complex():
                return arg.value
            case _:
                return self.machine.native(arg)

    # --- defining and ending

    def bind(self, value: ir.Value, content: object) -> None:
        """Sets the content of a value."""
        self.values[value] = content
        for root in self.roots_of(value):
            self.tenants.setdefault(root, {})[value] = None

    def unbind(self, value: ir.Value) -> None:
        """Removes the content of a value, if it has one."""
        if self.values.pop(value, self) is not self:
            for root in self.roots_of(value):
                self.tenants[root].pop(value, None)

    def roots_of(self, value: ir.Value) -> tuple[ir.Value, ...]:
        """Returns the storages that a value may be in."""
        return self.info.aliasing.roots.get(value, (value,))

    def bind_checked(self, value: ir.Value, content: object, *, may_move: bool = True) -> None:
        """Binds the result of a library call after comparing it with its declared type.

        Unless it `may_move`, it must be on the device of the operands. Layouts with symbols that have no
        value yet (unbacked ones, defined by this result) are not checked.
        """
        if ir.is_tensor(value):
            self._check_result(value, value.type, content, may_move)
        self.bind(value, content)

    def _check_result(self, value: ir.Value, type: ir.TensorType, content: Content, may_move: bool) -> None:
        if not self.machine.is_tensor(content):
            raise ExecutionError("WIR927", f"%{value.name} is declared as a tensor but is {content!r}")
        facts = self.machine.caller.facts(content)
        dtype = facts.dtype
        if dtype != type.dtype.value:
            raise ExecutionError(
                "WIR927",
                f"%{value.name} is declared as {type.dtype.value}, but its elements are {dtype}: "
                "what reads it takes them for something else",
                hint="correct the op's arguments (such as `dtype`), or the type of its result",
            )
        self._check_memory(value, type, facts, may_move)
        if not ir.type_symbols(type) <= self.symbols.keys():
            return
        sizes, strides = self.ints(type.sizes), self.ints(type.strides)
        if not self.machine.layout_matches(content, type, sizes, strides):
            raise ExecutionError(
                "WIR927",
                f"%{value.name} is declared with sizes {sizes} and strides {strides}, but has "
                f"{list(self.machine.sizes(content))} and {list(self.machine.strides(content))}",
            )

    def _check_memory(self, value: ir.Value, type: ir.TensorType, facts: TensorFacts, may_move: bool) -> None:
        declared, got = _misplaced(type, facts, may_move)
        if declared:
            raise ExecutionError(
                "WIR927",
                f"%{value.name} is declared as {declared}, but the operator returned {got}",
                hint="correct the call's arguments, or the type of its result",
            )

    def check_rebound(self, value: ir.Value) -> None:
        """Raises ExecutionError WIR927 if a tensor differs from its type after an operator wrote it.

        All tensors in the same storage are checked.
        """
        chains = (self.info.aliasing.chain(root) for root in self.roots_of(value))
        tenants = (self.tenants.get(root, ()) for chain in chains for root in chain)
        for other in dict.fromkeys((value, *(tenant for group in tenants for tenant in group))):
            content = self.values.get(other, self.session.constants.get(other))
            if content is not None:
                self._check_written(other, content)

    def _check_written(self, value: ir.Value, content: Content) -> None:
        facts, type = self.machine.caller.facts(content), value.type
        if not isinstance(type, ir.TensorType):  # a storage, as bytes
            if facts.room is not None and facts.room < facts.sizes[0]:
                fail_written(value.name, f"a storage of {facts.sizes[0]} bytes", f"{max(facts.room, 0)}")
            return
        if facts.dtype != type.dtype.value:
            fail_written(value.name, type.dtype.value, facts.dtype)
        declared, actual = _misplaced(type, facts, may_move=True)
        if declared:
            fail_written(value.name, declared, actual)
        if ir.type_symbols(type) <= self.symbols.keys():
            sizes, strides = self.ints(type.sizes), self.ints(type.strides)
            if not self.machine.layout_matches(content, type, sizes, strides):
                declared = f"with sizes {sizes} and strides {strides}"
                fail_written(
                    value.name, declared, f"sizes {list(facts.sizes)} and strides {list(facts.strides)}"
                )

    def born(self, position: int) -> None:
        """Records the storages that the op at `position` creates."""
        for root in self.info.born.get(position, ()):
            content = self.values.get(root)
            if content is None:
                continue
            key = self.machine.storage_key(content)
            self.roots[root] = key
            if position >= 0 and root not in self.info.aliasing.hosts:
                self.session.meter.born(key, self.machine.sizes(self.machine.storage_of(content))[0])

    def free(self, value: ir.Value) -> None:
        """Ends a storage. Its bytes are poisoned on request, and its values can no longer be used.

        Storages of arguments are not poisoned: autograd donates tensors that share one storage with others
        (results of `chunk`).
        """
        for root in self.roots_of(value):
            key = self.roots.pop(root, None)
            if key is None:
                raise ExecutionError("WIR923", f"the storage of %{value.name} was freed or moved before")
            if root in self.info.aliasing.hosts:
                self.poison(self.slots.pop(root))
                self.forget(root)
                continue  # the pool owns the memory
            tenant = next(iter(self.tenants.get(root, ())), None)
            if tenant is not None and self.info.aliasing.owned.get(root, -1) >= 0:
                self.poison(self.machine.storage_of(self.values[tenant]))
            self.forget(root)
            self.session.meter.ended(key)

    def poison(self, storage: T) -> None:
        """Fills uninitialized or freed bytes, on request."""
        if self.session.options.poison is not None:
            self.machine.fill_bytes(storage, self.session.options.poison)

    def move(self, value: ir.Value) -> None:
        """Moves a storage to a callee: its values can no longer be used here."""
        for root in self.roots_of(value):
            self.roots.pop(root, None)
            self.forget(root)

    def forget(self, root: ir.Value) -> None:
        """Makes all values of a storage unusable."""
        for tenant in tuple(self.tenants.get(root, ())):
            self.unbind(tenant)


def _misplaced(type: ir.TensorType, facts: TensorFacts, may_move: bool) -> tuple[str, str]:
    """Returns how the memory of a tensor was declared, and what it is instead; empty texts if they agree.

    A number may be on the CPU, since operators return seeds and offsets there.
    """
    device = str(type.device)
    on_device = facts.device == device or (":" not in device and facts.device.partition(":")[0] == device)
    if facts.layout != "strided":
        return "strided", facts.layout
    if facts.special == "negated" and not type.dtype.is_complex:
        return "plain", "negated: have the operator return x.resolve_neg()"
    if may_move and not on_device and (facts.sizes or facts.device != "cpu"):
        return f"on {device}", f"on {facts.device}"
    nbytes = extent(facts.sizes, facts.strides) * type.dtype.itemsize  # other layouts have no strides
    if facts.room is not None and facts.room < nbytes:
        return "within its storage", f"{nbytes} bytes, of which {max(facts.room, 0)} are there"
    return "", ""
