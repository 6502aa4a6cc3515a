"""State of writing one function: names, live values, and the output."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from functools import cached_property
from typing import TYPE_CHECKING

from py_wrapper.emit.names import namer
from py_wrapper.emit.writer import Writer, tuple_text
from py_wrapper.errors import EmitError
from wrapper_ir import ir
from wrapper_ir.expr import Expr, Sym, to_python
from wrapper_ir.expr.width import stays_int64
from wrapper_ir.support.quoting import python_string
from wrapper_ir_lowering import FunctionPlan
from wrapper_ir_lowering.state import op_place

if TYPE_CHECKING:
    from py_wrapper.emit.module import ModuleScope


class FunctionScope:
    """State of writing one function.

    `bound` are the values with a live Python variable; `defined` the symbols with a value.
    """

    def __init__(self, module: ModuleScope, plan: FunctionPlan, out: Writer) -> None:
        self.module = module
        self.plan = plan
        self.out = out
        self.names = namer(module.names.taken)
        self.bound: dict[ir.Value, str] = {}
        self.defined: dict[str, str] = {}
        self.position = 0
        self._saved: dict[str, str] = {}
        self.persistent: dict[ir.Value, str] = {}
        """The variables of values over persistent memory, which live throughout a call."""
        self.persistent_names: list[str] = []
        """These variables, by the numbers of the plan's windows."""
        self.resize_names: list[str] = []
        """Variables of the functions that resize the plan's blocks, by block number."""

    @cached_property
    def allocations(self) -> Mapping[ir.Value, ir.Allocation]:
        """The ops that provide memory, by storage; only `poison` needs them."""
        return {op.result: op for op in self.plan.function.ops_of(ir.AllocStorage, ir.Slot)}

    # --- names

    def bind(self, value: ir.Value) -> str:
        """Returns a new Python variable for a value that is defined now."""
        name = self.bound[value] = self.names(value.name)
        return name

    def name(self, value: ir.Value) -> str:
        """Returns the variable of a value; raises EmitError PY101 for a value that is not, or no longer,
        defined."""
        name = (
            self.bound.get(value) or self.persistent.get(value) or self.module.global_name(self.plan, value)
        )
        if name is None:
            raise EmitError(
                "PY101", f"%{value.name} is not defined here, or was freed, dropped or moved", self
            )
        return name

    def define(self, symbol: str) -> str:
        """Returns the Python variable of a symbol."""
        name = self.defined.get(symbol)
        if name is None:
            name = self.defined[symbol] = self.names(symbol)
        return name

    def saved(self, purpose: str) -> str:
        """Returns the variable in which guards save a device or stream. Guards of one purpose are not
        nested, and share it."""
        if purpose not in self._saved:
            self._saved[purpose] = self.names(purpose)
        return self._saved[purpose]

    def forget(self, values: Iterable[ir.Value]) -> None:
        """Ends variables with one `del`."""
        names = self.unbind(values)
        if names:
            self.out.delete(names)

    def unbind(self, values: Iterable[ir.Value]) -> list[str]:
        """Unbinds the variables of these values and returns their names; the caller deletes them."""
        return [self.bound.pop(value) for value in values if value in self.bound]

    def lookup(self, candidate: str, text: str) -> str:
        """Returns the global name of the result of `text`, which no variable of this function hides, before
        or after."""
        return self.names.claim(self.module.lookup(candidate, text, self.names.taken))

    # --- texts

    def expr(self, e: Expr) -> str:
        """Returns the Python text of an expression."""
        return to_python(e, self._leaf, lambda: self.module.runtime("power"))

    def int64(self, e: Expr) -> str:
        """Returns the Python text of a number, with a check against 64 bits if it is an int. Torch and
        kernels check sizes and their arguments themselves."""
        text = self.expr(e)
        return text if stays_int64(e) else f"{self.module.runtime('int64')}({text})"

    def _leaf(self, e: Expr) -> str:
        match e:
            case Sym(name):
                variable = self.defined.get(name)
                if variable is None:
                    raise EmitError("PY101", f"symbol {name} is not defined here", self)
                return variable
            case ir.SizeOf(value, dim):
                return f"{self.name(value)}.shape[{dim}]"
            case ir.StrideOf(value, dim):
                return f"{self.name(value)}.stride({dim})"
            case ir.OffsetOf(value):
                return f"{self.name(value)}.storage_offset()"
            case ir.Item(value):
                text = self.name(value)
                return text if ir.is_scalar(value) else f"{text}.item()"
            case _:
                raise EmitError("PY101", f"{e} has no Python text", self)

    def shape(self, exprs: Sequence[Expr]) -> str:
        """Returns a tuple of sizes or strides."""
        return tuple_text([self.expr(e) for e in exprs])

    def arg(self, arg: ir.Arg) -> str:
        """Returns the Python text of an argument."""
        match arg:
            case ir.Value():
                return self.name(arg)
            case Expr():
                return self.int64(arg)
            case ir.Complex():
                return f"complex({self.expr(arg.real)}, {self.expr(arg.imag)})"
            case tuple():
                return f"[{', '.join(self.arg(item) for item in arg)}]"
            case None:
                return "None"
            case str():
                return python_string(arg)
            case ir.DType():
                return f"torch.{arg.torch_name}"
            case ir.Device():
                return f"torch.device({python_string(str(arg))})"
            case ir.MemoryFormat() | ir.Layout():
                return f"torch.{arg.value}"
            case _:
                raise EmitError("PY101", f"{arg!r} has no Python text", self)

    def place(self) -> str:
        """Returns the op in its context."""
        return op_place(self.plan.function, self.position, self.module.program)
