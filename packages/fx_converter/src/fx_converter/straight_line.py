"""Nodes as lines of straight-line Python, over names for the objects that they call, which are looked up beforehand."""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from functools import lru_cache
from typing import Any

import torch
from torch import fx

from fx_converter import targets
from fx_converter._compat import raw_call
from fx_converter.kernels import LoadedTarget
from fx_converter.targets import placement
from fx_converter.targets.checks import described, input_guard, storage_guard
from wrapper_ir.analysis.input_facts import NumberInput, TensorInput
from wrapper_ir.support.quoting import python_attribute, python_keyword, python_string
from wrapper_ir_runtime import refuse_tracers

Line = tuple[str, int | None]
"""A line, and the number of the node that it is for."""

_PLAIN = frozenset({type(None), bool, int, str})
"""What Python's text for it stands for, unlike members of enumerations."""
_ENTERS = frozenset(
    {targets.enter_device, targets.enter_memory_pool, targets.enter_profile, targets.enter_stream}
)
# Any in this file: arguments of nodes, and what they call


def indented(lines: Sequence[Line]) -> list[Line]:
    """The lines of a block."""
    return [(f"    {line}", node) for line, node in lines]


@lru_cache(maxsize=1024)
def _defaults(target: torch._ops.OpOverload) -> dict[str, Any]:
    return {a.name: a.default_value for a in target._schema.arguments if a.has_default_value()}


def _is_same(arg: object, default: object) -> bool:
    """Whether both are the same plain value; the text of others is not compared."""
    return arg is default or (
        type(arg) is type(default) and isinstance(arg, int | float | str) and arg == default
    )


class StraightLine:
    """The text of a graph's nodes. Whoever makes a function of it says where attributes are, and which nodes need no
    line because their values are there already."""

    def __init__(self, nodes: Sequence[fx.Node], taken: Iterable[str] = ()) -> None:
        self.nodes = nodes
        self.scope: dict[str, Any] = {"torch": torch}
        """The objects that the text refers to by name."""
        self._names = {*taken, *(node.name for node in nodes)}
        self._known: dict[object, str] = {}
        self._numbers: dict[str, int] = {}
        """How often a name was wished for."""

    def attribute(self, path: str) -> str:
        """The text for an attribute of the module."""
        raise NotImplementedError

    def is_ready(self, node: fx.Node) -> bool:
        """Whether a node's value is there without a line of its own."""
        return node.op in ("placeholder", "get_attr")

    def value(self, node: fx.Node) -> str:
        """The text for the value of a node."""
        return self.attribute(str(node.target)) if node.op == "get_attr" else node.name

    def lines_after(self, node: fx.Node) -> list[str]:
        """Lines that follow a node's own."""
        return []

    def is_traceable(self) -> bool:
        """Whether tracers of torch's see all that the text calls."""
        return not any(isinstance(node.target, LoadedTarget) for node in self.nodes)

    def refuse_tracers(self) -> str:
        """The line that a program without arguments has for their check."""
        return f"if {self._modes()}: {self.object(refuse_tracers, 'refuse_tracers')}(torch)"

    def _modes(self) -> str:
        return f"{self.object(torch._C._len_torch_dispatch_stack, 'count_modes')}()"

    def before_output(self) -> list[str]:
        """More lines before the last one."""
        return []

    def returns(self, result: Any) -> str:
        """The last line."""
        return f"return {self.repr(result)}"

    def body(self) -> list[Line]:
        """The lines that compute."""
        lines: list[Line] = []
        last = self._last_uses()
        for number, node in enumerate(self.nodes):
            found = self.before_output() if node.op == "output" else []
            if not self.is_ready(node):
                found.append(self._line(node))
            found += self.lines_after(node)
            ended = last.get(node, [])
            if ended and node.op != "output":
                found.append(f"del {', '.join(n.name for n in ended)}")
            lines += [(line, number) for line in found if line]
        return lines

    def guarded(self, lines: list[Line]) -> list[Line]:
        """The lines, such that a failure leaves the devices and streams that they enter."""
        if not any(node.target in _ENTERS for node in self.nodes):
            return lines
        leave = self.object(placement.leave, "leave")
        handler = ("except BaseException:", f"    {leave}(locals())", "    raise")
        return [("try:", None), *indented(lines), *((line, None) for line in handler)]

    def _last_uses(self) -> dict[fx.Node, list[fx.Node]]:
        """For each node, the variables whose lifetime ends after it; attributes have none."""
        found: dict[fx.Node, list[fx.Node]] = {}
        seen: set[fx.Node] = set()
        for node in reversed(self.nodes):
            mentioned = [*node.all_input_nodes, node]
            for used in mentioned:
                if used not in seen and self._is_variable(used):
                    found.setdefault(node, []).append(used)
                seen.add(used)
        return found

    def _is_variable(self, node: fx.Node) -> bool:
        if node.op == "placeholder":
            return True
        return not self.is_ready(node) and (
            node.op in ("call_module", "call_method") or (node.op == "call_function" and bool(node.users))
        )

    def _line(self, node: fx.Node) -> str:
        if node.op == "call_function" and node.target is targets.free:
            return ""  # the node only ends the variable's lifetime, which the `del` after it does
        if node.op == "call_function" and node.target is targets.same:
            return f"{node.name} = {self.repr(node.args[0])}"
        if node.op == "output":
            return self.returns(node.args[0])
        if node.op == "call_function" and node.target is targets.check_inputs:
            return self._check_inputs(node)
        if node.op == "call_function" and node.target is targets.check_storages:
            return self._check_storages(node)
        if node.op == "call_function" and node.target is targets.check_result:
            return self._check_result(node)
        text = self.call(node)
        return f"{node.name} = {text}" if self._is_variable(node) else text

    def call(self, node: fx.Node) -> str:
        """The text of a call."""
        args = [self.repr(arg) for arg in node.args]
        if node.op == "call_method":
            return f"{python_attribute(args[0], str(node.target))}({', '.join([*args[1:], *self._kwargs(node)])})"
        target = self.attribute(str(node.target)) if node.op == "call_module" else self.function(node)
        return f"{target}({', '.join([*args, *self._kwargs(node)])})"

    def _check_inputs(self, node: fx.Node) -> str:
        """One call of a compiled check for all tensors; what it does not pass is looked at."""
        arguments: Any = node.args
        given, expected = arguments
        guard = self.object(input_guard(expected, is_traceable=self.is_traceable()), "inputs")
        names = [self.repr(arg) for arg in given]
        inputs = [described(e) for e in expected]
        tensors = [n for n, want in zip(names, inputs) if isinstance(want, TensorInput)]
        conditions = [] if self.is_traceable() else [f"not {self._modes()}"]
        conditions += [f"{guard}.match({', '.join(tensors)})"] if tensors else []
        for name, want in zip(names, inputs):
            if isinstance(want, NumberInput):
                conditions.append(f"type({name}) is {want.kind}")
                if want.kind == "int":
                    conditions.append(f"-0x8000000000000000 <= {name} < 0x8000000000000000")
        passes = " and ".join(conditions)
        return f"{passes if len(conditions) == 1 else f'({passes})'} or {guard}.check({', '.join(names)})"

    def _check_storages(self, node: fx.Node) -> str:
        """One call for all tensors, of native code where kernels bring some."""
        arguments: Any = node.args
        given, wanted = arguments
        kernels = [n.target.launch for n in self.nodes if isinstance(n.target, LoadedTarget)]
        guard = self.object(storage_guard(wanted, kernels), "storages")
        names = ", ".join(self.repr(arg) for arg in given)
        return f"{guard}.holds({names}) or {guard}.check({names})"

    def _check_result(self, node: fx.Node) -> str:
        """Comparisons of what is open; what they do not pass is looked at."""
        arguments: Any = node.args
        x, _, dtype, device, *rest = arguments
        name, what = self.repr(x), tuple(rest[0]) if rest else ("memory",)
        conditions = {
            "defined": lambda: f"{name} is not None",
            "dtype": lambda: f"{name}.dtype is {self.repr(dtype)}",
            "device": lambda: f"{name}.device == {self.repr(torch.device(device))}",
        }
        if "memory" in what:
            return self.call(node)
        return f"{' and '.join(conditions[one]() for one in what)} or {self.call(node)}"

    def _kwargs(self, node: fx.Node) -> list[str]:
        """The keyword arguments, without those that an operator takes by itself."""
        defaults = _defaults(node.target) if isinstance(node.target, torch._ops.OpOverload) else {}
        said = {k: v for k, v in node.kwargs.items() if k not in defaults or not _is_same(v, defaults[k])}
        return [python_keyword(k, self.repr(v)) for k, v in said.items()]

    def function(self, node: fx.Node) -> str:
        """The name of what a node calls."""
        target: Any = node.target
        if isinstance(target, LoadedTarget):
            return self.object(target.launch, target.name)
        if "self" in node.kwargs:  # which plain functions call otherwise
            return self.object(target, "function")
        return self.object(raw_call(target), getattr(target, "__name__", "function"))

    def repr(self, arg: Any) -> str:
        """The text for an argument."""
        match arg:
            case fx.Node():
                return self.value(arg)
            case tuple():
                kind = self.object(type(arg), type(arg).__name__) if hasattr(arg, "_fields") else ""
                return f"{kind}({', '.join(map(self.repr, arg))}{',' if len(arg) == 1 else ''})"
            case list():
                return f"[{', '.join(map(self.repr, arg))}]"
            case dict():
                return "{" + ", ".join(f"{self.repr(k)}: {self.repr(v)}" for k, v in arg.items()) + "}"
            case str() if type(arg) in _PLAIN:
                return python_string(arg)
            case None | bool() | int() if type(arg) in _PLAIN:
                return repr(arg)
            case float() if math.isfinite(arg):
                return repr(arg)
            case slice():
                return f"slice({self.repr(arg.start)}, {self.repr(arg.stop)}, {self.repr(arg.step)})"
            case _:
                return self.object(arg, "constant")

    def object(self, held: Any, wish: str) -> str:
        """The name of an object that is looked up beforehand."""
        key = held if isinstance(held, torch.device) else id(held)  # each node has devices of its own
        known = self._known.get(key)
        if known is not None:
            return known
        name = self.name(wish)
        self.scope[name] = held
        self._known[key] = name
        return name

    def name(self, wish: str) -> str:
        """A name that neither a node nor an object has."""
        stem = "".join(c if c.isascii() and c.isalnum() else "_" for c in wish) or "object"
        number = self._numbers.get(stem, 0)
        name = f"_{stem}_{number}" if number else f"_{stem}"
        while name in self._names or name in self.scope:
            number += 1
            name = f"_{stem}_{number}"
        self._numbers[stem] = number + 1
        self._names.add(name)
        return name
