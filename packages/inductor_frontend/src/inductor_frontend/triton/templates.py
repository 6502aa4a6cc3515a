"""Merges instances of one template. Inductor generates a kernel for each; here they are one kernel with
several configs.

Instances differ in constants at the head of the function, and in warps and stages.
"""

from __future__ import annotations

import ast
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

from inductor_frontend.triton.definition import TritonDefinition
from inductor_frontend.triton.source import constant_value, kernel_constant
from wrapper_ir import ir
from wrapper_ir.expr import Expr, Int, Sym
from wrapper_ir.support.python_syntax import parse_module

TEMPLATE = "template"
"""Inductor's name of the heuristic of templates, each of which has one config."""

_HEADER = re.compile(r"\)\s*:\s*$")


@dataclass(frozen=True, slots=True)
class _Instance:
    """The parsed text of a kernel.

    Of its `lines`, number `header` begins the function. `head` has, by name, the line and value of each
    constant defined at the head of the function.
    """

    lines: tuple[str, ...]
    header: int
    head: Mapping[str, tuple[int, ir.ConstantValue]]

    def rest(self, entry: str) -> str:
        """Returns the text that instances of one template share, except names of their constants."""
        head = {number for number, _ in self.head.values()}
        text = "\n".join(line for number, line in enumerate(self.lines) if number not in head)
        return re.sub(rf"\b{re.escape(entry)}\b", "entry", text)

    def opened(self, names: Sequence[str]) -> str:
        """Returns the text with these constants as parameters of the function."""
        numbers = {self.head[name][0] for name in names}
        lines = [line for number, line in enumerate(self.lines) if number not in numbers]
        more = "".join(f", {name} : tl.constexpr" for name in names)
        lines[self.header] = _HEADER.sub(f"{more}):", lines[self.header])
        return "\n".join(lines) + "\n"


def _instance(definition: TritonDefinition) -> _Instance | None:
    """Parses a kernel; None if it does not have the form of Inductor's templates."""
    kernel = definition.kernel
    module = parse_module(kernel.source)
    function = next(s for s in module.body if isinstance(s, ast.FunctionDef) and s.name == kernel.entry)
    lines = tuple(kernel.source.splitlines())
    if not _HEADER.search(lines[function.lineno - 1]):
        return None
    head: dict[str, tuple[int, ir.ConstantValue]] = {}
    for statement in function.body:
        match statement:
            case ast.AnnAssign(target=ast.Name(name), value=ast.expr() as value) if (
                ast.unparse(statement.annotation) == "tl.constexpr"
            ):
                constant = kernel_constant(kernel.name, name, constant_value(kernel.name, value))
                head[name] = (statement.lineno - 1, constant)
            case _:
                break
    return _Instance(lines, function.lineno - 1, head)


def merged_instances(
    definitions: Sequence[TritonDefinition],
) -> list[tuple[TritonDefinition, tuple[int, ...]]]:
    """Merges definitions that are instances of one template, which are called like the first of them.

    Returns each definition with the positions of its configs among `definitions`. A config has the grid of
    Inductor's call for it, as numbers of the launch.
    """
    groups: dict[object, list[tuple[int, _Instance]]] = {}
    for position, definition in enumerate(definitions):
        instance = _instance(definition)
        same = replace(
            definition, kernel=replace(definition.kernel, name="", source="", entry="", configs=())
        )
        key = (
            position
            if instance is None
            else (instance.rest(definition.kernel.entry), tuple(instance.head), same)
        )
        groups.setdefault(repr(key), []).append((position, instance or _Instance((), 0, {})))
    return [
        (_merged([(definitions[i], instance) for i, instance in group]), tuple(i for i, _ in group))
        for group in groups.values()
    ]


def _merged(group: Sequence[tuple[TritonDefinition, _Instance]]) -> TritonDefinition:
    """Merges a group; the first config is that of the first definition."""
    first, opened = group[0]
    values = {name: [instance.head[name][1] for _, instance in group] for name in opened.head}
    names = [
        name
        for name, choices in values.items()
        if any((type(v), v) != (type(choices[0]), choices[0]) for v in choices)
    ]
    width = len(first.kernel.grid_params)
    configs: list[ir.TritonConfig] = []
    for i, (definition, _) in enumerate(group):
        (config,) = definition.kernel.configs
        meta = tuple((name, values[name][i]) for name in names)
        grid = tuple(Sym(f"grid_{i * width + j}") for j in range(width))
        configs.append(replace(config, meta=(*config.meta, *meta), grid=grid))
    kernel = replace(
        first.kernel,
        source=opened.opened(names) if names else first.kernel.source,
        order=(*first.kernel.order, *names),
        configs=tuple(configs),
        grid=configs[0].grid,
        grid_params=tuple(f"grid_{i}" for i in range(width * len(group))),
    )
    return replace(first, kernel=kernel)


def with_grid(definition: TritonDefinition, numbers: Sequence[Expr]) -> tuple[TritonDefinition, list[Expr]]:
    """Returns the definition for a launch whose grid has these numbers, and the numbers that remain
    arguments.

    Constant numbers become part of the definition. Equal numbers are merged, and so are configs that become
    equal.
    """
    names: dict[Expr, str] = {}
    substitutions: dict[Expr, Expr] = {}
    for name, number in zip(definition.kernel.grid_params, numbers, strict=True):
        substitutions[Sym(name)] = number if isinstance(number, Int) else Sym(names.setdefault(number, name))
    configs = (
        replace(c, grid=tuple(substitutions.get(g, g) for g in c.grid)) for c in definition.kernel.configs
    )
    kernel = replace(
        definition.kernel,
        configs=tuple(dict.fromkeys(configs)),
        grid=tuple(substitutions.get(g, g) for g in definition.kernel.grid),
        grid_params=tuple(names.values()),
    )
    return replace(definition, kernel=kernel), list(names)
