"""Nodes as lines of straight-line Python. Call targets are objects that the text refers to by name."""

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
from fx_converter.nodes import Argument
from fx_converter.targets import placement
from fx_converter.targets.checks import described, input_guard, storage_guard
from wrapper_ir.analysis.input_facts import NumberInput, TensorInput
from wrapper_ir.support.quoting import python_attribute, python_keyword, python_string
from wrapper_ir_runtime import refuse_tracers
from wrapper_ir_torch import OpOverload

Line = tuple[str, int | None]
"""A line, and the number of its node."""

_PLAIN = frozenset({type(None), bool, int, str})
"""Types whose `repr` evaluates to the value, unlike members of enumerations."""
_ENTERS = frozenset(
    {targets.enter_device, targets.enter_memory_pool, targets.enter_profile, targets.enter_stream}
)


def indented(lines: Sequence[Line]) -> list[Line]:
    """Indents the lines of a block."""
    return [(f"    {line}", node) for line, node in lines]


@lru_cache(maxsize=1024)
def _defaults(target: OpOverload) -> dict[str, object]:
    return {a.name: a.default_value for a in target._schema.arguments if a.has_default_value()}


def _is_same(arg: object, default: object) -> bool:
    """Returns whether both are the same plain value. The text of others is not compared."""
    return arg is default or (
        type(arg) is type(default) and isinstance(arg, int | float | str) and arg == default
    )


class StraightLine:
    """The text of a graph's nodes. Subclasses define the text of attributes, and the nodes that need no line
    because their values exist already."""

    def __init__(self, nodes: Sequence[fx.Node], reserved: Iterable[str] = ()) -> None:
        self.nodes = nodes
        self.scope: dict[str, object] = {"torch": torch}
        """The objects that the text refers to by name."""
        self._names = {*reserved, *(node.name for node in nodes)}
        self._object_names: dict[object, str] = {}
        self._numbers: dict[str, int] = {}
        """The next number to append to a candidate."""

    def attribute(self, path: str) -> str:
        """Returns the text for an attribute of the module."""
        raise NotImplementedError

    def is_ready(self, node: fx.Node) -> bool:
        """Returns whether a node's value exists without a line for the node."""
        return node.op in ("placeholder", "get_attr")

    def value(self, node: fx.Node) -> str:
        """Returns the text for the value of a node."""
        return self.attribute(str(node.target)) if node.op == "get_attr" else node.name

    def lines_after(self, node: fx.Node) -> list[str]:
        """Returns lines that follow a node's line."""
        return []

    def is_traceable(self) -> bool:
        """Returns whether torch's tracers observe all calls of the text."""
        return not any(isinstance(node.target, LoadedTarget) for node in self.nodes)

    def refuse_tracers(self) -> str:
        """Returns the line that refuses tracers in a program without arguments."""
        return f"if {self._modes()}: {self.object(refuse_tracers, 'refuse_tracers')}(torch)"

    def _modes(self) -> str:
        return f"{self.object(torch._C._len_torch_dispatch_stack, 'count_modes')}()"

    def before_output(self) -> list[str]:
        """Returns lines that precede the last one."""
        return []

    def returns(self, result: Argument) -> str:
        """Returns the last line."""
        return f"return {self.repr(result)}"

    def body(self) -> list[Line]:
        """Returns the lines of the nodes."""
        lines: list[Line] = []
        last = self._last_uses()
        for number, node in enumerate(self.nodes):
            texts = self.before_output() if node.op == "output" else []
            if not self.is_ready(node):
                texts.append(self._line(node))
            texts += self.lines_after(node)
            ended = last.get(node, [])
            if ended and node.op != "output":
                texts.append(f"del {', '.join(n.name for n in ended)}")
            lines += [(line, number) for line in texts if line]
        return lines

    def guarded(self, lines: list[Line]) -> list[Line]:
        """Wraps the lines so that a failure leaves the devices and streams that they enter."""
        if not any(node.target in _ENTERS for node in self.nodes):
            return lines
        leave = self.object(placement.leave, "leave")
        handler = ("except BaseException:", f"    {leave}(locals())", "    raise")
        return [("try:", None), *indented(lines), *((line, None) for line in handler)]

    def _last_uses(self) -> dict[fx.Node, list[fx.Node]]:
        """Maps each node to the variables whose lifetime ends after it; attributes have none."""
        ended: dict[fx.Node, list[fx.Node]] = {}
        visited: set[fx.Node] = set()
        for node in reversed(self.nodes):
            operands = [*node.all_input_nodes, node]
            for operand in operands:
                if operand not in visited and self._is_variable(operand):
                    ended.setdefault(node, []).append(operand)
                visited.add(operand)
        return ended

    def _is_variable(self, node: fx.Node) -> bool:
        if node.op == "placeholder":
            return True
        return not self.is_ready(node) and (
            node.op in ("call_module", "call_method") or (node.op == "call_function" and bool(node.users))
        )

    def _line(self, node: fx.Node) -> str:
        match node.target if node.op == "call_function" else node.op:
            case targets.free:
                return ""  # the `del` after the node ends the variable's lifetime
            case targets.same:
                return f"{node.name} = {self.repr(node.args[0])}"
            case targets.check_inputs:
                return self._check_inputs(node)
            case targets.check_storages:
                return self._check_storages(node)
            case targets.check_result:
                return self._check_result(node)
            case "output":
                return self.returns(node.args[0])
            case _:
                text = self.call(node)
                return f"{node.name} = {text}" if self._is_variable(node) else text

    def call(self, node: fx.Node) -> str:
        """Returns the text of a call."""
        args = [self.repr(arg) for arg in node.args]
        if node.op == "call_method":
            source, *args = args
            target = python_attribute(source, str(node.target))
        else:
            target = self.attribute(str(node.target)) if node.op == "call_module" else self.function(node)
        return f"{target}({', '.join([*args, *self._kwargs(node)])})"

    def _check_inputs(self, node: fx.Node) -> str:
        """Returns one call of a compiled check for all tensors; the slow check examines failures."""
        arguments: Any = node.args  # Any: in the structure of `targets.check_inputs`
        operands, expected = arguments
        guard = self.object(input_guard(expected, is_traceable=self.is_traceable()), "inputs")
        names = [self.repr(arg) for arg in operands]
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
        """Returns one call for all tensors, of native code if a kernel runtime provides it."""
        arguments: Any = node.args  # Any: in the structure of `targets.check_storages`
        operands, expected = arguments
        kernels = [n.target.launch for n in self.nodes if isinstance(n.target, LoadedTarget)]
        guard = self.object(storage_guard(expected, kernels), "storages")
        names = ", ".join(self.repr(arg) for arg in operands)
        return f"{guard}.holds({names}) or {guard}.check({names})"

    def _check_result(self, node: fx.Node) -> str:
        """Returns comparisons of the open properties; the slow check examines failures."""
        arguments: Any = node.args  # Any: in the structure of `targets.check_result`
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
        """Returns the keyword arguments that differ from an operator's defaults."""
        defaults = _defaults(node.target) if isinstance(node.target, torch._ops.OpOverload) else {}
        kwargs = {k: v for k, v in node.kwargs.items() if k not in defaults or not _is_same(v, defaults[k])}
        return [python_keyword(k, self.repr(v)) for k, v in kwargs.items()]

    def function(self, node: fx.Node) -> str:
        """Returns the name of a node's target."""
        target = node.target
        assert callable(target)
        if isinstance(target, LoadedTarget):
            return self.object(target.launch, target.name)
        if "self" in node.kwargs:  # plain functions name this parameter differently
            return self.object(target, "function")
        return self.object(raw_call(target), getattr(target, "__name__", "function"))

    def repr(self, arg: object) -> str:
        """Returns the text for an argument."""
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

    def object(self, value: object, candidate: str) -> str:
        """Returns the name of an object that the text refers to."""
        key = value if isinstance(value, torch.device) else id(value)  # nodes do not share device objects
        name = self._object_names.get(key)
        if name is None:
            name = self._object_names[key] = self.name(candidate)
            self.scope[name] = value
        return name

    def name(self, candidate: str) -> str:
        """Returns a name that neither a node nor an object has."""
        stem = "".join(c if c.isascii() and c.isalnum() else "_" for c in candidate) or "object"
        number = self._numbers.get(stem, 0)
        name = f"_{stem}_{number}" if number else f"_{stem}"
        while name in self._names or name in self.scope:
            number += 1
            name = f"_{stem}_{number}"
        self._numbers[stem] = number + 1
        self._names.add(name)
        return name
