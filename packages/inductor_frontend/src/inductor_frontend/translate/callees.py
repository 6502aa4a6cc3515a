"""Translates subgraphs to functions: selects the operands that become parameters, and the results."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import sympy
from torch._inductor.virtualized import V

from inductor_frontend.convert import to_expr
from inductor_frontend.errors import ConversionError
from inductor_frontend.guards.input_symbols import define_from, facts_of
from inductor_frontend.record.graph import RecordingSubgraph
from inductor_frontend.scope.arguments import to_arg
from inductor_frontend.scope.constant_table import literals
from inductor_frontend.scope.parameters import param_type
from inductor_frontend.scope.scope import Callee, Scope
from wrapper_ir import ir
from wrapper_ir.analysis.memo import Analyses
from wrapper_ir.expr import Expr, Int


@dataclass(frozen=True, slots=True)
class Operands:
    """Operands of a node that calls subgraphs, by position in `args`.

    `arguments` are the positions of those that become arguments, in this order; `inlined` those of constants
    that the callee refers to directly. The others are None, or sizes that the callee captures.
    """

    args: tuple[ir.Arg, ...]
    arguments: tuple[int, ...]
    inlined: tuple[int, ...]

    @staticmethod
    def of(
        scope: Scope, nodes: Sequence[object], graphs: Sequence[RecordingSubgraph], *, inline: bool = True
    ) -> Operands:
        """Classifies the operands of a node. With `inline`, constants are not passed."""
        args = tuple(to_arg(scope, node) for node in nodes)
        arguments: list[int] = []
        inlined: list[int] = []
        for i, arg in enumerate(args):
            inputs = [g.graph_inputs.get(g.graph_input_names[i]) for g in graphs]
            if inline and isinstance(arg, ir.Value) and scope.constants.declared(arg):
                inlined.append(i)
            elif arg is not None and not all(_same_size(arg, x) for x in inputs):
                arguments.append(i)
        return Operands(args, arguments=tuple(arguments), inlined=tuple(inlined))


def _same_size(arg: ir.Arg, inner: object) -> bool:
    """Returns whether an operand is a size that has the same name in the callee."""
    return isinstance(arg, Expr) and isinstance(inner, sympy.Basic | int) and to_expr(inner) is arg


def make_callee(
    scope: Scope,
    graph: RecordingSubgraph,
    operands: Operands,
    returned: Sequence[tuple[int, ir.TensorType | None]],
) -> Callee:
    """Translates a subgraph to a function, which returns the graph's outputs at the positions in `returned`.

    Returned tensors have separate storages and the strides of the types in `returned`.
    """
    inner = Scope(graph, scope.shared, scope.program.fresh_function_name(str(graph.name)), scope)
    scope.constants.add(literals(graph))
    params = _parameters(inner, operands)
    with V.set_graph_handler(graph):
        scope.shared.translate(inner)
        inner.function.prov = ir.UNKNOWN
        values = [_result(inner, graph.graph_outputs[i], type) for i, type in returned]
    inner.function.ret(_owned(inner, values))
    names = [graph.graph_input_names[i] for i in operands.arguments]
    return Callee(
        name=inner.function.name,
        arguments=operands.arguments,
        params=tuple(p.type for p in params),
        writes=frozenset(k for k, name in enumerate(names) if name in graph.mutated_buffers),
    )


def _parameters(inner: Scope, operands: Operands) -> list[ir.Value]:
    """Binds the graph's inputs: constants directly, the others as parameters.

    Sizes that the caller cannot provide are read from the parameters.
    """
    names = inner.graph.graph_input_names
    for i in operands.inlined:
        arg = operands.args[i]
        assert isinstance(arg, ir.Value)
        inner.bind(names[i], arg)
    params: dict[str, ir.Value] = {}
    for i in operands.arguments:
        params[names[i]] = inner.function.param(names[i], param_type(inner, names[i]))
        inner.bind(names[i], params[names[i]])
    for name, value in params.items():
        type = value.type
        exprs = (*type.sizes, *type.strides) if isinstance(type, ir.TensorType) else ()
        captured = [inner.symbols.capture(s) for e in exprs for s in sorted(e.free_symbols)]
        if not isinstance(type, ir.TensorType) or not all(captured):
            define_from(inner.guards, facts_of(inner.guards, {name: value}))
    return list(params.values())


def _result(inner: Scope, node: object, layout: ir.TensorType | None) -> ir.Arg:
    value = to_arg(inner, node)
    return conform(inner, value, layout) if isinstance(value, ir.Value) and layout is not None else value


def _owned(inner: Scope, values: list[ir.Arg]) -> list[ir.Arg]:
    """Returns results in separate storages: a result that may share its storage with another value is copied.

    Such values are parameters, constants and earlier results.
    """
    inner.function.ret(values)
    program = inner.program.draft()
    origins = Analyses(program).summary(inner.function.name).results
    inner.function.ops.pop()
    storages: set[ir.Value] = set()
    results: list[ir.Arg] = []
    for value, origin in zip(values, origins, strict=True):
        if origin is not None and isinstance(value, ir.Value):
            if origin.params or origin.constants or not origin.certain or storages & set(origin.own):
                value = copy(inner, value, value.type)
            value = outside_of_symmetric(inner, value)
            storages.update(origin.own)
        results.append(value)
    return results


def copy(scope: Scope, value: ir.Value, type: ir.Type) -> ir.Value:
    """Copies `value` to a new storage, with the layout `type`."""
    assert isinstance(type, ir.TensorType)
    result = scope.function.alloc(f"{value.name}.c", type)
    scope.function.append(ir.Copy(dst=result, src=ir.as_tensor(value), prov=scope.function.prov))
    return result


def outside_of_symmetric(scope: Scope, value: ir.Value) -> ir.Value:
    """Returns a result that may leave its function: a communication buffer, which later calls overwrite, is
    copied."""
    root = scope.root(value).type
    return copy(scope, value, value.type) if isinstance(root, ir.StorageType) and root.is_symmetric else value


def conform(scope: Scope, value: ir.Value, layout: ir.Type) -> ir.Value:
    """Returns `value` with the strides of `layout`; it is copied if its strides differ in a dimension of size
    other than 1.

    Raises ConversionError FE307 if dtype or rank differ.
    """
    actual = value.type
    if not isinstance(layout, ir.TensorType) or not isinstance(actual, ir.TensorType):
        return value
    if (actual.dtype, len(actual.sizes)) != (layout.dtype, len(layout.sizes)):
        raise ConversionError("FE307", f"{value.name} is {actual}, where Inductor expects {layout}")
    strides = zip(actual.sizes, actual.strides, layout.strides)
    others = [size for size, a, b in strides if _differ(scope, a, b)]
    if not others:
        return value
    type = ir.TensorType(actual.dtype, actual.sizes, layout.strides, actual.device)
    if all(size is Int(1) for size in others):
        return scope.view_as(value, type, Int(0))
    return copy(scope, value, type)


def _differ(scope: Scope, a: Expr, b: Expr) -> bool:
    """Returns whether two strides may differ. Symbols that a callee defines are not comparable here."""
    return a is not b and all(s in scope.symbols.defined for s in b.free_symbols)
