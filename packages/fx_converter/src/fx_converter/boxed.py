"""The boxed form of a graph module: straight-line Python over a list of arguments, which it empties. It
returns a tuple.

Call targets and attributes are looked up once, when the function is created.
"""

from __future__ import annotations

import linecache
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from operator import attrgetter
from types import FunctionType
from typing import Any, cast

import torch
from torch import fx

from fx_converter import targets
from fx_converter._compat import without_autograd
from fx_converter.emitted import node_origin
from fx_converter.failures import explained_boxed
from fx_converter.nodes import Argument, Boxed, Target
from fx_converter.persistent import PersistentNodes
from fx_converter.straight_line import Line, StraightLine, indented
from fx_converter.targets.control import ReplayFacts
from fx_converter.windows import constant_windows
from wrapper_ir import ir
from wrapper_ir.analysis.repeatable import DROPOUT, repeats_on
from wrapper_ir.plugins.emitted import LineOrigin
from wrapper_ir.support.collection import paused_collection
from wrapper_ir_runtime import DEVICE_GRAPHS, BufferPool
from wrapper_ir_torch import FAST_VIEW, TorchGraphs, repeated_operator

_CONVENTION = LineOrigin(note="the flat calling convention")
_AROUND = LineOrigin(note="memory, devices and streams around the ops")


@dataclass(frozen=True, slots=True, eq=False)
class BoxedSource:
    """The text of a function `run`, the origin of each line, and the objects that the text refers to by name.

    `graphed` maps such names to the functions that a device captures; `facts` are those of a captured
    function (see `targets.replay`).
    """

    name: str
    text: str
    origins: tuple[LineOrigin, ...]
    scope: dict[str, object]
    graphed: Mapping[str, BoxedSource]
    facts: ReplayFacts | None = None

    @property
    def run(self) -> FunctionType:
        """The function, once `boxed_function` has compiled the text."""
        return cast("FunctionType", self.scope["run"])  # the text defines it


def boxed_call(
    module: fx.GraphModule, persistent: PersistentNodes | None = None, cuda_graphs: int = 0
) -> Boxed:
    """Returns a callable over flat arguments, without autograd and autocast. It uses the module's graph and
    attributes at the time of this call. `persistent`: nodes whose tensors exist before a call. `cuda_graphs`:
    the maximal number of concurrent graphs of a function that a device can capture."""
    return boxed_function(boxed_text(module, persistent, cuda_graphs), cuda_graphs)


def boxed_function(source: BoxedSource, cuda_graphs: int = 0) -> Boxed:
    """Compiles a text; the callable has it as its attribute `source`."""
    _make_graphs(source, cuda_graphs)
    file = f"<boxed {source.name} {id(source):x}>"
    linecache.cache[file] = (len(source.text), None, source.text.splitlines(True), file)
    exec(compile(source.text, file, "exec"), source.scope)
    run = source.run

    def call(args: list[Any]) -> tuple[Any, ...]:  # Any: see Boxed
        try:
            return without_autograd(run, args)
        except Exception as error:
            explanation = explained_boxed(error, run.__code__.co_filename, source)
            if explanation is error:
                raise
            raise explanation from error

    call.source = source  # type: ignore[attr-defined]  # functions take attributes
    return call


def boxed_source(
    module: fx.GraphModule, persistent: PersistentNodes | None = None, cuda_graphs: int = 0
) -> tuple[str, dict[str, object]]:
    """Returns the text, and the objects that it refers to by name."""
    source = boxed_text(module, persistent, cuda_graphs)
    _make_graphs(source, cuda_graphs)
    return source.text, source.scope


@paused_collection()
def boxed_text(
    module: fx.GraphModule,
    persistent: PersistentNodes | None = None,
    cuda_graphs: int = 0,
    facts: ReplayFacts | None = None,
    *,
    repeats: bool = False,
) -> BoxedSource:
    """Returns the text of a graph module without running anything. Graphed functions are not among
    its objects yet. `repeats`: operators that only launch kernels are called through functions that launch
    them again."""
    writer = _Writer(module, persistent, cuda_graphs, repeats)
    lines = writer.lines()
    return BoxedSource(
        name=type(module).__name__,
        text="".join(f"{line}\n" for line, _ in lines),
        origins=tuple(origin for _, origin in lines),
        scope=writer.scope,
        graphed=writer.graphed,
        facts=facts,
    )


def _make_graphs(source: BoxedSource, cuda_graphs: int) -> None:
    """Adds graphed functions to the objects of a text."""
    for name, inner in source.graphed.items():
        if inner.facts is None:
            raise AssertionError(f"{name} has no facts for its capture")
        function, device, _, tensors, static, writes, ends = inner.facts
        source.scope[name] = DEVICE_GRAPHS.get(device, TorchGraphs).graphed(
            _over_lists(boxed_function(inner)),
            function,
            limit=cuda_graphs,
            tensors=tensors,
            static=static,
            written=writes,
            given=ends,
        )


def _over_lists(run: Boxed) -> Callable[..., tuple[Any, ...]]:  # Any: see Boxed
    """Wraps `run` as a function of a list of arguments, which it empties, and the symbols that the function
    captures."""

    def call(args: list[Any], *numbers: object) -> tuple[Any, ...]:
        operands = [*args, *numbers]
        args.clear()
        return run(operands)

    return call


class _Writer(StraightLine):
    def __init__(
        self, module: fx.GraphModule, persistent: PersistentNodes | None, cuda_graphs: int, repeats: bool
    ) -> None:
        super().__init__(list(module.graph.nodes))
        self._repeats = repeats
        self._repeated: dict[tuple[str, str], Target] = {}
        """Functions that repeat operators, by operator and device."""
        self._module = module
        self._persistent = persistent
        self._cuda_graphs = cuda_graphs
        self._give = ""
        """The line that returns the persistent buffers to their pool."""
        self.graphed: dict[str, BoxedSource] = {}
        self._resizers: list[str] = []
        """Names of the functions that resize blocks, by the number of the block."""
        self._fixed = self._constant_views()

    def _constant_views(self) -> dict[fx.Node, torch.Tensor]:
        """Creates the windows of constants once."""
        windows: dict[fx.Node, torch.Tensor] = {}
        for node, source in constant_windows(self.nodes).items():
            base = self._lookup(str(source.target)) if source.op == "get_attr" else windows[source]
            windows[node] = FAST_VIEW(base, *node.args[1:])
        return windows

    def is_traceable(self) -> bool:
        """See `StraightLine`. Tracers can observe neither persistent memory nor repeated operators."""
        return False

    def _lookup(self, path: str) -> object:
        return attrgetter(path)(self._module)

    def lines(self) -> list[tuple[str, LineOrigin]]:
        """Returns all lines, each with its origin."""
        inputs = [node for node in self.nodes if node.op == "placeholder"]
        args = self.name("args")  # no input has this name
        head = [f"def run({args}):"]
        if inputs:
            head.append(f"    {', '.join(node.name for node in inputs)}, = {args}")
        head.append(f"    {args}.clear()")
        if not inputs:
            head.append(f"    {self.refuse_tracers()}")
        enters = any(node.target is targets.enter_device for node in self.nodes)
        prologue = [] if self._persistent is None or enters else self._take(self._persistent)
        body: list[Line] = [*((line, None) for line in prologue), *self.body()]
        code = [
            (line, _AROUND if number is None else node_origin(self.nodes[number]))
            for line, number in indented(self.guarded(body))
        ]
        return [*((line, _CONVENTION) for line in head), *code]

    def lines_after(self, node: fx.Node) -> list[str]:
        """Takes the persistent buffers after entering the program's device. Memory that does not persist is
        allocated and released at the nodes that do so."""
        persistent = self._persistent
        if persistent is None:
            return []
        if node.target is targets.enter_device:
            return self._take(persistent)
        begins, ends = persistent.nodes.get(node), persistent.frees.get(node)
        if persistent.is_held or (begins is None and ends is None):
            return []
        if begins is not None:
            return [f"{self._resizers[begins]}({max(persistent.blocks[begins].nbytes, 1)})"]
        return [f"{self._resizers[ends or 0]}(0)"]

    def before_output(self) -> list[str]:
        """See `StraightLine`."""
        return [self._give]

    def _take(self, persistent: PersistentNodes) -> list[str]:
        """Takes the persistent buffers for this call."""
        buffer_pool = self.object(BufferPool(persistent.make), "buffer_pool")
        key = self.object(persistent.key(), "stream_key")
        stream, buffers = self.name("key"), self.name("buffers")
        resizers = () if persistent.is_held else range(len(persistent.blocks))
        self._resizers = [self.name(f"resize_{block}") for block in resizers]
        names = [*(node.name for node in persistent.used()), *self._resizers]
        self._give = f"{buffer_pool}.give({stream}, {buffers})"
        return [
            f"{stream} = {key}()",
            f"{buffers} = {buffer_pool}.take({stream})",
            f"{', '.join(names)}, = {buffers}",
        ]

    def call(self, node: fx.Node) -> str:
        """See `StraightLine`. A graphed function takes its arguments in a list, then the symbols that it
        captures."""
        if not self._cuda_graphs or node.target not in (targets.replay, targets.replay_effect):
            return super().call(node)
        arguments: Any = node.args  # Any: in the structure of `targets.replay`
        facts, module, name, *operands = arguments
        count = facts[2]
        replay = self.name(f"replay_{name}")
        function = cast("fx.GraphModule", self._lookup(str(module.target)))  # see graph/control.py
        self.graphed[replay] = boxed_text(function, facts=facts, repeats=self._repeats)
        texts = [self.repr(x) for x in operands]
        box = f"[{', '.join(texts[:count])}]"
        return f"{replay}({', '.join([box, *texts[count:]])})"

    def function(self, node: fx.Node) -> str:
        """See `StraightLine`."""
        target, value = node.target, _first_value(node)
        if self._repeats and isinstance(target, torch._ops.OpOverload) and isinstance(value, torch.Tensor):
            name: str = target.name()  # type: ignore[no-untyped-call]  # torch leaves it so
            device = ir.Device(value.device.type, value.device.index)
            if repeats_on(name, device, _argument(node, target._schema, DROPOUT)):
                return self.object(self._repeater(name, str(device), target), target.overloadpacket.__name__)
        return super().function(node)

    def _repeater(self, name: str, device: str, target: Target) -> Target:
        if (name, device) not in self._repeated:
            calls = sum(node.target is target for node in self.nodes)
            self._repeated[name, device] = repeated_operator(name, device, calls)
        return self._repeated[name, device]

    def is_ready(self, node: fx.Node) -> bool:
        """See `StraightLine`."""
        persistent = self._persistent is not None and node in self._persistent.nodes
        return persistent or node in self._fixed or super().is_ready(node)

    def value(self, node: fx.Node) -> str:
        """See `StraightLine`."""
        if node in self._fixed:
            return self.object(self._fixed[node], node.name)
        return super().value(node)

    def attribute(self, path: str) -> str:
        """See `StraightLine`."""
        return self.object(self._lookup(path), path)


def _first_value(node: fx.Node) -> object:
    """Returns the fake value of the first argument."""
    first = node.args[0] if node.args else None
    return first.meta.get("val") if isinstance(first, fx.Node) else None


def _argument(node: fx.Node, schema: torch.FunctionSchema, name: str) -> Argument:
    """Returns the argument of an operator call with this name, or None if it is omitted."""
    names = [argument.name for argument in schema.arguments]
    return {**dict(zip(names, node.args)), **node.kwargs}.get(name)
