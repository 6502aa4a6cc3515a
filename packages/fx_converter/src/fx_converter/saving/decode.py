"""Graphs from JSON. Nothing is called while one is read."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping
from functools import reduce
from typing import Any

import torch
from torch import fx

from fx_converter import targets
from fx_converter._compat import new_graph, operands_of
from fx_converter.errors import SavedGraphError
from fx_converter.graph.metadata import FakeValues
from fx_converter.saving.bounds import WindowBounds, refuse_rebinding
from fx_converter.saving.encode import META
from fx_converter.saving.functions import FUNCTIONS_BY_NAME
from wrapper_ir import ir
from wrapper_ir.expr import Expr, Int
from wrapper_ir.operators.policy import DEFAULT_OPERATORS, OperatorPolicy, refused
from wrapper_ir_torch import DTYPE_OF, DTYPES, is_overload, torch_operators

# Any in this file: arguments of nodes, and JSON.
_OPS = ("placeholder", "get_attr", "call_function", "call_module", "output")
_CONSTANTS: Mapping[str, Any] = {
    **{str(dtype).removeprefix("torch."): dtype for dtype in DTYPES.values()},
    # torch names them so
    **{
        member.value: getattr(torch, member.value) for kind in (ir.Layout, ir.MemoryFormat) for member in kind
    },
}

_SET = "aten::set_.source_Tensor"
_CONTROL = frozenset(("cond", "invoke_subgraph", "while_loop", "while_loop_stack_output"))
"""Operators that are control flow of a program: they run graphs of the same file, whose operators are looked at, too."""


class GraphReader:
    """Reads one graph, whose module has these attributes; `kernel(hash, form)` gives the call target of a kernel.

    Raises SavedGraphError FX202 for text that is not a graph, FX204 for an operator that this process does not have, FX205 for one
    that replaces memory, and for a window outside of it, and NotSupportedError WIR917 for one that `operators` refuses.
    """

    def __init__(
        self,
        kernel: Callable[[str, str], Any],
        fakes: FakeValues,
        attributes: Collection[str],
        operators: OperatorPolicy = DEFAULT_OPERATORS,
    ) -> None:
        self._operators = operators
        self._kernel = kernel
        self._attributes = attributes
        self._exprs: dict[str, Expr] = {}
        self._fakes = fakes
        self._nodes: dict[str, fx.Node] = {}
        self._bounds = WindowBounds()
        self.graph = new_graph()

    def read(self, nodes: list[dict[str, Any]]) -> fx.Graph:
        """The graph of these nodes."""
        for node in nodes:
            self._read(node)
        if not nodes or nodes[-1]["op"] != "output":
            raise SavedGraphError("FX202", "a graph does not end with its output")
        self.graph.lint()
        return self.graph

    def _read(self, said: dict[str, Any]) -> None:
        op = said["op"]
        if op not in _OPS:
            raise SavedGraphError("FX202", f"no node is a {op!r}")
        made = self.graph.create_node(
            op,
            self._target(said["target"]) if op == "call_function" else self._name(said["target"], op),
            tuple(self._argument(arg) for arg in said["args"]),
            {_identifier(name): self._argument(arg) for name, arg in said["kwargs"].items()},
            name=said["name"],
        )
        if operands_of(made.target) not in (None, len(made.args)):
            raise SavedGraphError("FX202", f"{said['name']!r} has {len(made.args)} operands")
        if made.name != said["name"]:
            raise SavedGraphError("FX202", f"two nodes are named {said['name']!r}, or it is not a name")
        for key, held in said["meta"].items():
            if key in META:
                made.meta[key] = tuple(held) if isinstance(held, list) else held
        if "val" in said:
            made.meta["val"] = self._value(said["val"])
        self._bounds.check(made)
        self._nodes[made.name] = made

    def _name(self, said: str, op: str) -> str:
        """The target of a node that calls nothing by itself: names become source code."""
        if op not in ("get_attr", "call_module"):
            return _identifier(said)
        if said not in self._attributes:
            raise SavedGraphError("FX202", f"the graph has no attribute {said!r}")
        return ".".join(
            part if part.isascii() and part.isdecimal() else _identifier(part) for part in said.split(".")
        )

    # --- what is called

    def _target(self, said: Mapping[str, str]) -> Any:
        match said:
            case {"kernel": hash, "form": form}:
                return self._kernel(hash, form)
            case {"operator": name}:
                return self._operator(name)
            case {"higher_order": name}:
                found = getattr(torch.ops.higher_order, name, None)  # operators are found by name
                if not isinstance(found, torch._ops.HigherOrderOperator):
                    raise _missing(f"higher-order operator {name}")
                if name not in _CONTROL:
                    self._ask(f"higher_order::{name}")
                return found
            case {"function": name} if name in FUNCTIONS_BY_NAME:
                return FUNCTIONS_BY_NAME[name]
            case _:
                raise SavedGraphError("FX202", f"nothing can be called by {dict(said)}")

    def _operator(self, name: str) -> Any:
        self._ask(name)
        if name == _SET:  # as torch's own tracing writes `targets.set_storage`
            return targets.set_like
        refuse_rebinding(name, self._place())
        return _operator(name)

    def _ask(self, name: str) -> None:
        """Raises NotSupportedError WIR917 for an operator that the graph may not call."""
        if reason := self._operators.refusal(name):
            raise refused(name, reason, self._place())

    def _place(self) -> str:
        return f"the graph calls it after {len(self._nodes)} nodes"

    def _argument(self, said: Any) -> Any:
        if isinstance(said, list):
            return [self._argument(item) for item in said]
        if not isinstance(said, dict):
            return said
        ((kind, held),) = said.items()
        match kind:
            case "node":
                return self._nodes[held]
            case "float":
                return float(held)
            case "complex":
                return complex(float(held[0]), float(held[1]))
            case "tuple":
                return tuple(self._argument(item) for item in held)
            case "dict":
                return {self._argument(k): self._argument(v) for k, v in held}
            case "slice":
                return slice(*(self._argument(part) for part in held))
            case "torch":
                return _CONSTANTS[held]
            case "device":
                return torch.device(held)
            case "operator":
                return self._operator(held)
            case _:
                raise SavedGraphError("FX202", f"no argument is a {kind!r}")

    # --- fake values

    def _value(self, said: Any) -> Any:
        match said:
            case {"dtype": dtype, "device": device, "sizes": sizes, "strides": strides}:
                return self._tensor(DTYPE_OF[_CONSTANTS[dtype]], device, sizes, strides)
            case {"list": items}:
                return [self._value(item) for item in items]
            case {"tuple": items}:
                return tuple(self._value(item) for item in items)
            case {"dict": items}:
                return {k: self._value(v) for k, v in items.items()}
            case {"number": number}:
                return self._number(number)
            case _:
                return None

    def _tensor(self, dtype: Any, device: str, sizes: list[Any], strides: list[Any]) -> Any:
        kind, _, index = device.partition(":")
        numbers = [*sizes, *strides]
        if any(n is None for n in numbers):
            return None
        exprs = [self._expr(n) for n in numbers]
        return self._fakes.tensor(
            ir.TensorType(
                dtype=dtype,
                sizes=tuple(exprs[: len(sizes)]),
                strides=tuple(exprs[len(sizes) :]),
                device=ir.Device(kind, int(index) if index else None),
            )
        )

    def _expr(self, said: Any) -> Expr:
        if type(said) is int:
            return Int(said)
        text = said["expr"] if isinstance(said, dict) else str(said)
        if text not in self._exprs:
            self._exprs[text] = ir.parse_expr(text, self._fakes.kinds)
        return self._exprs[text]

    def _number(self, said: Any) -> Any:
        if isinstance(said, str):
            return float(said)
        return self._fakes.number(self._expr(said)) if isinstance(said, dict) else said


def _identifier(name: object) -> str:
    """A name as Python has them: it becomes a part of source code."""
    if not (isinstance(name, str) and name.isidentifier()):
        raise SavedGraphError("FX202", f"{name!r} is not a name")
    return name


def _operator(name: str) -> Any:
    try:
        namespace, *path = ir.overload_path(name)
        found = reduce(getattr, path, torch_operators(namespace))
    except (AttributeError, RuntimeError) as error:
        raise _missing(f"operator {name}") from error
    if not is_overload(found):
        raise _missing(f"operator {name}")
    return found


def _missing(what: str) -> SavedGraphError:
    return SavedGraphError(
        "FX204",
        f"torch has no {what} here",
        hint="import the library that registers it before loading the graph",
    )
