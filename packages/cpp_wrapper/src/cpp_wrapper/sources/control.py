"""Writes control flow: functions move the handles of their arguments out of a row of the caller's frame."""

from __future__ import annotations

from collections.abc import Sequence

from cpp_wrapper.sources.scope import FunctionScope
from wrapper_ir import ir
from wrapper_ir.expr import Expr, SymKind
from wrapper_ir_lowering import FunctionPlan, steps

# --- calls


def _is_handle(value: object) -> bool:
    return isinstance(value, ir.Value) and (ir.is_tensor(value) or ir.is_storage(value))


def _lend(args: Sequence[ir.Arg], scope: FunctionScope, row: str = "") -> tuple[str, list[str]]:
    """Writes another handle of each tensor into a row of slots. Returns the row, and the texts of numbers."""
    handles = [arg for arg in args if isinstance(arg, ir.Value) and _is_handle(arg)]
    if handles and not row:
        row = scope.slot("lent", len(handles))
    for number, arg in enumerate(handles):
        scope.line(f"{_at(row, number)} = same({scope.handle(arg)});")
    return row, [_number(arg, scope) for arg in args if not _is_handle(arg)]


def _at(row: str, number: int) -> str:
    return f"t[{row} + {number}]" if number else f"t[{row}]"


def _number(arg: ir.Arg, scope: FunctionScope) -> str:
    match arg:
        case Expr():
            return scope.number(arg)
        case ir.Value() if arg in scope.numbers:
            return scope.numbers[arg]
        case _:
            raise scope.error("CPP503", f"argument {arg!r} is neither a tensor nor a number")


def _row(values: Sequence[ir.Value], wish: str, scope: FunctionScope) -> str:
    """Returns a row of slots for the tensors among results; '' for none."""
    count = sum(map(_is_handle, values))
    return scope.slot(wish, count) if count else ""


def _call_text(
    function: FunctionPlan,
    lent: str,
    scalars: Sequence[str],
    outputs: str,
    results: Sequence[str],
    scope: FunctionScope,
) -> str:
    """Returns a call.

    `scalars` are the numbers among arguments, `results` the variables of those among results.
    """
    captured = [scope.defined[symbol] for symbol in function.function.captures]
    rows = [f"t + {row}" if row else "nullptr" for row in (lent, outputs)]
    texts = ["c", *rows, "run", *captured, *scalars, *results]
    return f"{scope.module.functions[function.name]}({', '.join(texts)});"


def _bind(results: Sequence[ir.Value], scope: FunctionScope) -> tuple[str, list[str]]:
    """Names results: a row of slots for tensors, and variables for numbers."""
    row = ""
    numbers = []
    for result in results:
        if ir.is_scalar(result):
            scope.numbers[result] = scope.variable(result.name, result.type.kind)
            numbers.append(scope.numbers[result])
        elif _is_handle(result):
            scope.bind(result)
            row = row or scope.live[result]
        else:
            raise scope.error("CPP503", f"result %{result.name} is neither a tensor nor a number")
    return row, numbers


def call(step: steps.Call, scope: FunctionScope) -> None:
    """Writes a call. Moved arguments have no other handle while the callee runs."""
    lent, scalars = _lend(step.args, scope)
    scope.end(step.moved)
    outputs, numbers = _bind(step.results, scope)
    scope.line(_call_text(step.function, lent, scalars, outputs, numbers, scope))


def switch(step: steps.Switch, scope: FunctionScope) -> None:
    """Writes `if` or `switch` over calls."""
    index = _index(step, scope)
    lent, scalars = _lend(step.args, scope)
    scope.end(step.moved)
    outputs, numbers = _bind(step.results, scope)
    for position, branch in enumerate(step.branches):
        if step.is_two_way:
            head = "} else {" if position else f"if ({index}) {{"
        else:
            head = f"{'} else ' if position else ''}if ({index} == {position}) {{"
        scope.line(head)
        with scope.indented():
            scope.line(_call_text(branch, lent, scalars, outputs, numbers, scope))
    if not step.is_two_way:
        scope.line("} else {")
        with scope.indented():
            scope.line(f"fail_branch({index}, {len(step.branches)});")
    scope.line("}")


def _index(step: steps.Switch, scope: FunctionScope) -> str:
    """Writes a variable with the index, which is read before arguments are moved."""
    kind = SymKind.BOOL if step.is_two_way else SymKind.INT
    match step.index:
        case ir.Value() if step.reads_index:
            text = f"{'item_bool' if step.is_two_way else 'item_int'}({scope.handle(step.index)})"
        case Expr() if step.is_two_way:
            text = scope.truth(step.index)
        case _:
            text = _number(step.index, scope)
    name = scope.variable("taken", kind)
    scope.line(f"{name} = {text};")
    return name


def loop(step: steps.Loop, scope: FunctionScope) -> None:
    """Writes `for` over calls. Carried values of a trip are freed after the next trip."""
    initial = [
        (arg, scope.handle(arg) if isinstance(arg, ir.Value) and _is_handle(arg) else "")
        for arg in step.carried
    ]
    texts = [handle or _number(arg, scope) for arg, handle in initial]
    _, numbers = _bind(step.results, scope)
    for result, (_, handle), text in zip(step.results, initial, texts):
        name = scope.handle(result) if handle else scope.numbers[result]
        scope.line(f"{name} = {f'same({text})' if handle else text};")
    count = scope.variable("trips", SymKind.INT)
    stacks = {r: scope.module.names("kept") for r in step.results if step.stacked and _is_handle(r)}
    if stacks:
        scope.line(f"Trips {', '.join(stacks.values())};")
    scope.line(f"for ({count} = 0;; {count} = {count} + 1) {{")
    with scope.indented():
        _trip(step, numbers, stacks, scope)
    scope.line("}")
    for result, name in stacks.items():
        scope.line(f"{name}.stack({scope.handle(result)});")
    if not step.stacked:
        _make_fresh(step, count, scope)


def _trip(step: steps.Loop, numbers: list[str], stacks: dict[ir.Value, str], scope: FunctionScope) -> None:
    """Writes one trip: the condition, the body, and its results in place of the carried values."""
    args = (*step.results, *step.captured)
    lent, scalars = _lend(args, scope)
    go = _condition(step, lent, scalars, scope)
    scope.line(f"if (!{go}) break;")
    _lend(args, scope, lent)
    tensors = [result for result in step.results if _is_handle(result)]
    outputs = _row(tensors, "next", scope)
    kinds = [result.type.kind for result in step.results if ir.is_scalar(result)]
    next_numbers = [scope.variable(f"next_{name}", kind) for name, kind in zip(numbers, kinds)]
    scope.line(f"{_call_text(step.body, lent, scalars, outputs, next_numbers, scope)}")
    for number, result in enumerate(tensors):
        scope.line(f"replace({scope.handle(result)}, {_at(outputs, number)});")
        if result in stacks:
            scope.line(f"{stacks[result]}.keep({scope.handle(result)});")
    for name, new in zip(numbers, next_numbers):
        scope.line(f"{name} = {new};")


def _condition(step: steps.Loop, lent: str, scalars: list[str], scope: FunctionScope) -> str:
    """Writes a call of the condition, and returns the text of its result."""
    value = step.condition.function.returns.values[0]
    if _is_handle(value):
        outputs = scope.slot("go")
        scope.line(f"{_call_text(step.condition, lent, scalars, outputs, [], scope)}")
        text = scope.variable("going", SymKind.BOOL)
        scope.line(f"{text} = item_bool(t[{outputs}]);")
        scope.line(f"drop(t[{outputs}]);")
        return text
    kind = _kind(value, scope)
    name = scope.variable("go", kind)
    scope.line(f"{_call_text(step.condition, lent, scalars, '', [name], scope)}")
    return name if kind is SymKind.BOOL else f"static_cast<bool>({name})"


def _make_fresh(step: steps.Loop, count: str, scope: FunctionScope) -> None:
    """Gives results separate storages, also after zero trips."""
    for value, surely in zip(step.results, step.fresh):
        if _is_handle(value):
            text = f"make_fresh({scope.handle(value)});"
            scope.line(f"if ({count} == 0) {text}" if surely else text)


# --- the end of a function


def return_(step: steps.Return, scope: FunctionScope) -> None:
    """Writes results to `outputs` at the end, after every step that can fail."""
    if scope.plan.is_main:
        _write_back(step, scope)
    slots: list[str] = []
    last = {value: number for number, value in enumerate(step.values) if isinstance(value, ir.Value)}
    for number, value in enumerate(step.values):
        if not scope.plan.is_main and not _is_handle(value):
            scope.results.append((name := scope.module.names(f"result_{number}"), _kind(value, scope)))
            scope.line(f"{name} = {_number(value, scope)};")
        elif isinstance(value, ir.Value) and value in scope.live and last[value] == number:
            slots.append(scope.live[value])
        else:
            name = scope.slot(f"result_{number}")
            if value is not None:
                scope.line(_result(value, name, scope))
            slots.append(name)
    for number, name in enumerate(slots):
        scope.line(f"outputs[{number}] = take(t[{name}]);")


def _kind(value: ir.Arg, scope: FunctionScope) -> SymKind:
    match value:
        case Expr():
            return value.kind
        case ir.Value() if ir.is_scalar(value):
            return value.type.kind
        case _:
            raise scope.error("CPP503", f"result {value!r} is neither a tensor nor a number")


def _write_back(step: steps.Return, scope: FunctionScope) -> None:
    """Writes copies of results into the caller's tensors."""
    signature: ir.Signature = scope.module.plan.artifact.signature
    for back in signature.write_backs:
        value = step.values[back.result]
        assert isinstance(value, ir.Value)
        scope.line(f"copy(inputs[{signature.params.index(back.leaf)}], {scope.handle(value)});")


def _result(value: ir.Arg, name: str, scope: FunctionScope) -> str:
    match value:
        case ir.Value() if _is_handle(value):
            return f"t[{name}] = same({scope.handle(value)});"
        case ir.Value() if value in scope.numbers:
            return f"result(t[{name}], {scope.numbers[value]});"
        case Expr():
            text = scope.number(value)
            return f"result(t[{name}], {f'Int({text})' if value.kind is SymKind.INT else text});"
        case _:
            raise scope.error("CPP503", f"result {value!r} is neither a tensor nor a number")
