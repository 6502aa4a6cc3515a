"""Gives the symbols of a program other names."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping
from typing import Any

from wrapper_ir import ir
from wrapper_ir.expr import Expr, Sym, substitute


def rename_symbols(program: ir.Program, names: Mapping[str, str]) -> ir.Program:
    """Returns the program with the symbols in `names` (old name to new) renamed, all at once, so that names
    can be exchanged.

    Expressions keep their form. A new name that another symbol has makes the program invalid (WIR005).

    Not a pass of pipelines, which keep names that a user can refer to.
    """
    kinds = {s.name: s.kind for s in program.symbols}
    renamed = {old: new for old, new in names.items() if old in kinds and old != new}
    if not renamed:
        return program
    rewriter = _Rewriter(renamed, {old: Sym(new, kinds[old]) for old, new in renamed.items()})
    return dataclasses.replace(
        program,
        symbols=tuple(dataclasses.replace(s, name=renamed.get(s.name, s.name)) for s in program.symbols),
        constants=tuple(dataclasses.replace(c, value=rewriter.value(c.value)) for c in program.constants),
        functions=tuple(rewriter.function(f) for f in program.functions),
    )


class _Rewriter:
    def __init__(self, names: Mapping[str, str], symbols: Mapping[str | Expr, Expr]) -> None:
        self._names = names
        self._symbols = symbols
        self._values: dict[ir.Value, ir.Value] = {}

    def function(self, function: ir.Function) -> ir.Function:
        return dataclasses.replace(
            ir.map_function(function.with_body(map(self._op, function.body)), self.value, self._expr),
            captures=tuple(self._names.get(name, name) for name in function.captures),
        )

    def value(self, value: ir.Value) -> ir.Value:
        new = self._values.get(value)
        if new is None:
            new = self._values[value] = ir.Value(value.name, self._type(value.type))
        return new

    def _op(self, op: ir.Op) -> ir.Op:
        """The op with the symbols that it names itself."""
        fields = ir.op_spec(type(op)).of_role(ir.Role.SYMBOL)
        changes: dict[str, Any] = {
            f.name: self._names.get(name, name) for f in fields if isinstance(name := f.get(op), str)
        }  # Any: names
        return dataclasses.replace(op, **changes) if changes else op

    def _expr(self, expr: Expr) -> Expr:
        return ir.map_expr_values(substitute(expr, self._symbols, simplify=False), self.value)

    def _type(self, type: ir.Type) -> ir.Type:
        match type:
            case ir.TensorType():
                return dataclasses.replace(
                    type, sizes=self._exprs(type.sizes), strides=self._exprs(type.strides)
                )
            case ir.StorageType():
                return dataclasses.replace(type, nbytes=self._expr(type.nbytes))
            case _:
                return type

    def _exprs(self, exprs: tuple[Expr, ...]) -> tuple[Expr, ...]:
        return tuple(self._expr(e) for e in exprs)
