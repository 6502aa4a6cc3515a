"""Rules for kernel launches, operators, collectives, and the unpacking of their results."""

from __future__ import annotations

from collections.abc import Iterator

from wrapper_ir import ir
from wrapper_ir.operators.library import OpenFacts, apart_operands, open_facts
from wrapper_ir_lowering import steps
from wrapper_ir_lowering.arguments import schema_arguments
from wrapper_ir_lowering.rules.checks import check_result
from wrapper_ir_lowering.state import FunctionState
from wrapper_ir_lowering.steps import Argument, Step


def launch(op: ir.Launch, state: FunctionState) -> Iterator[Step]:
    """Launches the kernel, with each argument paired with its parameter."""
    kernel = state.program.analyses.kernels.get(op.kernel)
    if kernel is None:
        raise state.invalid(f"the program has no kernel @{op.kernel}")
    if len(op.args) != len(kernel.params):
        raise state.invalid(f"@{op.kernel} takes {len(kernel.params)} arguments, got {len(op.args)}")
    yield steps.Launch(
        kernel=kernel,
        args=tuple(zip(kernel.params, op.args)),
        grid=op.grid,
        extents=op.extents,
        stream=state.stream(op, op.stream),
        at=state.at,
    )


def _operator(op: ir.OperatorCall, state: FunctionState) -> tuple[ir.ExternInfo, tuple[Argument, ...]]:
    """The operator, and its arguments in the order of its schema."""
    operator = state.program.analyses.extern_info.get(op.target)
    if operator is None:
        raise state.invalid(f"the program declares no operator {op.target}")
    return operator, schema_arguments(operator, op, state)


def call_extern(op: ir.CallExtern, state: FunctionState) -> Iterator[Step]:
    """A call, and checks of its results."""
    operator, arguments = _operator(op, state)
    if op.result is not None:
        state.define(op.result)
    yield steps.CallOperator(
        operator=operator,
        arguments=arguments,
        result=op.result,
        stream=state.stream(op, op.stream),
        at=state.at,
    )
    if op.result is not None:
        state.calls[op.result] = op, operator, ()
        yield from check_result(op.result, state, _open(op, operator, op.result, ()))
        yield from _check_apart(op, operator, op.result, (), state)


def _open(
    op: ir.OperatorCall, operator: ir.ExternInfo, value: ir.Value[ir.Type], path: tuple[int | str, ...]
) -> OpenFacts:
    return open_facts(operator, op, value.type, path) if ir.is_tensor(value) else OpenFacts()


def _check_apart(
    op: ir.OperatorCall,
    operator: ir.ExternInfo,
    value: ir.Value[ir.Type],
    path: tuple[int | str, ...],
    state: FunctionState,
) -> Iterator[Step]:
    """Checks a result that its schema declares as new; operands that are gone by now have other memory by
    then."""
    if ir.is_tensor(value) and state.program.options.check_results:
        operands = tuple(v for v in apart_operands(operator, op, path) if state.is_alive(v))
        if operands:
            yield steps.CheckApart(value=value, operands=operands, at=state.at)


def collective(op: ir.CollectiveStart, state: FunctionState) -> Iterator[Step]:
    """A start, and checks of the results in flight, whose types are known already."""
    operator, arguments = _operator(op, state)
    for result in op.results:
        state.define(result)
    returned = [r.type for r in operator.schema.returns]
    yield steps.StartCollective(
        operator=operator,
        arguments=arguments,
        results=op.results,
        group=op.group,
        is_list=returned == ["Tensor[]"],
        is_finished=bool(op.results) and state.joined.issuperset(op.results),
        stream=state.stream(op, op.stream),
        at=state.at,
    )
    for number, result in enumerate(op.results):
        path = (number,) if len(op.results) > 1 else ()
        yield from check_result(result, state, _open(op, operator, result, path))


def wait(op: ir.Wait, state: FunctionState) -> Iterator[Step]:
    """Waits for the result. If the collective was finished at its start, only adds a name."""
    state.define(op.result)
    if op.source in state.joined:
        yield steps.Same(result=op.result, source=op.source, at=state.at)
        return
    yield steps.Wait(result=op.result, source=op.source, at=state.at)


def unpack(op: ir.Unpack, state: FunctionState) -> Iterator[Step]:
    """Unpacks the result at a path, and checks it."""
    state.define(op.result)
    yield steps.Unpack(result=op.result, source=op.source, path=op.path, at=state.at)
    op_of_source = state.calls.get(op.source)
    if op_of_source is None:
        yield from check_result(op.result, state, OpenFacts())
        return
    call, operator, path = op_of_source
    state.calls[op.result] = call, operator, (*path, *op.path)
    yield from check_result(op.result, state, _open(call, operator, op.result, (*path, *op.path)))
    yield from _check_apart(call, operator, op.result, (*path, *op.path), state)
