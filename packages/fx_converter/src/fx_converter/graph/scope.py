"""State of the conversion of a function: nodes of values, numbers of symbols, fake values, origins of ops."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, TypeAlias, cast

from torch import Tensor, fx, nn
from torch._subclasses.fake_tensor import FakeTensor, FakeTensorMode

from fx_converter import targets
from fx_converter._compat import free_name, name_of, new_graph, rename
from fx_converter.errors import ConvertError
from fx_converter.graph.metadata import FakeValues
from fx_converter.graph.names import Names
from fx_converter.graph.numbers import Calculator
from fx_converter.kernels import KernelCalls, KernelTargets
from fx_converter.nodes import Argument, Symbolic, Target, fake_of
from fx_converter.state import Paths, is_path
from fx_converter.targets.symbolic import Function
from wrapper_ir import ir
from wrapper_ir.errors import ExpressionError, NotSupportedError
from wrapper_ir.expr import Expr, Int, Sym
from wrapper_ir.expr.width import stays_int64
from wrapper_ir.plugins.emitted import OpOrigins
from wrapper_ir.support.quoting import ascii_identifier, is_python_name, python_comment
from wrapper_ir_lowering import Plan
from wrapper_ir_lowering.state import op_place
from wrapper_ir_lowering.steps import Define, Step, Unpack
from wrapper_ir_runtime import TorchCaller

ORIGIN = "origin"
"""The entry of `node.meta` with the `LineOrigin` of a node: its op in the program."""

NodeNumber: TypeAlias = fx.Node | int | float
"""A number, or the node that computes it."""


@dataclass(frozen=True, slots=True)
class Callee:
    """A function as a separate module. It takes these symbols after its parameters. A `condition` returns its
    one result directly, not in a tuple."""

    function: str
    captures: tuple[str, ...] = ()
    condition: bool = False


Submodule = Callable[[Callee], fx.GraphModule]
"""Creates the module of a function."""


class ProgramScope:
    """State that all functions share."""

    def __init__(
        self,
        plan: Plan,
        kernels: KernelTargets,
        constants: Mapping[ir.Value, object],
        caller: TorchCaller,
        kernel_calls: KernelCalls,
        fake_mode: FakeTensorMode | None,
        origins: OpOrigins,
    ) -> None:
        self.program = program = plan.program
        self.origins = origins
        self.plans = {f.name: f for f in plan.functions}
        self.kernel_calls = kernel_calls
        self.analyses = plan.analyses
        self.kernels = kernels
        self.constants = constants
        self.paths = {c.value: c.names[0] for c in plan.program.constants if c.names and c.packing is None}
        """The model's names of constants, except packed ones: the state has their originals."""
        self.caller = caller
        self.fakes = FakeValues(program, fake_mode)
        self.lowerings: Mapping[type[ir.OpBase], Callable[[Any, FunctionScope], bool]] = {}
        """Lowerings that replace the conversion of ops. Any: each takes its own op class."""
        self._provenance: dict[ir.Provenance, dict[str, object]] = {}
        self.modules: dict[Callee, fx.GraphModule] = {}
        """Modules of called functions."""

    def provenance(self, prov: ir.Provenance) -> Mapping[str, object]:
        """Returns the provenance of an op, as entries of `node.meta`."""
        if prov not in self._provenance:
            self._provenance[prov] = _meta_of(prov)
        return self._provenance[prov]

    @property
    def direct(self) -> bool:
        """True if the graph calls the fastest functions, false if it calls those that can be traced."""
        return self.kernel_calls == "direct"


ReadAtom = Callable[[Expr, "FunctionScope"], fx.Node]
"""Returns the node of the number that an atom reads from a value."""


class FunctionScope:
    """The graph of one function under construction."""

    def __init__(
        self, program: ProgramScope, callee: Callee, submodule: Submodule, read_atom: ReadAtom
    ) -> None:
        self.program = program
        self.callee = callee
        self.plan = program.plans[callee.function]
        self._submodule = submodule
        self._read_atom = read_atom
        self.graph = new_graph()
        self._names = Names()
        self._paths = Paths()
        self.attributes: dict[str, object] = {}
        """The constants and submodules that `get_attr` nodes refer to."""
        self.nodes: dict[ir.Value, fx.Node] = {}
        self.symbols: dict[str, NodeNumber] = {}
        self.starts: dict[fx.Node, int] = {}
        """Constant positions of windows in their storage, in elements."""
        self.reset: set[fx.Node] = set()
        """Tensors whose storage was replaced."""
        self.entered: list[fx.Node] = []
        """The nodes that entered the open scopes."""
        self.device: fx.Node | None = None
        """The node that entered the program's device."""
        self.unpacks: dict[ir.Value, list[Unpack]] = {}
        self.items: dict[ir.Value, str] = {}
        """Symbols that are defined as the number of a value."""
        self.submodules: dict[Callee, fx.Node] = {}
        self.calculate: Calculator[NodeNumber] = Calculator(self.leaf, self.apply)
        self._checked: dict[fx.Node, fx.Node] = {}
        """Nodes that check ints against 64 bits, by the node that computes the int."""
        self.position = 0
        self._meta: Mapping[str, object] = {}
        by_position = itertools.groupby(self.plan.steps, key=lambda step: step.at.position)
        self._steps = {position: tuple(steps) for position, steps in by_position}
        for step in self.plan.steps:
            match step:
                case Unpack(source=source):
                    self.unpacks.setdefault(source, []).append(step)
                case Define(expr=ir.Item(value=ir.Value() as value), symbol=symbol):
                    self.items.setdefault(value, symbol)
                case _:
                    pass

    @property
    def op(self) -> ir.Op:
        """The op that is converted."""
        return self.plan.function.body[self.position]

    # --- making nodes

    def enter(self, position: int) -> ir.Op:
        """Returns the op at a position, which becomes the origin of the next nodes."""
        self.position = position
        origin = self.program.origins.of(self.callee.function, position)
        self._meta = {**self.program.provenance(self.op.prov), ORIGIN: origin}
        return self.op

    def steps_at(self, position: int) -> tuple[Step, ...]:
        """Returns the steps of the op at a position; -1 is the position before the first op."""
        return self._steps.get(position, ())

    def node(
        self,
        op: str,
        target: Target | str,
        args: tuple[Argument, ...],
        kwargs: dict[str, Argument],
        name: str | None,
        val: object,
    ) -> fx.Node:
        """Adds a node of any kind, with its fake value."""
        # torch regards a line break at the end of a name as part of it
        candidate = free_name(name.rstrip("\n")) if name else name_of(target, self.graph)
        if not is_python_name(ascii_identifier(candidate)):
            candidate += "_"  # torch itself names nodes `None`
        node = self.graph.create_node(op, target, args, kwargs, name=self._names.fresh(candidate))
        node.meta.update(self._meta)
        node.meta["val"] = val
        return node

    def call(
        self, target: Target, *args: Argument, val: object = None, name: str | None = None, **kwargs: Argument
    ) -> fx.Node:
        """Adds a call."""
        return self.node("call_function", target, args, kwargs, name, val)

    def bind(
        self, value: ir.Value, target: Target, *args: Argument, val: object = None, **kwargs: Argument
    ) -> fx.Node:
        """Adds a call that defines `value`. Its node has the value's name if that is a Python identifier."""
        node = self.call(target, *args, val=val, name=value.name, **kwargs)
        node.meta["value"] = value.name
        self.nodes[value] = node
        return node

    def rename(self, node: fx.Node, name: str) -> None:
        """Renames a node; the graph makes the name a unique identifier."""
        rename(node, name)

    def fake(self, value: ir.Value) -> FakeTensor | Symbolic | None:
        """Returns a fake tensor of the value's type (bytes for a storage). For a number, returns the symbol
        that is defined as it, or else an unknown one; None for other values."""
        match value.type:
            case ir.TensorType():
                return self.program.fakes.tensor(value.type)
            case ir.StorageType(nbytes, device):
                return self.program.fakes.tensor(ir.TensorType(ir.DType.U8, (nbytes,), (Int(1),), device))
            case ir.ScalarType(kind) if value in self.items:
                return self.program.fakes.symbol(self.items[value])
            case ir.ScalarType(kind):
                return self.program.fakes.unknown(kind)
            case _:
                return None

    # --- looking up

    def value(self, value: ir.Value) -> fx.Node:
        """Returns the node of a value; the first use of a constant adds one."""
        node = self.nodes.get(value)
        if node is not None:
            return node
        if value in self.program.constants:
            return self._constant(value)
        raise self.invalid(f"%{value.name} has no value here")

    def _constant(self, value: ir.Value) -> fx.Node:
        constant = self.program.constants[value]
        fake = self.fake(value) if isinstance(constant, Tensor) else None
        node = self.attribute(value.name, constant, fake, self.program.paths.get(value, ""))
        node.meta["value"] = value.name
        self.nodes[value] = node
        return node

    def attribute(self, candidate: str, attribute: object, val: object, path: str = "") -> fx.Node:
        """Adds a `get_attr` node over an attribute that the module will have, at `path` if that is a legal
        path."""
        name = (
            path
            if is_path(path) and path.split(".")[0] not in _OF_MODULES
            else identifier(free_name(candidate))
        )
        while self._paths.is_taken(name) or name in _OF_MODULES:
            name = f"{identifier(free_name(name))}_"
        self._paths.add(name)
        self.attributes[name] = attribute
        return self.node("get_attr", name, (), {}, candidate, val)

    def module(self, callee: Callee) -> fx.Node:
        """Returns the node of a called function's submodule."""
        if callee in self.submodules:
            return self.submodules[callee]
        modules = self.program.modules
        if callee not in modules:
            modules[callee] = self._submodule(callee)
        node = self.submodules[callee] = self.attribute(callee.function, modules[callee], None)
        return node

    def argument(self, arg: ir.Arg) -> Argument:
        """Returns an argument of a call, in its structure."""
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
                return cast("Argument", self.program.caller.native(arg))  # a dtype, device, layout or format

    # --- numbers

    def number(self, e: Expr) -> NodeNumber:
        """Returns a number, or the node that computes it and checks it against 64 bits."""
        number = self.calculate(e)
        if not isinstance(number, fx.Node) or stays_int64(e):
            return number
        checked = self._checked.get(number)
        if checked is None:
            checked = self._checked[number] = self.call(targets.int64, number, val=number.meta["val"])
        return checked

    def numbers(self, exprs: Sequence[Expr]) -> tuple[NodeNumber, ...]:
        """Returns the numbers of a shape."""
        return tuple(self.number(e) for e in exprs)

    def sizes(self, exprs: Sequence[Expr], numbers: Mapping[str, Argument]) -> list[Argument]:
        """Returns sizes over existing nodes and numbers, by the names in the expressions."""

        def leaf(e: Expr) -> NodeNumber:
            if isinstance(e, Sym) and e.name in numbers:
                return cast("NodeNumber", numbers[e.name])  # a number of the launch
            raise self.invalid(f"a grid needs {e}, which the launch does not pass")

        calculate: Calculator[NodeNumber] = Calculator(leaf, self.apply)
        return [calculate(e) for e in exprs]

    def leaf(self, e: Expr) -> NodeNumber:
        """Returns the number of a symbol, or of an atom."""
        if isinstance(e, Sym):
            if e.name not in self.symbols:
                raise self.invalid(f"symbol {e.name} has no value here")
            return self.symbols[e.name]
        return self._read_atom(e, self)

    def apply(self, target: Function, *args: NodeNumber | str) -> NodeNumber:
        """Adds a call of numbers; constant calls are evaluated."""
        if not any(isinstance(arg, fx.Node) for arg in args):
            try:
                result = target(*args)
            except ExpressionError:  # a run raises it when it reaches the call
                result = None
            if isinstance(result, int | float):
                return result
        values = [fake_of(arg) for arg in args]
        is_named = target in (
            targets.partial_call,
            targets.total_call,
        )  # their first argument names a function
        name = str(args[0]) if is_named else None
        return self.call(target, *args, val=self.program.fakes.apply(target, *values), name=name)

    # --- errors

    def invalid(self, why: str) -> ConvertError:
        """Returns the error for a program that is not valid."""
        return ConvertError(
            "FX101", f"{why}\n{self._place()}", hint="wrapper_ir.verify says what is wrong with a program"
        )

    def failed(self, error: Exception) -> ConvertError:
        """Returns the error for an exception of torch, with its class and first line. Its other lines are
        advice for users of torch.export."""
        text = str(error).strip().split("\n")[0]
        return ConvertError(
            "FX108",
            f"torch cannot create the nodes of this op: {type(error).__name__}: {text}\n{self._place()}",
            hint="compile it with the emitter python or cpp, which need no fake values",
        )

    def forbidden(self, op: ir.OpBase) -> ConvertError:
        """Returns the error for an op that the options, or the compiler behind the graph, forbid."""
        return ConvertError(
            "FX106",
            f"a graph must not have {type(op).__name__}\n{self._place()}",
            hint="FxOptions.forbid and the compiler's lowerings say so; change the model, or convert without "
            "them",
        )

    def not_supported(self, code: str, what: str, hint: str) -> NotSupportedError:
        """Returns the error for a program that no graph can express."""
        return NotSupportedError(code, f"{what}\n{self._place()}", hint=hint)

    def _place(self) -> str:
        """Returns the op in its context."""
        return op_place(self.plan.function, self.position, self.program.program)


def _meta_of(prov: ir.Provenance) -> dict[str, object]:
    """Returns the provenance of an op in the entries that torch's tools read."""
    meta: dict[str, object] = {}
    if prov.locations:
        lines = []
        for place in map(python_comment, prov.locations):  # torch writes them into comments
            file, _, line = place.rpartition(":")
            lines.append(f'  File "{file}", line {line or 0}, in forward')
        meta["stack_trace"] = "\n".join(lines)
    if prov.nodes:
        meta["from_nodes"] = prov.nodes
    if prov.ops:
        meta["source_ops"] = prov.ops
    if prov.modules:
        meta["source_modules"] = prov.modules
    return meta


_OF_MODULES = frozenset({*dir(fx.GraphModule), *vars(fx.GraphModule(nn.Module(), fx.Graph()))})
"""Attributes of a graph module without a program."""


def identifier(name: str) -> str:
    """Returns a Python identifier for a name."""
    text = ascii_identifier(name)
    return text if is_python_name(text) else f"{text}_"
