"""Matmuls that the runtime computes.

They are those of float32 on a CPU (`text/matmuls.cpp`), and captured ones on a device
(`text/gpu_matmuls.cpp`).
"""

from __future__ import annotations

from collections.abc import Sequence

from cpp_wrapper.sources.scope import FunctionScope
from wrapper_ir import ir
from wrapper_ir.analysis.own_memory import MATMULS
from wrapper_ir_lowering import steps

_FUNCTIONS = {"aten::addmm": "addmm", "aten::addmm.out": "addmm", "aten::mm.out": "mm"}
_OUT_FUNCTIONS = {name: name.removeprefix("aten::").removesuffix(".out") for name in sorted(MATMULS)}


def write_matmul(step: steps.CallOperator, arguments: Sequence[str], scope: FunctionScope) -> bool:
    """Writes a call with the arguments of the shim's function, the result first.

    Returns False for other matmuls.
    """
    if scope.is_captured:
        name = _OUT_FUNCTIONS[step.operator.extern.name]
        scope.line(f"{name}({', '.join(('run', *arguments))});")
        return True
    function = _FUNCTIONS.get(step.operator.extern.name)
    values = [a.value for a in step.arguments if isinstance(a.value, ir.Value)]
    if function is None or not all(map(_is_plain, values)):
        return False
    scope.line(f"{function}({', '.join(arguments)});")
    return True


def _is_plain(value: ir.Value) -> bool:
    return ir.is_tensor(value) and value.type.device == ir.CPU and value.type.dtype is ir.DType.F32
