"""Writes `example_inputs`: flat arguments of the sizes seen at capture, for the module as a script."""

from __future__ import annotations

from py_wrapper.emit.helpers import Helper
from py_wrapper.emit.module import ModuleScope
from py_wrapper.emit.names import namer
from py_wrapper.emit.writer import Writer, tuple_text
from wrapper_ir import ir
from wrapper_ir.expr import Expr, Sym, SymKind, to_python
from wrapper_ir.support.quoting import python_string

_SCALARS = {SymKind.INT: "2", SymKind.FLOAT: "0.5", SymKind.BOOL: "True"}


def write_examples(scope: ModuleScope, out: Writer) -> None:
    """Writes `def example_inputs(seed=0, s0=8):`; symbols of input sizes are its parameters."""
    types = [p.value.type for p in scope.program.main.params]
    free = {
        name
        for t in types
        if isinstance(t, ir.TensorType)
        for e in (*t.sizes, *t.strides)
        for name in e.free_symbols
    }
    names = namer((*scope.names.taken, "seed", "generator"))
    symbols = {s.name: (names(s.name), _hint(s)) for s in scope.program.symbols if s.name in free}
    out.line()
    out.line()
    out.items("def example_inputs(", ["seed=0", *(f"{n}={hint}" for n, hint in symbols.values())], "):")
    with out.block_body():
        out.line('"""Flat arguments of the sizes seen at capture."""')
        if any(isinstance(t, ir.TensorType) for t in types):
            out.line("generator = torch.Generator().manual_seed(seed)")
        variables = {name: variable for name, (variable, _) in symbols.items()}
        out.items("return [", [_example(t, variables, scope) for t in types], "]")


def _symbol(leaf: Expr) -> str:
    assert isinstance(leaf, Sym)  # the verifier's WIR020: types contain no atoms
    return leaf.name


def _hint(symbol: ir.SymbolDef) -> str:
    if symbol.hint is not None:
        return repr(symbol.hint)
    return repr(symbol.lower if symbol.lower is not None else 2)


def _example(type: ir.Type, variables: dict[str, str], scope: ModuleScope) -> str:
    match type:
        case ir.TensorType():
            sizes, strides = (
                tuple_text([to_python(e, lambda s: variables[_symbol(s)]) for e in part])
                for part in (type.sizes, type.strides)
            )
            layout = f"{sizes}, {strides}, torch.{type.dtype.torch_name}"
            text = f"{scope.helper(Helper.EXAMPLE)}({layout}, generator)"
            return text if type.device.type == "cpu" else f"{text}.to({python_string(str(type.device))})"
        case ir.ScalarType(kind=kind):
            return _SCALARS[kind]
        case _:
            return "None"
