"""The state while emitting a program and a function: names and lines."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager

from cpp_wrapper.errors import EmitError
from cpp_wrapper.sources.graphs import find_graphed
from cpp_wrapper.sources.lines import SourceLine
from cpp_wrapper.sources.native import NativeOperator, NativeTables
from cpp_wrapper.sources.numbers import number_text, ranges_of
from cpp_wrapper.sources.texts import TEXTS
from wrapper_ir import ir
from wrapper_ir.errors import ExpressionError
from wrapper_ir.expr import CPP_HELPERS, Bool, Expr, Int, Sym, SymKind
from wrapper_ir.plugins.emitted import LineOrigin, OpOrigins
from wrapper_ir.support.quoting import cpp_names, cpp_string
from wrapper_ir_lowering import FunctionPlan, Plan
from wrapper_ir_lowering.state import op_place
from wrapper_ir_lowering.steps import StepBase, Unpack

_HEADERS = ("shim.h", "integers.h", "runtime.h", "platform.h", "steps.h", "gpu.h", "graphs.h", "symbols.h")
_DECLARED = re.compile(r"\b(?:struct|class|union|using|namespace|int64_t)\s+(\w+)|\b(\w+)\s*\(")
_OWN_WORDS = frozenset(
    word
    for text in (*(TEXTS[name] for name in _HEADERS), CPP_HELPERS)
    for match in _DECLARED.finditer(text)
    for word in match.groups()
    if word
) | {
    "Main",
    "a",
    "at",
    "b",
    "base",
    "c",
    "constants",
    "digits",
    "inputs",
    "k",
    "make_persistent",
    "load",
    "outputs",
    "program",
    "q",
    "r",
    "run",
    "t",
    "raw",
}
"""Names that emitted lines use but do not define."""
NUMBER_TYPES = {SymKind.INT: "Int", SymKind.FLOAT: "double", SymKind.BOOL: "bool"}
"""The C++ types of numbers."""
_ITEMS = {SymKind.INT: "item_int", SymKind.FLOAT: "item_float", SymKind.BOOL: "item_bool"}


ResultPath = tuple[int | str, ...]
"""The position of a value in a nested result."""


def dtype_text(dtype: ir.DType) -> str:
    """Returns the call that returns an element type's code."""
    return "boolean()" if dtype is ir.DType.BOOL else f"{dtype.value}()"


def string_text(text: str) -> str:
    """Returns a string as an argument of the dispatcher."""
    return f"string({cpp_string(text)}, {len(text.encode('utf-8', 'surrogatepass'))})"


_PART = re.compile(r"part_\d+")
"""Names of the parts of functions."""


class ProgramScope:
    """The state of a whole program.

    `oldest_torch`, `python_operators` and `cuda_graphs` are as in `CppOptions`.

    `constants` contains the positions of constants in the array of handles, `windows` those of their windows,
    and `kernels` the functions that launch kernels, by name.
    """

    def __init__(
        self,
        plan: Plan,
        oldest_torch: tuple[int, int],
        python_operators: bool,
        cuda_graphs: int,
        origins: OpOrigins,
        native: NativeTables | None = None,
    ) -> None:
        self.plan = plan
        self.native = native
        """The operators of the native runtime; None for a library over torch."""
        self.called: dict[str, NativeOperator] = {}
        """Called operators of the native runtime, by function."""
        self.origins = origins
        """Origins of the plan's ops in the program before lowering."""
        self.oldest_torch = oldest_torch
        self.python_operators = python_operators
        target = plan.program.target.device
        self.gpu: ir.Device | None = None if target == ir.CPU else target
        """The only device besides the CPU."""
        self.ranges = ranges_of(plan.program.symbols)
        self.cuda_graphs = cuda_graphs
        self.graphed = find_graphed(plan, cuda_graphs if self.gpu is not None else 0)
        self._names = cpp_names(_OWN_WORDS)
        self.constants: dict[ir.Value, str] = {}
        self.windows: list[str] = []
        self.persistent: dict[ir.Value, str] = {}
        """Values over memory that persists between calls, and their positions in its array of handles."""
        self.persistent_blocks: list[str] = []
        """The positions of that memory itself."""
        self.kernels: dict[str, str] = {}
        self.functions = {plan.main.name: self.names("run_main")} | {
            function.name: self.names(f"run_{function.name}") for function in plan.functions[1:]
        }
        """The C++ functions of the program's functions, by name."""
        self.launchers: dict[str, str] = {}
        """The launchers of kernels on the device, by name."""
        self.streams = {stream: number for number, stream in enumerate(plan.streams, 1)}
        self.shims: dict[str, str] = {}
        """Declarations of called shim functions, by name."""
        self.operators: dict[str, ir.ExternDef] = {}
        """Called operators, by name."""
        self.boxed: dict[str, tuple[list[str], list[str]]] = {}
        """Types of arguments and results of calls through the dispatcher, which does not check them, by
        operator.
        """
        self.shared_places = 0
        """Number of allocations of memory of process groups."""
        self.bridges: dict[str, str] = {}
        """Schemas of bridges, by the operators that they call (`bridge.py`)."""

    def names(self, wish: str) -> str:
        """Returns a new name.

        Names in capitals become lowercase: C's headers define macros (`NULL`, `M_PI`). Functions have parts,
        whose names would hide others.
        """
        name = self._names(wish.lower() if wish.isupper() else wish)
        return self._names(f"{name}_value") if _PART.fullmatch(name) else name


class FunctionScope:
    """The state of a function: lines of its parts, and names of live values."""

    def __init__(self, module: ProgramScope, plan: FunctionPlan) -> None:
        self.module = module
        self.plan = plan
        self.origin = LineOrigin(note=f"arguments of @{plan.name}")
        """The origin of the next lines."""
        self.parts: list[list[SourceLine]] = [[]]
        self.slots: list[str] = []
        """The names of slots for handles, in order; '' for one that belongs to the name before it."""
        self.symbols: list[tuple[str, SymKind]] = []
        """Variables of the function."""
        self.given: list[tuple[str, SymKind]] = []
        """Numbers that callers pass: captured symbols, then parameters."""
        self.results: list[tuple[str, SymKind]] = []
        """Numbers that the function returns to callers."""
        self.live: dict[ir.Value, str] = {}
        """Values with a handle, and the names of their slots."""
        self.counts: dict[ir.Value, int] = {}
        """The number of handles of each value."""
        self.places: dict[ir.Value, dict[ResultPath, str]] = {}
        """The handles and variables of nested results, by path."""
        self.taken: dict[ir.Value, list[ResultPath]] = {}
        """The paths of each nested result that the function reads."""
        for step in plan.steps:
            if isinstance(step, Unpack):
                self.taken.setdefault(step.source, []).append(step.path)
        self.numbers_made: list[str] = []
        """Handles of numbers that are passed as tensors in the current call."""
        self.events: dict[ir.Value, str] = {}
        """Variables of events."""
        self.profiles: list[str] = []
        """Handles of open scopes, the innermost last."""
        self.numbers: dict[ir.Value, str] = {}
        self.defined: dict[str, str] = {}
        self.step: StepBase | None = None
        self._depth = 0

    # --- lines

    def line(self, text: str) -> None:
        """Adds a line to the current part."""
        self.parts[-1].append(SourceLine("  " * self._depth + text, self.origin))

    @contextmanager
    def indented(self) -> Iterator[None]:
        """Indents the lines of a block."""
        self._depth += 1
        yield
        self._depth -= 1

    def break_part(self, limit: int) -> None:
        """Begins another part if the current one has `limit` lines."""
        if len(self.parts[-1]) >= limit:
            self.parts.append([])

    # --- names

    def slot(self, wish: str, count: int = 1) -> str:
        """Adds `count` slots and returns their name."""
        name = self.module.names(wish)
        self.slots += [name, *[""] * (count - 1)]
        return name

    def bind(self, value: ir.Value, count: int = 1) -> str:
        """Adds slots for a value and returns its handle."""
        name = self.live[value] = self.slot(value.name, count)
        self.counts[value] = count
        return f"t[{name}]"

    def handle(self, value: ir.Value) -> str:
        """Returns the handle of a value.

        Raises EmitError CPP505 for one that is not, or no longer, defined.
        """
        if value in self.live:
            return f"t[{self.live[value]}]"
        if value in self.module.persistent:
            return f"k[{self.module.persistent[value]}]"
        if value in self.plan.windows:
            return f"c[{self.module.windows[self.plan.windows[value]]}]"
        if value in self.module.constants:
            return f"c[{self.module.constants[value]}]"
        raise self.error("CPP505", f"%{value.name} is not defined here, or was freed, dropped or moved")

    def end(self, values: Iterable[ir.Value]) -> None:
        """Drops the handles of values."""
        handles = []
        for value in values:
            name = self.live.pop(value, None)
            if name is not None:
                count = self.counts[value]
                handles += [f"t[{name} + {i}]" if i else f"t[{name}]" for i in range(count)]
        if handles:
            self.line(f"drop({', '.join(handles)});")

    def define(self, symbol: str, kind: SymKind) -> str:
        """Returns the variable of a symbol, and adds it if necessary."""
        if symbol not in self.defined:
            self.defined[symbol] = self.variable(symbol, kind)
        return self.defined[symbol]

    def variable(self, wish: str, kind: SymKind) -> str:
        """Adds a variable for a number."""
        name = self.module.names(wish)
        self.symbols.append((name, kind))
        return name

    # --- texts

    def number(self, e: Expr) -> str:
        """Returns C++ text of an expression: an `Int`, whose arithmetic is checked, a `double` or a
        `bool`.
        """
        if isinstance(e, Int) and -(2**31) < e.value < 2**31:
            return str(e.value)
        try:
            return number_text(e, self._leaf, self.module.ranges)
        except ExpressionError as error:
            raise self.error("CPP620", f"{e} has a number that does not fit in 64 bits") from error

    def real(self, e: Expr) -> str:
        """Returns C++ text of an expression as a `double`."""
        return self.number(e) if e.kind is SymKind.FLOAT else f"static_cast<double>({self.number(e)})"

    def truth(self, e: Expr) -> str:
        """Returns C++ text of an expression as a `bool`."""
        if isinstance(e, Bool):
            return "true" if e.value else "false"
        return self.number(e) if e.kind is SymKind.BOOL else f"static_cast<bool>({self.number(e)})"

    def numbers_text(self, exprs: Sequence[Expr]) -> str:
        """Returns sizes or strides in braces."""
        return f"{{{', '.join(map(self.number, exprs))}}}"

    def on_gpu(self, device: ir.Device) -> bool:
        """Returns whether a device is the program's, not the host.

        Raises EmitError CPP503 for another device.
        """
        own = self.module.gpu
        if device == ir.CPU:
            return False
        if own is None or device.type != own.type or device.index not in (None, own.index):
            raise self.error(
                "CPP503",
                f"a value on {device}: the program's device is {self.module.plan.program.target.device}",
            )
        return True

    @property
    def is_captured(self) -> bool:
        """True if the function may run during a capture."""
        return self.plan.name in self.module.graphed.parts

    def place(self, device: ir.Device) -> str:
        """Returns the last argument of functions that allocate: the device, or nothing for the host."""
        if not self.on_gpu(device):
            return ""
        return ", run" if self.is_captured else ", run.gpu"

    def layout(self, type: ir.TensorType) -> str:
        """Returns sizes and strides of a tensor. Raises EmitError CPP503 for one on another device."""
        self.on_gpu(type.device)
        return f"{self.numbers_text(type.sizes)}, {self.numbers_text(type.strides)}"

    def _leaf(self, e: Expr) -> str:
        match e:
            case Sym(name) if name in self.defined:
                return self.defined[name]
            case ir.SizeOf(value, dim):
                return f"size({self.handle(value)}, {dim})"
            case ir.StrideOf(value, dim):
                return f"stride({self.handle(value)}, {dim})"
            case ir.OffsetOf(value):
                return f"storage_offset({self.handle(value)})"
            case ir.Item(value) if ir.is_scalar(value):
                return self.numbers[value]
            case ir.Item(value):
                return f"{_ITEMS[e.kind]}({self.handle(value)})"
            case _:
                raise self.error("CPP505", f"{e} has no C++ text here")

    def error(self, code: str, message: str, hint: str = "") -> EmitError:
        """Returns an error that shows the op in its context."""
        place = ""
        if self.step is not None and self.step.at.position >= 0:
            place = "\n" + op_place(self.plan.function, self.step.at.position, self.module.plan.program)
        return EmitError(code, message + place, hint)
