"""What the emission of one function knows: nodes of values, numbers of symbols, fake values, where an op comes from."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from torch import Tensor, fx, nn
from torch._subclasses.fake_tensor import FakeTensorMode

from fx_converter import targets
from fx_converter._compat import free_name, name_of, new_graph, rename
from fx_converter.errors import ConvertError
from fx_converter.graph.metadata import FakeValues
from fx_converter.graph.names import Names
from fx_converter.graph.numbers import Calculator
from fx_converter.kernels import KernelCalls, KernelTargets
from fx_converter.state import Paths, is_path
from fx_converter.targets.symbolic import NoValue
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
"""The entry of `node.meta` with the `LineOrigin` of a node: the op of the program that it is for."""

Target = Callable[..., Any]  # Any: whatever operators take and return


@dataclass(frozen=True, slots=True)
class Callee:
    """A function as a module of its own: it takes these symbols after its parameters. A `condition` returns its one
    result itself, not a tuple."""

    function: str
    captures: tuple[str, ...] = ()
    condition: bool = False


Submodule = Callable[[Callee], fx.GraphModule]
"""Makes the module of a function."""
# Any below: arguments and fake values of nodes: tensors, numbers, nested lists of them


class ProgramScope:
    """What all functions share."""

    def __init__(
        self,
        plan: Plan,
        kernels: KernelTargets,
        constants: Mapping[ir.Value, Any],
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
        self.paths = {c.value: c.names[0] for c in plan.program.constants if c.names}
        """The model's names of constants."""
        self.caller = caller
        self.fakes = FakeValues(program, fake_mode)
        self.lowerings: Mapping[type[ir.OpBase], Callable[[Any, FunctionScope], bool]] = {}
        """Ops that somebody else converts."""
        self._provenance: dict[ir.Provenance, dict[str, Any]] = {}
        self.modules: dict[Callee, fx.GraphModule] = {}
        """Modules of called functions."""

    def provenance(self, prov: ir.Provenance) -> Mapping[str, Any]:
        """Where an op comes from, as entries of `node.meta`."""
        if prov not in self._provenance:
            self._provenance[prov] = _meta_of(prov)
        return self._provenance[prov]

    @property
    def direct(self) -> bool:
        """Whether the graph calls what is fastest, not what can be traced."""
        return self.kernel_calls == "direct"


ReadAtom = Callable[[Expr, "FunctionScope"], Any]
"""Gives the number that an atom reads from a value: a node, or what a parameter holds."""


class FunctionScope:
    """One function's graph in the making."""

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
        self.attributes: dict[str, Any] = {}
        """What `get_attr` nodes refer to: constants and submodules."""
        self.nodes: dict[ir.Value, fx.Node] = {}
        self.symbols: dict[str, Any] = {}
        self.starts: dict[fx.Node, int] = {}
        """Where windows begin in their storage, in elements, as far as that is known."""
        self.reset: set[fx.Node] = set()
        """Tensors that were given another storage."""
        self.entered: list[fx.Node] = []
        """What began the scopes around this point."""
        self.device: fx.Node | None = None
        """What made the program's device the current one."""
        self.unpacks: dict[ir.Value, list[Unpack]] = {}
        self.items: dict[ir.Value, str] = {}
        """Symbols that are defined as a number."""
        self.submodules: dict[Callee, fx.Node] = {}
        self.calculate = Calculator(self.leaf, self.apply)
        self._checked: dict[fx.Node, fx.Node] = {}
        """Ints that were held to 64 bits, by the node that computes them."""
        self.position = 0
        self._meta: Mapping[str, Any] = {}
        by_position = itertools.groupby(self.plan.steps, key=lambda step: step.at.position)
        self._steps = {position: tuple(steps) for position, steps in by_position}
        for step in self.plan.steps:
            if isinstance(step, Unpack):
                self.unpacks.setdefault(step.source, []).append(step)
            elif (
                isinstance(step, Define)
                and isinstance(step.expr, ir.Item)
                and isinstance(step.expr.value, ir.Value)
            ):
                self.items.setdefault(step.expr.value, step.symbol)

    @property
    def op(self) -> ir.Op:
        """The op that is converted."""
        return self.plan.function.body[self.position]

    # --- making nodes

    def enter(self, position: int) -> ir.Op:
        """The op there; nodes made from now on say where it comes from."""
        self.position = position
        origin = self.program.origins.of(self.callee.function, position)
        self._meta = {**self.program.provenance(self.op.prov), ORIGIN: origin}
        return self.op

    def steps_at(self, position: int) -> tuple[Step, ...]:
        """The steps of the op at a position; at -1 those before the first op."""
        return self._steps.get(position, ())

    def node(self, op: str, target: Any, args: Any, kwargs: Any, name: str | None, val: Any) -> fx.Node:
        """A node of any kind, with its fake value."""
        # torch takes a line break at the end of a name for a part of it
        wish = free_name(name.rstrip("\n")) if name else name_of(target, self.graph)
        if not is_python_name(ascii_identifier(wish)):
            wish += "_"  # torch has nodes that are called `None`
        made = self.graph.create_node(op, target, args, kwargs, name=self._names.fresh(wish))
        made.meta.update(self._meta)
        made.meta["val"] = val
        return made

    def call(
        self, target: Target, *args: Any, val: Any = None, name: str | None = None, **kwargs: Any
    ) -> fx.Node:
        """A call."""
        return self.node("call_function", target, args, kwargs, name, val)

    def bind(self, value: ir.Value, target: Target, *args: Any, val: Any = None, **kwargs: Any) -> fx.Node:
        """A call that defines `value`, whose name its node has as far as Python allows."""
        made = self.call(target, *args, val=val, name=value.name, **kwargs)
        made.meta["value"] = value.name
        self.nodes[value] = made
        return made

    def rename(self, node: fx.Node, name: str) -> None:
        """Gives a node a name, as far as Python allows."""
        rename(node, name)

    def fake(self, value: ir.Value) -> Any:
        """A fake tensor of the value's own type, bytes for a storage; for a number the symbol that is defined as it, or else an unknown one; None
        for what is neither."""
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
        """The node of a value; a constant gets one where it is first used."""
        found = self.nodes.get(value)
        if found is not None:
            return found
        if value in self.program.constants:
            return self._constant(value)
        raise self.invalid(f"%{value.name} has no value here")

    def _constant(self, value: ir.Value) -> fx.Node:
        held = self.program.constants[value]
        fake = self.fake(value) if isinstance(held, Tensor) else None
        found = self.attribute(value.name, held, fake, self.program.paths.get(value, ""))
        found.meta["value"] = value.name
        self.nodes[value] = found
        return found

    def attribute(self, wish: str, held: Any, val: Any, path: str = "") -> fx.Node:
        """A `get_attr` node, over an attribute that the module will have, in modules of its own where `path` says so."""
        name = (
            path if is_path(path) and path.split(".")[0] not in _OF_MODULES else identifier(free_name(wish))
        )
        while self._paths.is_taken(name) or name in _OF_MODULES:
            name = f"{identifier(free_name(name))}_"
        self._paths.add(name)
        self.attributes[name] = held
        return self.node("get_attr", name, (), {}, wish, val)

    def module(self, callee: Callee) -> fx.Node:
        """The submodule of a called function."""
        if callee in self.submodules:
            return self.submodules[callee]
        modules = self.program.modules
        if callee not in modules:
            modules[callee] = self._submodule(callee)
        found = self.submodules[callee] = self.attribute(callee.function, modules[callee], None)
        return found

    def argument(self, arg: ir.Arg) -> Any:
        """An argument of a call, in structure."""
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
                return self.program.caller.native(arg)

    # --- numbers

    def number(self, e: Expr) -> Any:
        """A number, or the node that computes it and holds it to 64 bits."""
        found = self.calculate(e)
        if not isinstance(found, fx.Node) or stays_int64(e):
            return found
        checked = self._checked.get(found)
        if checked is None:
            checked = self._checked[found] = self.call(targets.int64, found, val=found.meta["val"])
        return checked

    def numbers(self, exprs: Sequence[Expr]) -> tuple[Any, ...]:
        """The numbers of a shape."""
        return tuple(self.number(e) for e in exprs)

    def sizes(self, exprs: Sequence[Expr], numbers: Mapping[str, Any]) -> list[Any]:
        """Sizes over numbers that are there already: nodes, or plain ones, by the names in the expressions."""

        def leaf(e: Expr) -> Any:
            if isinstance(e, Sym) and e.name in numbers:
                return numbers[e.name]
            raise self.invalid(f"a grid needs {e}, which the launch does not give")

        calculate = Calculator(leaf, self.apply)
        return [calculate(e) for e in exprs]

    def leaf(self, e: Expr) -> Any:
        """The number of a symbol, or of an atom."""
        if isinstance(e, Sym):
            if e.name not in self.symbols:
                raise self.invalid(f"symbol {e.name} has no value here")
            return self.symbols[e.name]
        return self._read_atom(e, self)

    def apply(self, target: Target, *args: Any) -> Any:
        """A call of numbers; computed now where all are known."""
        if not any(isinstance(arg, fx.Node) for arg in args):
            try:
                found = target(*args)
            except ExpressionError:  # the run says so, if it gets there
                found = None
            if found is not None and not isinstance(found, NoValue):
                return found
        values = [arg.meta["val"] if isinstance(arg, fx.Node) else arg for arg in args]
        named = target in (
            targets.partial_call,
            targets.total_call,
        )  # functions that are given another's name
        name = str(args[0]) if named else None
        return self.call(target, *args, val=self.program.fakes.apply(target, *values), name=name)

    # --- errors

    def invalid(self, why: str) -> ConvertError:
        """The program is not valid here."""
        return ConvertError(
            "FX101",
            f"{why}\n{self._place()}",
            hint="wrapper_ir.verify says what is wrong with a program",
        )

    def failed(self, error: Exception) -> ConvertError:
        """An error of torch's, by its class and text; the lines that follow the first are advice for users of torch.export."""
        text = str(error).strip().split("\n")[0]
        return ConvertError(
            "FX108",
            f"torch cannot make the nodes of this op: {type(error).__name__}: {text}\n{self._place()}",
            hint="compile it with the emitter python or cpp, which need no fake values",
        )

    def forbidden(self, op: ir.OpBase) -> ConvertError:
        """The options, or the compiler behind the graph, do not want this op."""
        return ConvertError(
            "FX106",
            f"a graph must not have {type(op).__name__}\n{self._place()}",
            hint="FxOptions.forbid and the compiler's lowerings say so; change the model, or convert without them",
        )

    def not_supported(self, code: str, what: str, hint: str) -> NotSupportedError:
        """No graph can say this."""
        return NotSupportedError(code, f"{what}\n{self._place()}", hint=hint)

    def _place(self) -> str:
        """The op in its surroundings."""
        return op_place(self.plan.function, self.position, self.program.program)


def _meta_of(prov: ir.Provenance) -> dict[str, Any]:
    """Where an op comes from, as torch's own tools look for it."""
    meta: dict[str, Any] = {}
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
"""What a graph module has without a program."""


def identifier(name: str) -> str:
    """A name that Python allows and leaves as it is."""
    text = ascii_identifier(name)
    return text if is_python_name(text) else f"{text}_"
