"""What an op needs to know to be written: names, what is bound, and where lines go."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from functools import cached_property
from typing import TYPE_CHECKING

from py_wrapper.emit.names import namer
from py_wrapper.emit.writer import Writer, tuple_text
from py_wrapper.errors import EmitError
from wrapper_ir.aliasing import Aliasing
from wrapper_ir.analysis.emission import made_elsewhere
from wrapper_ir.analysis.kept import storage_users
from wrapper_ir.analysis.slots import SlotPlaces, plan_slots
from wrapper_ir.errors import NotSupportedError
from wrapper_ir.expr import Expr, Item, OffsetOf, SizeOf, StrideOf, Sym, to_python
from wrapper_ir.expr.width import stays_int64
from wrapper_ir.ops import AllocStorage, Arg, Complex, Free, Op, View
from wrapper_ir.program import Function
from wrapper_ir.quoting import python_string
from wrapper_ir.types import Device, DType, Layout, MemoryFormat, ScalarType
from wrapper_ir.values import Value

if TYPE_CHECKING:
    from py_wrapper.emit.module import ModuleScope

__all__ = ["FunctionScope"]


class FunctionScope:
    """The state of writing one function.

    `bound` are the values that have a live Python variable; `defined` the symbols that have a value.
    """

    def __init__(self, module: ModuleScope, function: Function, out: Writer) -> None:
        self.module = module
        self.function = function
        self.out = out
        self.names = namer(module.names.taken)
        self.bound: dict[Value, str] = {}
        self.tenants: dict[Value, dict[Value, None]] = {}
        """For each root, the values with a variable that may live in it, in order of definition."""
        self.defined: dict[str, str] = {}
        self.position = 0
        self.kept: dict[Value, str] = {}
        """Values over memory that is kept from call to call, by the variables that hold them throughout a call."""
        self.pending: dict[Value, AllocStorage] = {}
        """Storages that are allocated as the one tensor that is made of them, where that is made."""
        self.base_dtypes: dict[Value, DType] = {}
        """Element types of the variables that hold other storages."""

    @property
    def op(self) -> Op:
        """The op that is being written."""
        return self.function.body[self.position]

    # --- facts

    @cached_property
    def aliasing(self) -> Aliasing:
        """Which storages each value may live in."""
        return self.module.analyses.aliasing(self.function)

    @cached_property
    def users(self) -> dict[Value, list[Op]]:
        """The ops that use each storage value, in order."""
        return storage_users(self.function)

    @cached_property
    def slots(self) -> SlotPlaces:
        """Where slots are, and what is made of storages."""
        return plan_slots(self.function)

    @cached_property
    def made_elsewhere(self) -> frozenset[Value]:
        """Storages that are not made where they are first used."""
        return made_elsewhere(self.function)

    def sole_view(self, storage: Value) -> View | None:
        """The view that a storage is made for, if nothing else but a free uses the storage itself."""
        views = [op for op in self.users.get(storage, ()) if not isinstance(op, Free)]
        return views[0] if len(views) == 1 and isinstance(views[0], View) else None

    # --- names

    def bind(self, value: Value) -> str:
        """A Python variable for a value that is defined now."""
        name = self.names(value.name)
        self.bound[value] = name
        for root in self._roots(value):
            self.tenants.setdefault(root, {})[value] = None
        return name

    def name(self, value: Value) -> str:
        """The variable that holds a value; raises EmitError PY101 for one that is not, or no longer, defined."""
        name = self.bound.get(value) or self.kept.get(value) or self.module.global_name(self.function, value)
        if name is None:
            raise EmitError(
                "PY101", f"%{value.name} is not defined here, or was freed, dropped or moved", self
            )
        return name

    def define(self, symbol: str) -> str:
        """A Python variable for a symbol."""
        name = self.defined.get(symbol)
        if name is None:
            name = self.defined[symbol] = self.names(symbol)
        return name

    def forget(self, values: Iterable[Value]) -> None:
        """Ends variables with one `del`."""
        names = self.unbind(values)
        if names:
            self.out.delete(names)

    def unbind(self, values: Iterable[Value]) -> list[str]:
        """The variables of these values, which are no longer theirs; the caller deletes them."""
        names: list[str] = []
        for value in values:
            if value in self.bound:
                names.append(self.bound.pop(value))
                for root in self._roots(value):
                    self.tenants[root].pop(value, None)
        return names

    def storage_members(self, value: Value) -> list[Value]:
        """All values with a variable that live in the storage of `value`."""
        return list(dict.fromkeys(m for root in self._roots(value) for m in self.tenants.get(root, ())))

    def _roots(self, value: Value) -> tuple[Value, ...]:
        return self.aliasing.roots.get(value, (value,))

    # --- texts

    def expr(self, e: Expr) -> str:
        """Python text of an expression."""
        return to_python(e, self._leaf, lambda: self.module.runtime("power"))

    def int64(self, e: Expr) -> str:
        """Python text of a number, held to 64 bits if it is an int; torch and kernels hold sizes and their arguments to them
        by themselves."""
        text = self.expr(e)
        return text if stays_int64(e) else f"{self.module.runtime('int64')}({text})"

    def _leaf(self, e: Expr) -> str:
        match e:
            case Sym(name):
                found = self.defined.get(name)
                if found is None:
                    raise EmitError("PY101", f"symbol {name} is not defined here", self)
                return found
            case SizeOf(value, dim):
                return f"{self.name(value)}.shape[{dim}]"
            case StrideOf(value, dim):
                return f"{self.name(value)}.stride({dim})"
            case OffsetOf(value):
                return f"{self.name(value)}.storage_offset()"
            case Item(value):
                held = self.name(value)
                return held if isinstance(value.type, ScalarType) else f"{held}.item()"
            case _:
                raise EmitError("PY101", f"{e} has no Python text", self)

    def shape(self, exprs: Sequence[Expr]) -> str:
        """A tuple of sizes or strides."""
        return tuple_text([self.expr(e) for e in exprs])

    def known(self, exprs: Iterable[Expr]) -> bool:
        """Whether all symbols in these expressions have a value."""
        return all(symbol in self.defined for e in exprs for symbol in e.free_symbols)

    def arg(self, arg: Arg) -> str:
        """Python text of an argument."""
        match arg:
            case Value():
                return self.name(arg)
            case Expr():
                return self.int64(arg)
            case Complex():
                return f"complex({self.expr(arg.real)}, {self.expr(arg.imag)})"
            case tuple():
                return f"[{', '.join(self.arg(item) for item in arg)}]"
            case None:
                return "None"
            case str():
                return python_string(arg)
            case DType():
                return f"torch.{arg.torch_name}"
            case Device():
                return f"torch.device({python_string(str(arg))})"
            case MemoryFormat() | Layout():
                return f"torch.{arg.value}"
            case _:
                raise EmitError("PY101", f"{arg!r} has no Python text", self)

    def not_supported(self, code: str, what: str, hint: str) -> NotSupportedError:
        """An error that names the op and its place."""
        return NotSupportedError(code, f"{what}\n{self.place()}", hint=hint)

    def place(self) -> str:
        """The op in its surroundings."""
        from wrapper_ir.text import print_excerpt

        prov = self.op.prov
        source = ", ".join((*prov.nodes, *prov.ops, *prov.locations))
        excerpt = print_excerpt(self.function, self.position, self.module.program)
        return excerpt + (f"\nfrom {source}" if source else "")
