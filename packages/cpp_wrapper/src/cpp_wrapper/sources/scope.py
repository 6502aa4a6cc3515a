"""What a step needs to know to be written: names, and where lines go."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

from cpp_wrapper.errors import EmitError
from cpp_wrapper.sources.lines import SourceLine
from cpp_wrapper.sources.numbers import number_text, ranges_of
from cpp_wrapper.sources.recording import find_recorded
from wrapper_ir import ir
from wrapper_ir.errors import ExpressionError
from wrapper_ir.expr import CPP_HELPERS, Bool, Expr, Int, Sym, SymKind
from wrapper_ir.plugins.emitted import LineOrigin, OpOrigins
from wrapper_ir.support.quoting import cpp_names, cpp_string
from wrapper_ir_lowering import FunctionPlan, Plan
from wrapper_ir_lowering.state import op_place
from wrapper_ir_lowering.steps import StepBase, Unpack

TEXTS = {path.name: path.read_text(encoding="utf-8") for path in (Path(__file__).parent / "text").iterdir()}
"""The files that are the same in every library, and the table of shims."""

_HEADERS = ("shim.h", "integers.h", "runtime.h", "steps.h", "gpu.h", "graphs.h", "symbols.h")
_DECLARED = re.compile(r"\b(?:struct|class|union|using|namespace|int64_t)\s+(\w+)|\b(\w+)\s*\(")
_OWN_WORDS = frozenset(
    word
    for text in (
        *(TEXTS[name] for name in _HEADERS),
        CPP_HELPERS,
    )
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
"""What emitted lines refer to, besides what they name themselves."""
NUMBER_TYPES = {SymKind.INT: "Int", SymKind.FLOAT: "double", SymKind.BOOL: "bool"}
"""The C++ types of numbers."""
_ITEMS = {SymKind.INT: "item_int", SymKind.FLOAT: "item_float", SymKind.BOOL: "item_bool"}


ResultPath = tuple[int | str, ...]
"""Where a value stands in a nested result."""


def dtype_text(dtype: ir.DType) -> str:
    """The call that gives an element type's number."""
    return "boolean()" if dtype is ir.DType.BOOL else f"{dtype.value}()"


def string_text(text: str) -> str:
    """A text as an argument of the dispatcher."""
    return f"string({cpp_string(text)}, {len(text.encode('utf-8', 'surrogatepass'))})"


class ProgramScope:
    """What is known of a whole program. `oldest_torch`, `python_operators` and `recordings` are as in
    `CppOptions`. `constants` has the places of constants and of their windows in the array of
    handles, `kernels` the functions that launch kernels, by name."""

    def __init__(
        self,
        plan: Plan,
        oldest_torch: tuple[int, int],
        python_operators: bool,
        recordings: int,
        origins: OpOrigins,
    ) -> None:
        self.plan = plan
        self.origins = origins
        """Of the plan's ops, in the program that it was lowered from."""
        self.oldest_torch = oldest_torch
        self.python_operators = python_operators
        target = plan.program.target.device
        self.gpu: ir.Device | None = None if target == ir.CPU else target
        """The one device besides the CPU."""
        self.ranges = ranges_of(plan.program.symbols)
        self.recordings = recordings
        self.recorded = find_recorded(plan, recordings if self.gpu is not None else 0)
        self._names = cpp_names(_OWN_WORDS)
        self.constants: dict[ir.Value, str] = {}
        self.windows: list[str] = []
        self.persistent: dict[ir.Value, str] = {}
        """Values over memory that persists from call to call, and their places in its array of handles."""
        self.persistent_blocks: list[str] = []
        """The places of that memory itself."""
        self.kernels: dict[str, str] = {}
        self.functions = {plan.main.name: self.names("run_main")} | {
            function.name: self.names(f"run_{function.name}") for function in plan.functions[1:]
        }
        """The C++ functions of the program's, by name."""
        self.launchers: dict[str, str] = {}
        """The functions that launch kernels on the device, by name."""
        self.streams = {stream: number for number, stream in enumerate(plan.streams, 1)}
        self.shims: dict[str, str] = {}
        """Declarations of the shim functions that are called, by name."""
        self.operators: dict[str, ir.ExternDef] = {}
        """What is called, by name."""
        self.boxed: dict[str, tuple[list[str], list[str]]] = {}
        """The types of arguments and results in calls through the dispatcher, which looks at no value, by operator."""
        self.shared_places = 0
        """How many places allocate memory of process groups."""
        self.bridges: dict[str, str] = {}
        """Schemas of the operators by which a loader in Python calls others, by what those are called (`bridge.py`)."""

    def names(self, wish: str) -> str:
        """A name that the file does not have yet; macros of C's headers (`NULL`, `M_PI`) are in capitals."""
        return self._names(wish.lower() if wish.isupper() else wish)


class FunctionScope:
    """The state of writing one function: `lines` of the part that is written now, and names of what is live."""

    def __init__(self, module: ProgramScope, plan: FunctionPlan) -> None:
        self.module = module
        self.plan = plan
        self.origin = LineOrigin(note=f"arguments of @{plan.name}")
        """What the lines to come are written for."""
        self.parts: list[list[SourceLine]] = [[]]
        self.slots: list[str] = []
        """The names of slots for handles, in order; '' for one that continues the slots before it."""
        self.symbols: list[tuple[str, SymKind]] = []
        """Variables of the function."""
        self.given: list[tuple[str, SymKind]] = []
        """Numbers that callers pass: captured symbols, then parameters."""
        self.results: list[tuple[str, SymKind]] = []
        """Numbers that the function returns to callers."""
        self.live: dict[ir.Value, str] = {}
        """Values that have a handle, and the name of its slot."""
        self.counts: dict[ir.Value, int] = {}
        """How many handles stand for a nested result."""
        self.places: dict[ir.Value, dict[ResultPath, str]] = {}
        """The handles and variables of nested results, by path."""
        self.taken: dict[ir.Value, list[ResultPath]] = {}
        """What the function takes of each nested result."""
        for step in plan.steps:
            if isinstance(step, Unpack):
                self.taken.setdefault(step.source, []).append(step.path)
        self.numbers_made: list[str] = []
        """Handles of numbers that stand for tensors in the call that is written now."""
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
        """Adds a line to the part."""
        self.parts[-1].append(SourceLine("  " * self._depth + text, self.origin))

    @contextmanager
    def indented(self) -> Iterator[None]:
        """Lines of a block."""
        self._depth += 1
        yield
        self._depth -= 1

    def break_part(self, limit: int) -> None:
        """Begins another part where this one has `limit` lines."""
        if len(self.parts[-1]) >= limit:
            self.parts.append([])

    # --- names

    def slot(self, wish: str, count: int = 1) -> str:
        """A new name for `count` slots."""
        name = self.module.names(wish)
        self.slots += [name, *[""] * (count - 1)]
        return name

    def bind(self, value: ir.Value, count: int = 1) -> str:
        """The handle of a value that begins now."""
        name = self.live[value] = self.slot(value.name, count)
        self.counts[value] = count
        return f"t[{name}]"

    def handle(self, value: ir.Value) -> str:
        """The handle of a value. Raises EmitError CPP505 for one that is not, or no longer, defined."""
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
        """Frees the handles of values whose names end."""
        handles = []
        for value in values:
            name = self.live.pop(value, None)
            if name is not None:
                count = self.counts[value]
                handles += [f"t[{name} + {i}]" if i else f"t[{name}]" for i in range(count)]
        if handles:
            self.line(f"drop({', '.join(handles)});")

    def define(self, symbol: str, kind: SymKind) -> str:
        """The variable of a symbol."""
        if symbol not in self.defined:
            self.defined[symbol] = self.variable(symbol, kind)
        return self.defined[symbol]

    def variable(self, wish: str, kind: SymKind) -> str:
        """A new variable for a number."""
        name = self.module.names(wish)
        self.symbols.append((name, kind))
        return name

    # --- texts

    def number(self, e: Expr) -> str:
        """C++ text of an expression: an `Int`, whose arithmetic is checked, a `double` or a `bool`."""
        if isinstance(e, Int) and -(2**31) < e.value < 2**31:
            return str(e.value)
        try:
            return number_text(e, self._leaf, self.module.ranges)
        except ExpressionError as error:
            raise self.error("CPP620", f"{e} has a number that does not fit in 64 bits") from error

    def real(self, e: Expr) -> str:
        """C++ text of an expression as a `double`."""
        return self.number(e) if e.kind is SymKind.FLOAT else f"static_cast<double>({self.number(e)})"

    def truth(self, e: Expr) -> str:
        """C++ text of an expression as a `bool`."""
        if isinstance(e, Bool):
            return "true" if e.value else "false"
        return self.number(e) if e.kind is SymKind.BOOL else f"static_cast<bool>({self.number(e)})"

    def numbers_text(self, exprs: Sequence[Expr]) -> str:
        """Sizes or strides in braces."""
        return f"{{{', '.join(map(self.number, exprs))}}}"

    def on_gpu(self, device: ir.Device) -> bool:
        """Whether something lies on the program's device, not on the host. Raises EmitError CPP503 for another device."""
        own = self.module.gpu
        if device == ir.CPU:
            return False
        if own is None or device.type != own.type or device.index not in (None, own.index):
            raise self.error(
                "CPP503",
                f"something on {device}: the program's device is {self.module.plan.program.target.device}",
            )
        return True

    @property
    def is_recorded(self) -> bool:
        """Whether a recording may be made of what the function does."""
        return self.plan.name in self.module.recorded.parts

    def place(self, device: ir.Device) -> str:
        """The last argument of what is told where memory lies: nothing means on the host."""
        if not self.on_gpu(device):
            return ""
        return ", run" if self.is_recorded else ", run.gpu"

    def layout(self, type: ir.TensorType) -> str:
        """Sizes and strides of a tensor. Raises EmitError CPP503 for one on another device than the program's."""
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
        """An error with the op in its surroundings."""
        place = ""
        if self.step is not None and self.step.at.position >= 0:
            place = "\n" + op_place(self.plan.function, self.step.at.position, self.module.plan.program)
        return EmitError(code, message + place, hint)
