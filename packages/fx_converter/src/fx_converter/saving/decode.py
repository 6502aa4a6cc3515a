"""Graphs from JSON. Reading a graph calls none of its targets."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping
from functools import reduce
from typing import Any, TypeAlias, cast

import torch
from torch import fx

from fx_converter import targets
from fx_converter._compat import new_graph, operands_of
from fx_converter.errors import SavedGraphError
from fx_converter.graph.metadata import FakeValues
from fx_converter.nodes import Argument, Number, Target
from fx_converter.saving.bounds import WindowBounds, refuse_rebinding
from fx_converter.saving.encode import META
from fx_converter.saving.functions import FUNCTIONS_BY_NAME
from wrapper_ir import ir
from wrapper_ir.expr import Expr, Int
from wrapper_ir.operators.policy import DEFAULT_OPERATORS, OperatorPolicy, refused
from wrapper_ir_torch import DTYPE_OF, DTYPES, OpOverload, is_overload, torch_operators

Json: TypeAlias = Any
"""Any: parsed JSON; a shape that does not match raises an error, which the caller codes."""
_OPS = ("placeholder", "get_attr", "call_function", "call_module", "output")
_DTYPES = {str(dtype).removeprefix("torch."): dtype for dtype in DTYPES.values()}
_CONSTANTS: Mapping[str, torch.dtype | torch.layout | torch.memory_format] = {
    **_DTYPES,
    # torch's names
    **{
        member.value: getattr(torch, member.value) for kind in (ir.Layout, ir.MemoryFormat) for member in kind
    },
}

_SET = "aten::set_.source_Tensor"
_CONTROL = frozenset(("cond", "invoke_subgraph", "while_loop", "while_loop_stack_output"))
"""Operators of control flow: they run graphs of the same file, whose operators are checked, too."""


class GraphReader:
    """Reads one graph, whose module has these attributes; `kernel(hash, form)` returns the call target of a
    kernel.

    Raises SavedGraphError FX202 for text that is not a graph, FX204 for an operator that this process does
    not have, FX205 for one that replaces memory, and for a window outside of it, and NotSupportedError WIR917
    for one that `operators` refuses.
    """

    def __init__(
        self,
        kernel: Callable[[str, str], Target],
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

    def read(self, nodes: list[Json]) -> fx.Graph:
        """Returns the graph of these nodes."""
        for node in nodes:
            self._read(node)
        if not nodes or nodes[-1]["op"] != "output":
            raise SavedGraphError("FX202", "a graph does not end with its output")
        self.graph.lint()
        return self.graph

    def _read(self, entry: Json) -> None:
        op = entry["op"]
        if op not in _OPS:
            raise SavedGraphError("FX202", f"no node is a {op!r}")
        node = self.graph.create_node(
            op,
            self._target(entry["target"]) if op == "call_function" else self._name(entry["target"], op),
            tuple(self._argument(arg) for arg in entry["args"]),
            {_identifier(name): self._argument(arg) for name, arg in entry["kwargs"].items()},
            name=entry["name"],
        )
        if operands_of(node.target) not in (None, len(node.args)):
            raise SavedGraphError("FX202", f"{entry['name']!r} has {len(node.args)} operands")
        if node.name != entry["name"]:
            raise SavedGraphError("FX202", f"two nodes are named {entry['name']!r}, or it is not a name")
        for key, value in entry["meta"].items():
            if key in META:
                node.meta[key] = tuple(value) if isinstance(value, list) else value
        if "val" in entry:
            node.meta["val"] = self._value(entry["val"])
        self._bounds.check(node)
        self._nodes[node.name] = node

    def _name(self, name: str, op: str) -> str:
        """Checks the target of a node that calls no function. Names become source code."""
        if op not in ("get_attr", "call_module"):
            return _identifier(name)
        if name not in self._attributes:
            raise SavedGraphError("FX202", f"the graph has no attribute {name!r}")
        return ".".join(
            part if part.isascii() and part.isdecimal() else _identifier(part) for part in name.split(".")
        )

    # --- what is called

    def _target(self, entry: Mapping[str, str]) -> Target:
        match entry:
            case {"kernel": hash, "form": form}:
                return self._kernel(hash, form)
            case {"operator": name}:
                return self._operator(name)
            case {"higher_order": name}:
                operator = getattr(torch.ops.higher_order, name, None)  # operators are found by name
                if not isinstance(operator, torch._ops.HigherOrderOperator):
                    raise _missing(f"higher-order operator {name}")
                if name not in _CONTROL:
                    self._check_policy(f"higher_order::{name}")
                return operator
            case {"function": name} if name in FUNCTIONS_BY_NAME:
                return FUNCTIONS_BY_NAME[name]
            case _:
                raise SavedGraphError("FX202", f"nothing can be called by {dict(entry)}")

    def _operator(self, name: str) -> Target:
        self._check_policy(name)
        if name == _SET:  # as torch's tracing writes `targets.set_storage`
            return targets.set_like
        refuse_rebinding(name, self._place())
        return _operator(name)

    def _check_policy(self, name: str) -> None:
        """Raises NotSupportedError WIR917 for an operator that the graph may not call."""
        if reason := self._operators.refusal(name):
            raise refused(name, reason, self._place())

    def _place(self) -> str:
        return f"the graph calls it after {len(self._nodes)} nodes"

    def _argument(self, entry: Json) -> Argument:
        if isinstance(entry, list):
            return [self._argument(item) for item in entry]
        if not isinstance(entry, dict):
            constant: Argument = entry
            return constant
        ((kind, value),) = entry.items()
        match kind:
            case "node":
                return self._nodes[value]
            case "float":
                return float(value)
            case "complex":
                return complex(float(value[0]), float(value[1]))
            case "tuple":
                return tuple(self._argument(item) for item in value)
            case "dict":
                table: dict[Any, Argument] = {self._argument(k): self._argument(v) for k, v in value}
                return table
            case "slice":
                return slice(*(self._argument(part) for part in value))
            case "torch":
                return _CONSTANTS[value]
            case "device":
                return torch.device(value)
            case "operator":
                return cast("OpOverload", self._operator(value))  # of a higher-order operator that runs it
            case _:
                raise SavedGraphError("FX202", f"no argument is a {kind!r}")

    # --- fake values

    def _value(self, entry: Json) -> object:
        match entry:
            case {"dtype": dtype, "device": device, "sizes": sizes, "strides": strides}:
                return self._tensor(DTYPE_OF[_DTYPES[dtype]], device, sizes, strides)
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

    def _tensor(self, dtype: ir.DType, device: str, sizes: list[Json], strides: list[Json]) -> object:
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

    def _expr(self, entry: Json) -> Expr:
        if type(entry) is int:
            return Int(entry)
        text = entry["expr"] if isinstance(entry, dict) else str(entry)
        if text not in self._exprs:
            self._exprs[text] = ir.parse_expr(text, self._fakes.kinds)
        return self._exprs[text]

    def _number(self, entry: Json) -> Number:
        if isinstance(entry, str):
            return float(entry)
        number: Number = self._fakes.number(self._expr(entry)) if isinstance(entry, dict) else entry
        return number


def _identifier(name: object) -> str:
    """Checks that a name is a Python identifier, because it becomes source code."""
    if not (isinstance(name, str) and name.isidentifier()):
        raise SavedGraphError("FX202", f"{name!r} is not a name")
    return name


def _operator(name: str) -> OpOverload:
    try:
        namespace, *path = ir.overload_path(name)
        operator = reduce(getattr, path, torch_operators(namespace))
    except (AttributeError, RuntimeError) as error:
        raise _missing(f"operator {name}") from error
    if not is_overload(operator):
        raise _missing(f"operator {name}")
    return operator


def _missing(what: str) -> SavedGraphError:
    return SavedGraphError(
        "FX204",
        f"torch has no {what} here",
        hint="import the library that registers it before loading the graph",
    )
