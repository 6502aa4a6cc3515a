"""Splits the text of Inductor's kernel into plain source and the heuristic that decorates it."""

from __future__ import annotations

import ast
import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from torch._inductor.runtime import hints

from inductor_frontend.errors import ConversionError
from wrapper_ir import ir
from wrapper_ir.support.python_syntax import parse_module

# Any in this file: a heuristic's arguments are numbers, strings, enumerations, and nested dictionaries of
# them.

_SETUP = ("set_driver_to_cpu", "set_driver_to_gpu")
"""Calls of Inductor's modules at import, which select a driver; here the runtime selects it."""

_ONLY_HEURISTICS = ("triton_heuristics", "AutotuneHint", "ReductionHint", "TileHint", "DeviceProperties")


_GENERATED = "triton_"
_NUMBER = re.compile(r"_\d+$")
"""Inductor numbers the kernels of a program and their functions. A function without its number is equal in
all programs, and so is its compiled code."""


@dataclass(frozen=True, slots=True)
class KernelSource:
    """A kernel's module without the parts that only Inductor's autotuner reads.

    `order` are the function's parameters. The compiler knows `constexprs`, and `defaults` have default
    values. `heuristic` and `arguments` describe the call that decorated the function.
    """

    text: str
    entry: str
    order: tuple[str, ...]
    constexprs: frozenset[str]
    defaults: Mapping[str, Any]
    heuristic: str
    arguments: Mapping[str, Any]


def read_source(name: str, text: str) -> KernelSource:
    """Parses a module whose function is decorated by `triton_heuristics.<kind>(...)` and then by
    `triton.jit`.

    Raises ConversionError FE303.
    """
    module = _parsed(name, text)
    function = _function(name, module)
    call = _heuristic(name, function)
    removed = _lines(call)
    statements: list[ast.stmt] = []
    for statement in module.body:
        if _is_setup(statement):
            removed |= _lines(statement)
        elif isinstance(statement, ast.Import | ast.ImportFrom):
            removed |= _lines(statement)  # added again below, for the names that are used
        else:
            statements.append(statement)
    assert isinstance(call.func, ast.Attribute)
    lines = text.splitlines()
    entry = _NUMBER.sub("", function.name) if function.name.startswith(_GENERATED) else function.name
    place = function.lineno - 1
    lines[place] = lines[place].replace(function.name, entry, 1)
    body = "\n".join(line for number, line in enumerate(lines, 1) if number not in removed)
    return KernelSource(
        text=f"{_imports(module, _names(statements, call))}\n{body.strip()}\n",
        entry=entry,
        order=tuple(a.arg for a in function.args.args),
        constexprs=frozenset(a.arg for a in function.args.args if _is_constexpr(a)),
        defaults=_defaults(name, function),
        heuristic=call.func.attr,
        arguments={k.arg: constant_value(name, k.value) for k in call.keywords if k.arg is not None},
    )


def _parsed(name: str, text: str) -> ast.Module:
    try:
        return parse_module(text)
    except SyntaxError as error:  # Inductor writes the repr of a constant, which need not be Python
        line = (error.text or "").strip()
        raise ConversionError(
            "FE303",
            f"kernel {name}: {line[:80]!r} is not Python",
            hint="pass constants of kernels as numbers, strings, element types or tuples of them",
        ) from error


def _function(name: str, module: ast.Module) -> ast.FunctionDef:
    functions = [s for s in module.body if isinstance(s, ast.FunctionDef) and len(s.decorator_list) == 2]
    if len(functions) != 1:
        raise ConversionError("FE303", f"kernel {name}: its module has {len(functions)} decorated functions")
    return functions[0]


def _heuristic(name: str, function: ast.FunctionDef) -> ast.Call:
    call = function.decorator_list[0]
    if (
        isinstance(call, ast.Call)
        and isinstance(call.func, ast.Attribute)
        and ast.unparse(call.func.value) == "triton_heuristics"
        and not call.args
    ):
        return call
    raise ConversionError("FE303", f"kernel {name} is decorated by {ast.unparse(call)[:80]!r}")


def _is_constexpr(parameter: ast.arg) -> bool:
    return parameter.annotation is not None and "constexpr" in ast.unparse(parameter.annotation)


def _defaults(name: str, function: ast.FunctionDef) -> dict[str, object]:
    values = function.args.defaults
    parameters = function.args.args[len(function.args.args) - len(values) :]
    return {p.arg: constant_value(name, v) for p, v in zip(parameters, values, strict=True)}


def _lines(node: ast.stmt | ast.expr) -> set[int]:
    assert node.end_lineno is not None
    return set(range(node.lineno, node.end_lineno + 1))


def _is_setup(statement: ast.stmt) -> bool:
    match statement:
        case ast.Expr(value=ast.Call(func=ast.Attribute(value=ast.Name("triton_helpers"), attr=attr))):
            return attr in _SETUP
        case _:
            return False


def _names(statements: list[ast.stmt], call: ast.Call) -> set[str]:
    """Returns the names that the remaining statements use."""
    inside = {id(n) for n in ast.walk(call)}
    nodes = (n for s in statements for n in ast.walk(s) if id(n) not in inside)
    return {n.id for n in nodes if isinstance(n, ast.Name)}


def _imports(module: ast.Module, names_in_use: set[str]) -> str:
    """Returns the import statements of the names that are used, in order."""
    lines = []
    for statement in module.body:
        if not isinstance(statement, ast.Import | ast.ImportFrom):
            continue
        names = [a for a in statement.names if (a.asname or a.name.split(".")[0]) in names_in_use]
        names = [a for a in names if a.name not in _ONLY_HEURISTICS]
        if names:
            imported = ", ".join(a.name if a.asname is None else f"{a.name} as {a.asname}" for a in names)
            origin = f"from {statement.module} " if isinstance(statement, ast.ImportFrom) else ""
            lines.append(f"{origin}import {imported}")
    return "".join(f"{line}\n" for line in lines)


def _dtype(kernel: str, name: str) -> ir.DType:
    """Returns an element type by Triton's name."""
    torch_name = {"int1": "bool", "float8e4nv": "float8_e4m3fn", "float8e5": "float8_e5m2"}.get(name, name)
    for dtype in ir.DType:
        if dtype.torch_name == torch_name:
            return dtype
    raise ConversionError("FE303", f"kernel {kernel}: a constant is tl.{name}, which is not an element type")


def kernel_constant(kernel: str, name: str, value: object) -> ir.ConstantValue:
    """Returns a value that a kernel is specialized for. Raises ConversionError FE303 for a value without a
    typed form."""
    fault = ir.constant_fault(value)
    if fault is not None:
        raise ConversionError(
            "FE303",
            f"kernel {kernel}: {name} = {value!r} holds a {fault}, which has no typed form",
            hint="pass a number, a string, an element type, None, or a tuple of them without nested tuples",
        )
    constant: Any = value  # Any: narrowed by `constant_fault`
    return constant  # type: ignore[no-any-return]  # `constant_fault` has checked it


def constant_value(name: str, node: ast.expr) -> Any:
    """Evaluates an argument: a literal, an enumeration of Inductor, or the properties of a device."""
    match node:
        case ast.Constant():
            return node.value
        case ast.Dict():
            keys = [constant_value(name, k) for k in node.keys if k is not None]
            return dict(zip(keys, (constant_value(name, v) for v in node.values), strict=True))
        case ast.List() | ast.Tuple():
            items = [constant_value(name, v) for v in node.elts]
            return items if isinstance(node, ast.List) else tuple(items)
        case ast.Set():
            return {constant_value(name, v) for v in node.elts}
        case ast.UnaryOp(op=ast.USub()):
            return -constant_value(name, node.operand)
        case ast.Call(func=ast.Name("set"), args=[], keywords=[]):
            return set()
        case ast.Call(func=ast.Name("float"), args=[ast.Constant(value)], keywords=[]):
            return float(str(value))
        case ast.Attribute(
            value=ast.Name("tl") | ast.Attribute(value=ast.Name("triton"), attr="language"), attr=dtype
        ):
            return _dtype(name, dtype)
        case ast.Name("inf" | "nan" as number):
            return float(number)
        case ast.Name("__file__"):
            return ""
        case ast.Call(func=ast.Name("DeviceProperties"), args=[]):
            return hints.DeviceProperties(
                **{str(k.arg): constant_value(name, k.value) for k in node.keywords}
            )
        case ast.Call(func=ast.Name("AttrsDescriptor" | "AttrsDescriptorWrapper")):
            make: Any = hints.AttrsDescriptorWrapper
            return make(**{str(k.arg): constant_value(name, k.value) for k in node.keywords})
        case ast.Attribute(value=ast.Name(enum), attr=member) if enum in _ONLY_HEURISTICS:
            return getattr(getattr(hints, enum), member)
        case _:
            raise ConversionError(
                "FE303", f"kernel {name}: cannot read {ast.unparse(node)[:80]!r} in its heuristic"
            )
