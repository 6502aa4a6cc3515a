"""The boxed form of a graph module: straight-line Python that takes a list, which it empties, and returns a tuple.

Call targets and attributes are looked up once, when the function is made.
"""

from __future__ import annotations

import linecache
import math
from collections.abc import Callable
from typing import Any

import torch
from torch import fx

from fx_converter import targets
from fx_converter._compat import FAST_VIEW, raw_call, without_autograd
from fx_converter.kept import KeptNodes
from fx_converter.kernels import LoadedTarget
from fx_converter.targets import streams
from wrapper_ir.runtime import SpareBuffers

__all__ = ["boxed_call", "boxed_source"]

_ENTERS = frozenset({targets.enter_device, targets.enter_stream})
# Any in this file: arguments and results of any graph
Boxed = Callable[[list[Any]], tuple[Any, ...]]


def boxed_call(module: fx.GraphModule, kept: KeptNodes | None = None) -> Boxed:
    """A callable over flat arguments. Nothing is recorded for autograd, and autocast does not apply. The module's graph and
    attributes are taken as they are now. `kept`: nodes whose tensors are there before a call."""
    source, scope = boxed_source(module, kept)
    file = f"<boxed {type(module).__name__} {id(module):x}>"
    linecache.cache[file] = (len(source), None, source.splitlines(True), file)
    exec(compile(source, file, "exec"), scope)
    run: Boxed = scope["run"]
    return lambda args: without_autograd(run, args)


def boxed_source(module: fx.GraphModule, kept: KeptNodes | None = None) -> tuple[str, dict[str, Any]]:
    """The text, and the objects that it refers to by name."""
    writer = _Writer(module, kept)
    return writer.text(), writer.scope


def _indented(lines: list[str]) -> list[str]:
    return [f"    {line}" for line in lines]


class _Writer:
    def __init__(self, module: fx.GraphModule, kept: KeptNodes | None) -> None:
        self._module = module
        self._kept = kept
        self._nodes = list(module.graph.nodes)
        self._names = {node.name for node in self._nodes}
        self.scope: dict[str, Any] = {"torch": torch}
        self._known: dict[object, str] = {}
        self._numbers: dict[str, int] = {}
        """How often a name was wished for."""
        self._fixed = self._constant_views()

    def _constant_views(self) -> dict[fx.Node, Any]:
        """Windows of constants, which are made once; none where a tensor is given another storage."""
        restless = {targets.resize_storage, torch.ops.aten.set_.source_Tensor}
        found: dict[fx.Node, Any] = {}
        if any(node.target in restless for node in self._nodes if node.op == "call_function"):
            return found
        for node in self._nodes:
            inputs = node.all_input_nodes
            if node.target is not FAST_VIEW or len(inputs) != 1:
                continue
            source = inputs[0]
            if source.op == "get_attr" or source in found:
                held = found.get(source)
                held = self._lookup(str(source.target)) if held is None else held
                found[node] = FAST_VIEW(held, *node.args[1:])
        return found

    def _lookup(self, path: str) -> Any:
        held: Any = self._module
        for part in path.split("."):
            held = getattr(held, part)
        return held

    def text(self) -> str:
        inputs = [node for node in self._nodes if node.op == "placeholder"]
        lines = ["def run(args):"]
        if inputs:
            lines.append(f"    {', '.join(node.name for node in inputs)}, = args")
        lines.append("    args.clear()")
        body = self._body()
        if any(node.target in _ENTERS for node in self._nodes):
            leave = self._object(streams.leave, "leave")
            body = ["try:", *_indented(body), "except BaseException:", f"    {leave}(locals())", "    raise"]
        return "\n".join([*lines, *_indented(body)]) + "\n"

    def _body(self) -> list[str]:
        """The lines that compute."""
        lines: list[str] = []
        give = ""
        last = self._last_uses()
        if self._kept is not None and not self._enters():
            give = self._take(self._kept, lines)
        for node in self._nodes:
            if give and node.op == "output":
                lines.append(give)
            if (
                node.op not in ("placeholder", "get_attr")
                and node not in self._fixed
                and not self._is_kept(node)
                and (line := self._line(node))
            ):
                lines.append(line)
            if self._kept is not None and node.target is targets.enter_device:
                give = self._take(self._kept, lines)
            ended = last.get(node, [])
            if ended and node.op != "output":
                lines.append(f"del {', '.join(n.name for n in ended)}")
        return lines

    def _enters(self) -> bool:
        """Whether the program's device is made the current one first."""
        return any(node.target is targets.enter_device for node in self._nodes)

    def _take(self, kept: KeptNodes, lines: list[str]) -> str:
        """Takes what is kept, for this call; the line that gives it back."""
        spare = self._object(SpareBuffers(kept.make), "spare")
        key = self._object(kept.key(), "stream_key")
        stream, buffers = self._name("key"), self._name("buffers")
        lines += [f"{stream} = {key}()", f"{buffers} = {spare}.take({stream})"]
        lines.append(f"{', '.join(node.name for node in kept.used())}, = {buffers}")
        return f"{spare}.give({stream}, {buffers})"

    def _is_kept(self, node: fx.Node) -> bool:
        return self._kept is not None and node in self._kept.nodes

    def _last_uses(self) -> dict[fx.Node, list[fx.Node]]:
        """For each node, the variables that end behind it; attributes have none."""
        found: dict[fx.Node, list[fx.Node]] = {}
        seen: set[fx.Node] = set()
        for node in reversed(self._nodes):
            mentioned = [*node.all_input_nodes, node]
            for used in mentioned:
                if used not in seen and self._is_variable(used):
                    found.setdefault(node, []).append(used)
                seen.add(used)
        return found

    def _is_variable(self, node: fx.Node) -> bool:
        if node in self._fixed or self._is_kept(node):
            return False
        return node.op in ("placeholder", "call_module", "call_method") or (
            node.op == "call_function" and bool(node.users)
        )

    def _line(self, node: fx.Node) -> str:
        if node.op == "call_function" and node.target is targets.free:
            return ""  # the variable ends behind this line, which is all that it is for
        if node.op == "call_function" and node.target is targets.same:
            return f"{node.name} = {self._repr(node.args[0])}"
        if node.op == "output":
            return f"return {self._repr(node.args[0])}"
        args = [self._repr(arg) for arg in node.args]
        if node.op == "call_method":
            text = f"{args[0]}.{node.target}({', '.join([*args[1:], *self._kwargs(node)])})"
        else:
            target = self._attribute(str(node.target)) if node.op == "call_module" else self._target(node)
            text = f"{target}({', '.join([*args, *self._kwargs(node)])})"
        return f"{node.name} = {text}" if self._is_variable(node) else text

    def _kwargs(self, node: fx.Node) -> list[str]:
        plain = [f"{k}={self._repr(v)}" for k, v in node.kwargs.items() if k != "from"]
        return plain + [f'**{{"from": {self._repr(v)}}}' for k, v in node.kwargs.items() if k == "from"]

    def _target(self, node: fx.Node) -> str:
        target: Any = node.target
        if isinstance(target, LoadedTarget):
            return self._object(target.launch, target.name)
        return self._object(raw_call(target), getattr(target, "__name__", "function"))

    def _attribute(self, path: str) -> str:
        return self._object(self._lookup(path), path)

    def _repr(self, arg: Any) -> str:
        match arg:
            case fx.Node() if arg in self._fixed:
                return self._object(self._fixed[arg], arg.name)
            case fx.Node():
                return self._attribute(str(arg.target)) if arg.op == "get_attr" else arg.name
            case tuple():
                return f"({', '.join(map(self._repr, arg))}{',' if len(arg) == 1 else ''})"
            case list():
                return f"[{', '.join(map(self._repr, arg))}]"
            case dict():
                return "{" + ", ".join(f"{k!r}: {self._repr(v)}" for k, v in arg.items()) + "}"
            case None | bool() | int() | str():
                return repr(arg)
            case float() if math.isfinite(arg):
                return repr(arg)
            case slice():
                return f"slice({self._repr(arg.start)}, {self._repr(arg.stop)}, {self._repr(arg.step)})"
            case _:
                return self._object(arg, "constant")

    def _object(self, held: Any, wish: str) -> str:
        """The name of an object that is looked up beforehand."""
        key = held if isinstance(held, torch.device) else id(held)  # each node has devices of its own
        known = self._known.get(key)
        if known is not None:
            return known
        name = self._name(wish)
        self.scope[name] = held
        self._known[key] = name
        return name

    def _name(self, wish: str) -> str:
        """A name that neither a node nor an object has."""
        stem = "".join(c if c.isalnum() else "_" for c in wish) or "object"
        number = self._numbers.get(stem, 0)
        name = f"_{stem}_{number}" if number else f"_{stem}"
        while name in self._names or name in self.scope:
            number += 1
            name = f"_{stem}_{number}"
        self._numbers[stem] = number + 1
        self._names.add(name)
        return name
