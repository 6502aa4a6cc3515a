"""The IR reference: everything in it comes from docstrings, annotations and defaults of the model's classes."""

from __future__ import annotations

import dataclasses
import pkgutil
from importlib import import_module

import wrapper_ir.ir.ops
from tools.docs.classes import attribute_docs, class_section, default_text, defined_classes, docstring, table
from wrapper_ir import ir
from wrapper_ir.expr import OPERATORS

_HEAD = """# IR reference

Written by `make docs` from the docstrings of `packages/wrapper_ir`; edit those, not this page.

[Concepts](concepts.md) tells the story; this page is for looking things up. Roles of fields: a *result* is a value
that the op defines, an *operand* one that it uses, *arguments* may hold both values and expressions in any nesting,
an *expression* is evaluated when the op runs, and *data* is everything else.
"""


def ir_reference() -> str:
    """The page's text; deterministic."""
    lines = _HEAD.splitlines()
    lines += ["", *contents(), ""]
    lines += ["## Program", "", *module_section("wrapper_ir.ir.program")]
    lines += ["## Types", "", docstring(import_module("wrapper_ir.ir.types")), "", *types()]
    lines += ["## Ops", "", docstring(wrapper_ir.ir.ops), "", *ops()]
    lines += ["## Effects", "", docstring(import_module("wrapper_ir.ir.ops.effects")), "", *effects()]
    lines += ["## Expressions", "", docstring(import_module("wrapper_ir.expr.base")), "", *expressions()]
    lines += ["## Kernels", "", docstring(import_module("wrapper_ir.ir.kernels")), ""]
    lines += module_section("wrapper_ir.ir.kernels")
    lines += ["## Operators", "", docstring(import_module("wrapper_ir.ir.schemas")), ""]
    lines += module_section("wrapper_ir.ir.schemas")
    lines += ["## Signature", "", docstring(import_module("wrapper_ir.ir.signature")), ""]
    lines += module_section("wrapper_ir.ir.signature")
    lines += ["## Artifact", "", docstring(import_module("wrapper_ir.artifact.model")), ""]
    lines += module_section("wrapper_ir.artifact.model")
    return "\n".join(lines).rstrip() + "\n"


def families() -> list[str]:
    """Modules of ops, in the order in which the union names their first op."""
    order = list(dict.fromkeys(cls.__module__ for cls in ir.OPS))
    listed = {f"wrapper_ir.ir.ops.{m.name}" for m in pkgutil.iter_modules(wrapper_ir.ir.ops.__path__)}
    assert set(order) <= listed
    return order


def contents() -> list[str]:
    """The op families with links."""
    rows = []
    for family in families():
        names = [c.__name__ for c in ir.OPS if c.__module__ == family]
        rows.append((family.rpartition(".")[2], ", ".join(f"[{n}](#{n.lower()})" for n in names)))
    return table(("family", "ops"), rows)


def module_section(module: str) -> list[str]:
    """All public classes of a module."""
    return [line for cls in defined_classes(module) for line in class_section(cls, 3)]


def types() -> list[str]:
    """The type classes, and dtypes with their sizes."""
    dtypes = table(
        ("dtype", "torch", "bytes"),
        ((f"`{d.value}`", f"`{d.torch_name}`", str(d.itemsize)) for d in ir.DType),
    )
    lines = ["### DType", "", docstring(ir.DType), "", *dtypes, ""]
    for cls in defined_classes("wrapper_ir.ir.types"):
        if cls is not ir.DType:
            lines += class_section(cls, 3)
    return lines


def ops() -> list[str]:
    """Every op by family, with the classes that its fields use."""
    lines: list[str] = []
    for family in families():
        lines += [f"### {family.rpartition('.')[2]}", "", docstring(import_module(family)), ""]
        for cls in defined_classes(family):
            lines += op_section(cls) if issubclass(cls, ir.OpBase) else class_section(cls, 4)
    return [*lines, "Every op also has `prov`:", "", *class_section(ir.Provenance, 4)]


def op_section(cls: type[ir.OpBase]) -> list[str]:
    """An op: its docstring, and its fields with their roles."""
    roles = {f.name: f.role.value for f in ir.op_spec(cls).fields}
    rows = [
        (f"`{f.name}`", roles[f.name], f"`{f.type}`", default_text(f))
        for f in dataclasses.fields(cls)
        if f.name in roles
    ]
    return [
        f"#### {cls.__name__}",
        "",
        docstring(cls),
        "",
        *table(("field", "role", "type", "default"), rows),
        "",
    ]


def effects() -> list[str]:
    """Lists the effects of an op."""
    docs = attribute_docs(ir.Effects)
    rows = [(f"`{name}`", docs.get(name, "")) for name in ir.Effects._fields]
    return [*table(("part", "meaning"), rows), "", *class_section(ir.EffectClass, 3)]


def expressions() -> list[str]:
    """Nodes with their text, and the operators."""
    rows = [(f"`{cls.__name__}`", docstring(cls).replace("\n", " ")) for cls in ir.NODE_TYPES]
    lines = [*table(("node", "meaning and text"), rows), ""]
    operators = [(f"`{op.name}`", op.doc, f"`{op.cpp.template}`") for op in OPERATORS.rows]
    return [*lines, *table(("operator", "meaning and text", "C++"), operators), ""]
