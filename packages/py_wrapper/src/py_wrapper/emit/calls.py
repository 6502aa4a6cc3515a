"""Writes ops that run kernels, operators and collectives, and that take their results apart."""

from __future__ import annotations

from py_wrapper.emit.helpers import Helper
from py_wrapper.emit.scope import FunctionScope
from py_wrapper.emit.writer import targets
from py_wrapper.errors import EmitError
from wrapper_ir.analysis.emission import checked_next
from wrapper_ir.expr import Expr
from wrapper_ir.ops import CallExtern, CollectiveStart, Launch, Unpack, Wait
from wrapper_ir.quoting import python_keyword, python_string
from wrapper_ir.types import TensorType
from wrapper_ir.values import Value

__all__ = ["call_extern", "collective", "launch", "unpack", "wait"]


def launch(op: Launch, scope: FunctionScope) -> None:
    """A loaded kernel is a callable over its ordered arguments, and the numbers of its grid."""
    kernel = scope.module.kernel_names.get(op.kernel)
    if kernel is None:
        raise EmitError("PY101", f"the program has no kernel @{op.kernel}", scope)
    args = [scope.expr(arg) if isinstance(arg, Expr) else scope.arg(arg) for arg in (*op.args, *op.grid)]
    scope.out.items(f"{kernel}(", args, ")")


def _call(op: CallExtern | CollectiveStart, head: str, scope: FunctionScope) -> None:
    """`head` and a call, with the arguments in structure, as the operator's schema has them."""
    callee = scope.module.extern_names.get(op.target)
    if callee is None:
        raise EmitError("PY101", f"the program declares no operator {op.target}", scope)
    defaults = scope.module.defaults(op.target)
    kwargs = [(name, arg) for name, arg in op.kwargs if name not in defaults or defaults[name] != str(arg)]
    args = [scope.arg(arg) for arg in op.args]
    args += [python_keyword(name, scope.arg(arg)) for name, arg in kwargs]
    scope.out.items(f"{head}{callee}(", args, ")")


def call_extern(op: CallExtern, scope: FunctionScope) -> None:
    """A call, and a check of the layout of what it returns."""
    _call(op, "" if op.result is None else f"{scope.bind(op.result)} = ", scope)
    if op.result is not None:
        _check_result(op.result, scope)


def collective(op: CollectiveStart, scope: FunctionScope) -> None:
    """Functional collectives are operators whose results must be waited for; their layouts are known before."""
    names = [scope.bind(result) for result in op.results]
    info = scope.module.analyses.extern_info.get(op.target)
    listed = info is not None and [r.type for r in info.schema.returns] == ["Tensor[]"]
    _call(op, targets(names) if listed or len(names) != 1 else f"{names[0]} = ", scope)
    for result in op.results:
        _check_result(result, scope)


def wait(op: Wait, scope: FunctionScope) -> None:
    """torch waits in an operator of its own."""
    source = scope.name(op.source)
    scope.out.line(f"{scope.bind(op.result)} = torch.ops._c10d_functional.wait_tensor({source})")


def unpack(op: Unpack, scope: FunctionScope) -> None:
    """Indexing; an empty path is the result itself."""
    path = "".join(f"[{python_string(step) if isinstance(step, str) else step}]" for step in op.path)
    source = scope.name(op.source)
    scope.out.line(f"{scope.bind(op.result)} = {source}{path}")
    _check_result(op.result, scope)


def _check_result(value: Value, scope: FunctionScope) -> None:
    """Holds what an operator allocated against its declared layout, where the symbols in it have values.

    Nothing else stands between a wrong declaration and a kernel that writes where it should not.
    """
    type = value.type
    if not isinstance(type, TensorType) or not scope.module.options.check_results:
        return
    if not scope.known((*type.sizes, *type.strides)):
        return
    if checked_next(scope.function.body, scope.position, value):
        return
    check = scope.module.helper(Helper.ASSERT_LAYOUT)
    scope.module.runtime("fail_layout")
    scope.out.line(f"{check}({scope.name(value)}, {scope.shape(type.sizes)}, {scope.shape(type.strides)})")
