"""Writes calls of operators: by their function in torch's C shim if the table has it, otherwise by the
dispatcher.
"""

from __future__ import annotations

from collections.abc import Sequence

from cpp_wrapper._compat import takes_any
from cpp_wrapper.errors import EmitError
from cpp_wrapper.sources.arguments import enumeration, on_gpu, refused, shim_argument, tensor_argument
from cpp_wrapper.sources.bridge import bridge, mixes_returns, require_python, returned
from cpp_wrapper.sources.exact import write_exactly
from cpp_wrapper.sources.matmuls import write_matmul
from cpp_wrapper.sources.native import is_on_device
from cpp_wrapper.sources.scalars import has_whole_scalars, keeps_meaning, tensor_overload, wide_number
from cpp_wrapper.sources.scope import FunctionScope, ResultPath, string_text
from cpp_wrapper.sources.shims import (
    LIST,
    c_signature,
    c_types,
    is_input,
    parsed,
    shim_table,
    writes_arguments,
)
from wrapper_ir import ir
from wrapper_ir.expr import Expr, Int, SymKind
from wrapper_ir.operators.policy import runs_operator
from wrapper_ir.support.quoting import cpp_string
from wrapper_ir_lowering import steps

_ALIASES = {"aten::sub.Tensor": "aten::subtract.Tensor"}
"""Names of operators in the shim, if different."""

CallStep = steps.CallOperator | steps.StartCollective
_NUMBERS = {
    "int": ("kInt", SymKind.INT), "SymInt": ("kInt", SymKind.INT),
    "float": ("kFloat", SymKind.FLOAT), "bool": ("kBool", SymKind.BOOL),
}  # fmt: skip

_RETURNED = {"Tensor": "kTensor", "Tensor?": "kOptional", LIST: "kList"}

# --- calls


def call_operator(step: steps.CallOperator, scope: FunctionScope) -> None:
    """Writes a call by C shim or by dispatcher. Raises EmitError CPP502 if neither is possible."""
    operator = step.operator.extern
    scope.module.operators[operator.name] = operator
    if not (_by_shim(step, scope) or write_exactly(step, scope)):
        if scope.is_captured:
            raise scope.error(
                "CPP505", f"operator {operator.name} is called in a way that cannot be captured"
            )
        if scope.module.native is not None:
            raise _not_native(step, scope)
        require_python(step, scope)
        in_python = ir.ExternTag.PYTHON_ONLY in operator.tags
        is_bridged = scope.module.python_operators and (
            runs_operator(operator.name) or not operator.name.startswith(_HIGHER_ORDER)
        )
        if in_python and not is_bridged:
            hint = "register the operator in C++, or emit the program with py_wrapper or fx_converter"
            raise scope.error("CPP502", f"operator {operator.name} exists in Python only", hint)
        _by_dispatcher(step, scope)
    if scope.numbers_made:
        scope.line(f"drop({', '.join(scope.numbers_made)});")
        scope.numbers_made.clear()


def _not_native(step: CallStep, scope: FunctionScope) -> EmitError:
    """Returns an error for a call that the native runtime has, but not with these arguments."""
    hint = "build for torch (runtime='torch')"
    name = step.operator.extern.name
    return scope.error("CPP502", f"the native runtime cannot call {name} with these arguments", hint)


_HIGHER_ORDER = "higher_order::"
"""Operators that run others, or print. The dispatcher lacks them; bridges call those that run one."""
_COLLECTIVES = "_c10d_functional::"
_WAIT = "aoti_torch_cpu__c10d_functional_wait_tensor"


def start_collective(step: steps.StartCollective, scope: FunctionScope) -> None:
    """Writes a call of a functional collective, which is an operator.

    Some have a function in the shim, which accepts tensors of every device, although its name contains `cpu`.
    The dispatcher does not accept arguments of type Any, as groups are in most collectives from torch 2.13
    on: those calls use bridges or are refused.
    """
    name = step.operator.extern.name
    if scope.module.native is not None:
        raise _not_native(step, scope)
    scope.module.operators[name] = step.operator.extern
    since, function, parameters = shim_table().get(name, ((0, 0), "", ""))
    if function and since <= scope.module.oldest_torch:
        texts = [text for a in step.arguments for text in shim_argument(a.schema.type, a.value, scope)]
        texts.append(f"&{_result_slots(step, 1, scope)[0]}")
        scope.module.shims[function] = f"int32_t {function}({parameters});"
        scope.line(f"ok({function}({', '.join(texts)}), {cpp_string(name)});")
        return
    require_python(step, scope)
    if takes_any(name) and not scope.module.python_operators:
        raise refused(step, "torch's stable dispatcher does not take process groups", scope)
    _by_dispatcher(step, scope)


def wait(step: steps.Wait, scope: FunctionScope) -> None:
    """Writes torch's operator that waits; for a device, the current stream waits."""
    source = scope.handle(step.source)
    scope.module.shims[_WAIT] = f"int32_t {_WAIT}(AtenTensorHandle inp, AtenTensorHandle* ret0);"
    scope.line(f'ok({_WAIT}({source}, &{scope.bind(step.result)}), "{_COLLECTIVES}wait_tensor");')


def _result_slots(
    step: CallStep, count: int, scope: FunctionScope, paths: Sequence[ResultPath] = ()
) -> list[str]:
    """Returns the handles of a call's results, at `paths` among them.

    Unnamed results are freed after the call.
    """
    results = _results(step)
    if not results:
        name = scope.slot("unused", count) if count else ""
    elif len(results) > 1:
        return [scope.bind(result) for result in results]
    else:
        scope.bind(results[0], count)
        name = scope.live[results[0]]
    handles = [f"t[{name} + {i}]" if i else f"t[{name}]" for i in range(count)]
    if results:
        paths = paths or ([()] if count == 1 else [(i,) for i in range(count)])
        scope.places[results[0]] = dict(zip(paths, handles))
    return handles


def _results(step: CallStep) -> Sequence[ir.Value]:
    if isinstance(step, steps.StartCollective):
        return step.results
    return () if step.result is None else (step.result,)


def _device_type(step: CallStep, scope: FunctionScope) -> str:
    """Returns the device type of all tensors of a call; '' for several, between which the dispatcher
    chooses.
    """
    values: list[ir.Arg] = [*_results(step)]
    for argument in step.arguments:
        values += argument.value if isinstance(argument.value, tuple) else [argument.value]
    devices = [v for v in values if isinstance(v, ir.Device)]
    devices += [v.type.device for v in values if ir.is_tensor(v)]
    types = {"cuda" if scope.on_gpu(device) else "cpu" for device in devices} or {"cpu"}
    return types.pop() if len(types) == 1 else ""


def _by_shim(step: steps.CallOperator, scope: FunctionScope) -> bool:
    schema = step.operator.schema
    if not (declaration := _declaration(step, scope)):
        return False
    function, _, parameters = declaration.partition("(")
    if c_types(c_signature(schema)) != c_types(parameters):
        return False
    writes = writes_arguments(schema)
    if (writes and _results(step)) or (has_whole_scalars(step) and not keeps_meaning(step)):
        return False
    if any(isinstance(a.value, ir.Complex) for a in step.arguments if a.schema.type.startswith("Scalar")):
        return False
    ordered = sorted(step.arguments, key=lambda a: is_input(a.schema))
    texts = [text for a in ordered for text in shim_argument(a.schema.type, a.value, scope)]
    handles, results = ([], []) if writes else _shim_results(step, scope)
    texts += results
    if write_matmul(step, texts, scope):
        return True
    scope.module.shims[function] = f"int32_t {declaration});"
    scope.line(f"ok({function}({', '.join(texts)}), {cpp_string(step.operator.extern.name)});")
    if handles and not _results(step):
        scope.line(f"drop({', '.join(handles)});")
    return True


def _shim_results(step: steps.CallOperator, scope: FunctionScope) -> tuple[list[str], list[str]]:
    """Returns the handles of a call's results, and their texts as arguments of a function in C."""
    types = [result.type for result in step.operator.schema.returns]
    if LIST not in types:
        handles = _result_slots(step, len(types), scope)
        return handles, [f"&{handle}" for handle in handles]
    values = returned(step)
    counts = [_list_length(step, path, scope) if type == LIST else 1 for path, type in values]
    handles = _result_slots(step, max(sum(counts), 1), scope)
    texts: list[str] = []
    by_path: dict[ResultPath, str] = {}
    begin = 0
    for (path, type), count in zip(values, counts):
        texts.append(f"&{handles[begin]}" if count else "nullptr")
        texts += [str(count)] if type == LIST else ()
        places = [(*path, i) for i in range(count)] if type == LIST else [path]
        by_path.update(zip(places, handles[begin : begin + count]))
        begin += count
    if results := _results(step):
        scope.places[results[0]] = by_path
    return handles, texts


def _list_length(step: CallStep, path: ResultPath, scope: FunctionScope) -> int:
    """Returns how many tensors of the list at `path` in a call's results the function reads."""
    if isinstance(step, steps.StartCollective):
        return len(step.results)
    read = scope.taken.get(step.result, []) if step.result is not None else ()
    below = [p[len(path)] for p in read if len(p) > len(path) and p[: len(path)] == path]
    return 1 + max((i for i in below if isinstance(i, int)), default=-1)


def _declaration(step: steps.CallOperator, scope: FunctionScope) -> str:
    """Returns name and parameters of an operator's C function, without `)`; '' if it has none."""
    name = step.operator.extern.name
    if scope.module.native is not None:
        operator = scope.module.native.of(is_on_device(step)).get(name)
        if operator is None:
            return ""
        scope.module.called[operator.function] = operator
        return f"{operator.function}({operator.parameters}"
    device = _device_type(step, scope)
    table = shim_table(device) if device else {}
    since, function, parameters = table.get(_ALIASES.get(name, name), ((0, 0), "", ""))
    return f"{function}({parameters}" if function and since <= scope.module.oldest_torch else ""


# --- the dispatcher


def _by_dispatcher(step: CallStep, scope: FunctionScope) -> None:
    overloaded = tensor_overload(step)
    bridged = "" if overloaded else bridge(step, scope)
    name = overloaded or bridged or step.operator.extern.name
    types = [
        a.schema.type.replace("Scalar", "Tensor")
        if overloaded and parsed(a.schema.type)[0] == "Scalar"
        else a.schema.type
        for a in step.arguments
    ]
    texts = [_boxed(type, a.value, step, scope) for type, a in zip(types, step.arguments)]
    base, _, overload = name.partition(".")
    head = f"{cpp_string(base)}, {cpp_string('' if overload == 'default' else overload)}"
    arguments = f"{{{', '.join(texts)}}}"
    paths, returns = zip(*values) if (values := returned(step)) else ((), ())
    if not bridged:
        scope.module.boxed[name] = types, [*returns]
    if any(r != "Tensor" for r in returns):
        targets = _returned(step, scope)
        if mixes_returns(step):
            if not bridged:
                raise refused(
                    step, f"torch's dispatcher reads returned ({', '.join(returns)}) in reverse", scope
                )
            targets += [f"{{Returned::{_kind(type)}, nullptr}}" for type in reversed(returns)]
        scope.line(f"call_mixed({head}, {arguments}, {{{', '.join(targets)}}});")
        return
    handles = _result_slots(step, len(returns), scope, paths) if _results(step) else []
    scope.line(f"call({head}, {arguments}, {f'&{handles[0]}' if handles else 'nullptr'}, {len(returns)});")


def _kind(type: str) -> str:
    return _RETURNED[type] if type in _RETURNED else _NUMBERS[type][0]


def _returned(step: CallStep, scope: FunctionScope) -> list[str]:
    """Returns the targets of an operator's returned values, some of which are lists or numbers."""
    results = _results(step)
    lists = isinstance(step, steps.StartCollective) or not results
    used_paths = [] if lists else scope.taken.get(results[0], [])
    counts = []
    for path, type in returned(step):
        length = _list_length(step, path, scope)
        counts.append({"Tensor": 1, "Tensor?": int(path in used_paths), LIST: length}.get(type, 0))
    handles = _result_slots(step, max(sum(counts), 1), scope) if results else []
    by_path: dict[ResultPath, str] = {}
    texts, begin = [], 0
    for (path, type), count in zip(returned(step), counts):
        if type in _NUMBERS:
            kind, symbol = _NUMBERS[type]
            by_path[path] = scope.variable("number", symbol)
            texts.append(f"{{Returned::{kind}, &{by_path[path]}}}")
        elif type not in _RETURNED:
            raise refused(step, f"it returns {type}", scope)
        else:
            to = f"&{handles[begin]}" if handles and count else "nullptr"
            tail = f", {count}" if type == LIST else ""
            texts.append(f"{{Returned::{_RETURNED[type]}, {to}{tail}}}")
            places = [(*path, i) for i in range(count)] if tail else [path]
            by_path.update(zip(places, handles[begin : begin + count]))
        begin += count
    if results:
        scope.places[results[0]] = by_path
        if ir.is_scalar(results[0]):
            scope.numbers[results[0]] = by_path[()]
    return texts


def _boxed(type: str, value: ir.Arg, step: CallStep, scope: FunctionScope) -> str:
    base, inner, is_list, optional = parsed(type)
    if value is None:
        return "none()"
    if is_list:
        if not isinstance(value, tuple):
            raise refused(step, f"argument {value!r} is not a list", scope)
        texts = [_boxed(base + ("?" if inner else ""), item, step, scope) for item in value]
        text = f"list({{{', '.join(texts)}}})"
    else:
        text = _boxed_one(base, value, step, scope)
    return f"some({text})" if optional else text


def _boxed_one(base: str, value: ir.Arg, step: CallStep, scope: FunctionScope) -> str:
    match value:
        case ir.Value() | Expr() | ir.Complex() if base == "Tensor":
            return f"tensor({tensor_argument(value, scope)})"
        case Expr() | ir.Complex() if base == "Scalar" and scope.module.python_operators:
            scope.numbers_made.append(wide_number(value, scope))
            return f"tensor({scope.numbers_made[-1]})"
        case Expr() if base in ("int", "SymInt"):
            return f"integer({scope.number(value)})"
        case Expr() if base == "float":
            return f"number({scope.real(value)})"
        case Expr() if base == "bool":
            return f"truth({scope.truth(value)})"
        case str() if base == "str" or (base == "Any" and scope.module.python_operators):
            # a group: bridges accept its name
            return string_text(value)
        case ir.Device() if base == "Device":
            return "device(run.gpu)" if on_gpu(value, scope) else "cpu_device()"
        case ir.DType() | ir.MemoryFormat() | ir.Layout() | Int() if base in (
            "ScalarType",
            "MemoryFormat",
            "Layout",
        ):
            return f"code({enumeration(value, scope)})"
        case _:
            raise refused(step, f"torch's stable dispatcher does not take {base} arguments", scope)
