"""Windows over memory that a caller lends. They are cached on the lent tensor and reused by later trips of a
loop, or calls with the same tensor."""

from __future__ import annotations

from py_wrapper.emit.memory import window_text
from py_wrapper.emit.scope import FunctionScope
from wrapper_ir import ir
from wrapper_ir_lowering import steps

_Window = steps.Window | steps.ByteWindow


def write_lent_windows(scope: FunctionScope) -> set[ir.Value[ir.Type]]:
    """Writes, at the start of a function, the windows over its storage parameters whose layouts are known
    there; returns their values. With poison, nothing is cached."""
    if scope.module.options.poison is not None:
        return set()
    values: set[ir.Value[ir.Type]] = set()
    name = f"windows_of_{scope.module.function_names[scope.plan.name]}"
    for param in scope.plan.function.params:
        if ir.is_storage(param.value) and (windows := _cacheable(scope, param.value)):
            _write(scope, scope.name(param.value), name, windows)
            values.update([step.result for step in windows])
    return values


def _cacheable(scope: FunctionScope, param: ir.Value[ir.Type]) -> list[_Window]:
    captures = set(scope.plan.function.captures)
    return [
        step
        for step in scope.plan.steps
        if isinstance(step, _Window) and step.source == param and not step.is_reuse and not step.ends
        if _symbols(step) <= captures
    ]


def _symbols(step: _Window) -> set[str]:
    type = step.result.type
    return {s for e in (*type.sizes, *type.strides, step.offset) for s in e.free_symbols}


def _write(scope: FunctionScope, lent: str, attribute: str, windows: list[_Window]) -> None:
    """Writes the windows over one parameter. If a layout has symbols, their values are part of the cache
    entry."""
    out, entry = scope.out, scope.names("kept")
    symbols = [scope.defined[s] for s in sorted({s for step in windows for s in _symbols(step)})]
    values = f"({', '.join(symbols)},)"
    out.line(f'{entry} = getattr({lent}, "{attribute}", None)')
    with out.block(f"if {entry} is None or {entry}[0] != {values}:" if symbols else f"if {entry} is None:"):
        texts = [*([values] if symbols else []), *(window_text(step, scope) for step in windows)]
        out.items(f"{entry} = {lent}.{attribute} = (", texts, ",)" if len(texts) == 1 else ")")
    unused = [scope.names("_")] if symbols else []
    out.unpack([*unused, *(scope.bind(step.result) for step in windows)], entry)
