"""Parses the text guards of an exported program, and finds the source of each symbol.

A program that was saved and loaded has its guards only as text, in terms of its inputs.
"""

from __future__ import annotations

import ast
import operator
import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from itertools import product
from types import MappingProxyType
from typing import Any

import sympy
import torch
from torch import fx
from torch.export import ExportedProgram
from torch.export.graph_signature import InputKind
from torch.utils import _pytree as pytree
from torch.utils._sympy import functions

from inductor_frontend.errors import CaptureError
from inductor_frontend.torch_patches._compat import detect_shape_env, guard_texts
from inductor_frontend.torch_patches.symbol_facts import symbol_hint
from wrapper_ir.support.python_syntax import parse_expression

_NUMBERED = re.compile(r"(.+)_(\d+)")
_PLACE = re.compile(r"(?P<input>.+)\.(?P<what>size|stride)\(\)\[(?P<dim>\d+)\]")

_BASE_NUMBER = re.compile(r".+\._base\.(?:(?:size|stride)\(\)\[\d+\]|storage_offset\(\))")

# Any in this file: fake tensors and numbers, sympy objects and tuples of them; the text determines the type.
_BINARY: Mapping[type[ast.operator], Callable[[object, object], object]] = MappingProxyType(
    {
        ast.Add: operator.add,
        ast.Sub: operator.sub,
        ast.Mult: operator.mul,
        ast.Pow: operator.pow,
        ast.FloorDiv: functions.FloorDiv,
        ast.Mod: functions.PythonMod,
        ast.Div: functions.FloatTrueDiv,
    }
)
_COMPARE: Mapping[type[ast.cmpop], Callable[[object, object], object]] = MappingProxyType(
    {
        ast.Eq: sympy.Eq,
        ast.NotEq: sympy.Ne,
        ast.Lt: sympy.Lt,
        ast.LtE: sympy.Le,
        ast.Gt: sympy.Gt,
        ast.GtE: sympy.Ge,
    }
)
_CALLS: Mapping[str, Callable[..., object]] = MappingProxyType(
    {
        "max": functions.Max,
        "min": functions.Min,
        "torch.sym_max": functions.Max,
        "torch.sym_min": functions.Min,
        "abs": sympy.Abs,
        "math.floor": functions.FloorToInt,
        "math.ceil": functions.CeilToInt,
        "math.trunc": functions.TruncToInt,
    }
)


@dataclass(frozen=True, slots=True)
class InputPlace:
    """A size or stride of an input: `what` is "size" or "stride"."""

    input: str
    what: str
    dim: int


def symbol_places(exported: ExportedProgram) -> dict[str, InputPlace]:
    """Maps each symbol name to the input size or stride that it comes from, including replaced symbols."""
    names = {text: node.name for text, node in _inputs(exported).items()}
    env = detect_shape_env([n.meta.get("val") for n in exported.graph.nodes])
    places: dict[str, InputPlace] = {}
    for symbol, sources in ({} if env is None else env.var_to_sources).items():
        for source in sources:
            match = _PLACE.fullmatch(source.name)
            if match and match["input"] in names:
                places[symbol.name] = InputPlace(names[match["input"]], match["what"], int(match["dim"]))
    return places


def text_guards(exported: ExportedProgram) -> list[sympy.Basic]:
    """Parses the text guards of a program, such as `L['x'].size()[0] % 6 == 0`, to conditions over its
    symbols.

    Raises CaptureError FE101 for a guard that cannot be parsed.
    """
    texts = guard_texts(exported)
    inputs = {t: n.meta.get("val") for t, n in _inputs(exported).items()} if texts else {}
    numbers = _base_numbers(exported) if any("._base." in t for t in texts) else {}
    conditions: list[sympy.Basic] = []
    for text in texts:
        if unknown := _of_bases(text) - {_normal(t) for t in numbers}:
            conditions += _for_any_symbol(text, sorted(unknown), inputs, numbers)
        else:
            conditions.append(_Reader(inputs, numbers).condition(text))
    return conditions


def _of_bases(text: str) -> set[str]:
    """Returns the numbers in a guard that are read from the bases of inputs."""
    numbers = (n for n in ast.walk(parse_expression(text)) if isinstance(n, ast.Subscript | ast.Call))
    return {t for t in map(ast.unparse, numbers) if _BASE_NUMBER.fullmatch(t)}


def _for_any_symbol(
    text: str, unknown: list[str], inputs: Mapping[str, Any], numbers: Mapping[str, sympy.Basic]
) -> list[sympy.Basic]:
    """Returns the guard for each possible assignment of symbols to the unknown numbers.

    A saved program does not store the symbols of these numbers. For the right symbols, the guard was
    satisfied by the traced sizes, so only such assignments are returned. If there are none, no input depends
    on the guard.
    """
    env = detect_shape_env(list(inputs.values()))
    tensors = [x for x in inputs.values() if isinstance(x, torch.Tensor) and x.layout is torch.strided]
    layouts = [n for x in tensors for n in (*x.size(), *x.stride(), x.storage_offset())]
    symbols = (
        {} if env is None else {s: symbol_hint(env, s) for n in layouts for s in _number(n).free_symbols}
    )
    conditions: dict[sympy.Basic, None] = {}
    for assignment in product(sorted(symbols, key=str), repeat=len(unknown)):
        condition = _Reader(inputs, {**numbers, **dict(zip(unknown, assignment))}).condition(text)
        if condition.subs(symbols) == sympy.true:
            conditions[condition] = None
    return list(conditions)


def _base_numbers(exported: ExportedProgram) -> dict[str, sympy.Basic]:
    """Returns sizes and strides of the bases of inputs, by their text. Most of these symbols are strides of
    inputs.

    Empty for a program that was saved and loaded.
    """
    env = detect_shape_env([n.meta.get("val") for n in exported.graph.nodes])
    if env is None:
        return {}
    return {
        s.name: env.replace(symbol)
        for symbol, origins in env.var_to_sources.items()
        for s in origins
        if "._base." in s.name
    }


def _inputs(exported: ExportedProgram) -> dict[str, fx.Node]:
    """Returns the inputs by their text in guards: `L['x']`, `L['pair'][0]`."""
    nodes = {n.name: n for n in exported.graph.nodes if n.op == "placeholder"}
    specs = [s for s in exported.graph_signature.input_specs if s.kind is InputKind.USER_INPUT]
    assert exported.call_spec.in_spec is not None
    leaves: Any = pytree.tree_unflatten(list(range(len(specs))), exported.call_spec.in_spec)
    args, kwargs = leaves
    signature = exported.module_call_graph[0].signature
    names = (signature.forward_arg_names if signature is not None else None) or [s.arg.name for s in specs]
    by_text: dict[str, fx.Node] = {}
    for path, leaf in pytree.tree_flatten_with_path({**dict(zip(names, args)), **kwargs})[0]:
        node = nodes[specs[leaf].arg.name]
        by_text[f"L{pytree.keystr(path)}"] = node
        numbered = _NUMBERED.fullmatch(pytree.keystr(path[:1])[2:-2])  # one of *args
        if numbered:
            by_text[f"L['{numbered[1]}'][{numbered[2]}]{pytree.keystr(path[1:])}"] = node
    for index, spec in enumerate(specs):
        by_text[f"L['flat_args'][{index}]"] = nodes[spec.arg.name]
    return by_text


class _Reader:
    """Parses guards over inputs."""

    def __init__(self, inputs: Mapping[str, Any], numbers: Mapping[str, sympy.Basic]) -> None:
        self._inputs = {_normal(text): value for text, value in inputs.items()}
        self._numbers = {_normal(text): value for text, value in numbers.items()}

    def condition(self, text: str) -> sympy.Basic:
        """Parses one guard. Raises CaptureError FE101."""
        try:
            condition: sympy.Basic = self._read(parse_expression(text))
        except (KeyError, TypeError, ValueError, SyntaxError, AttributeError) as error:
            raise CaptureError(
                "FE101",
                f"the guard {text!r} of the exported program cannot be read: {error!r}",
                hint="capture the model itself, or export it again",
            ) from error
        return condition

    def _read(self, node: ast.expr) -> Any:
        number = self._numbers.get(ast.unparse(node)) if self._numbers else None
        if number is not None:
            return number
        match node:
            case ast.Constant(value=value):
                return sympy.sympify(value)
            case ast.BinOp(left=left, op=op, right=right):
                return _BINARY[type(op)](self._read(left), self._read(right))
            case ast.UnaryOp(op=ast.USub(), operand=operand):
                return -self._read(operand)
            case ast.UnaryOp(op=ast.Not(), operand=operand):
                return sympy.Not(self._read(operand))
            case ast.BoolOp(op=op, values=values):
                return (sympy.And if isinstance(op, ast.And) else sympy.Or)(*map(self._read, values))
            case ast.Compare(left=left, ops=ops, comparators=others):
                sides = [self._read(left), *map(self._read, others)]
                return sympy.And(*(_COMPARE[type(op)](a, b) for op, a, b in zip(ops, sides, sides[1:])))
            case ast.Call(func=ast.Attribute(value=source, attr=name), args=[]):
                return getattr(self._inputs[ast.unparse(source)], name)()  # size, stride, storage_offset
            case ast.Call(func=func, args=args):
                return _CALLS[ast.unparse(func)](*map(self._read, args))
            case ast.Subscript(value=ast.Call() as call, slice=ast.Constant(value=int(index))):
                return _number(self._read(call)[index])
            case _:
                return _number(self._inputs[ast.unparse(node)])


def _normal(text: str) -> str:
    return ast.unparse(parse_expression(text))


def _number(value: Any) -> Any:
    return value.node.expr if isinstance(value, torch.SymInt | torch.SymFloat) else sympy.sympify(value)
