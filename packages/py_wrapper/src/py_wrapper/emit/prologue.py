"""Writes the code between a module's docstring and its functions: imports, helpers, kernels, constants."""

from __future__ import annotations

from collections.abc import Sequence

from py_wrapper.emit.helpers import HELPERS, Helper
from py_wrapper.emit.inputs import write_inputs, write_storages
from py_wrapper.emit.memory import constant_window
from py_wrapper.emit.module import ModuleScope
from py_wrapper.emit.writer import Writer, tuple_text
from py_wrapper.native import overload_text
from wrapper_ir import ir
from wrapper_ir.expr import Expr, Int
from wrapper_ir.plugins.emitted import LineOrigin
from wrapper_ir.support.quoting import python_attribute, python_string
from wrapper_ir_lowering import ConstantBytes, ConstantWindow


def write_prologue(scope: ModuleScope, kernels: Sequence[ir.KernelDef], uses_math: bool, out: Writer) -> None:
    """Writes the code that runs once, when the module is loaded."""
    constants = [(data.name, *_storage(data, scope)) for data in scope.plan.bytes]
    constants += [(c.value.name, *_constant(c, scope)) for c in scope.program.constants]
    windows = [_window(w, name, scope) for w, name in zip(scope.plan.windows, scope.window_names)]
    helpers = {helper: text for helper, text in HELPERS.items() if helper in scope.helpers}
    guard = Writer()
    write_inputs(scope, guard)
    storages = Writer()
    write_storages(scope, bool(kernels), storages)
    out.origin = LineOrigin(note="imports")
    _write_imports(scope, uses_math, out)
    out.origin = LineOrigin(note="helpers of this module")
    for text in helpers.values():
        if not text.startswith("\n"):
            out.line(text)
    _write_lookups(scope, out)
    for stream, variable in scope.streams.items():
        device = stream.device
        out.line(
            f"{variable} = {python_attribute('torch', device.type)}.Stream({python_string(str(device))})"
        )
    for text in helpers.values():
        if text.startswith("\n"):
            poison = scope.options.poison or 0
            text = text.replace("{hex}", f"{poison:#04x}").replace("{poison}", str(poison))
            out.paragraph(text.replace("{index}", str(scope.program.target.device.index or 0)))
    if guard.text():
        out.origin = LineOrigin(note="checks of the program's arguments")
        out.paragraph(guard.text())
    out.origin = LineOrigin(note="kernels and constants beside this module")
    if kernels or constants:
        out.gap()
        if any(text.startswith("\n") for text in helpers.values()):
            out.line()
        out.line("parts = open_parts(__file__, __spec__)  # what lies beside this file")
    if scope.plan.reads_files:
        out.line("mapped = parts.files  # files that constants are mapped from")
    if kernels:
        out.line("kernels = parts.load_kernels()")
        for name, variable in scope.kernel_names.items():
            out.origin = LineOrigin(kernel=name, note="loads a kernel")
            out.line(f"{variable} = kernels[{python_string(name)}]")
    if storages.text():
        out.origin = LineOrigin(note="checks of the program's arguments")
        out.paragraph(storages.text())
    for constant, head, args in constants:
        out.origin = LineOrigin(constant=constant, note=f"constant %{constant}")
        out.items(f"{head}(", args, ")")
    out.origin = LineOrigin(note="windows of constants, made once")
    for window in windows:
        out.line(window)


def _write_imports(scope: ModuleScope, uses_math: bool, out: Writer) -> None:
    if uses_math:
        out.line("import math")
        out.line()
    out.line("import torch")
    names = sorted({"explain", "open_parts", *scope.runtime_names})
    if len(names) < 5:
        out.items("from wrapper_ir_runtime import ", names, "")
    else:
        with out.block("from wrapper_ir_runtime import ("):
            for name in names:
                out.line(f"{name},")
        out.line(")")
    out.line()


def _write_lookups(scope: ModuleScope, out: Writer) -> None:
    for name, variable in scope.extern_globals.items():
        out.line(f"{variable} = {overload_text(name)}")
    for text, variable in scope.lookups.items():
        head, bracket, rest = text.partition("(")
        out.items(f"{variable} = {head}{bracket}", [rest.removesuffix(")")], ")" if bracket else "")
    for spec, (flatten, build) in scope.containers.items():
        args = ["torch.utils._pytree", python_string(spec.type_name), python_string(spec.context)]
        out.items(f"{flatten}, {build} = custom_container(", args, ")")


def _constant(constant: ir.Constant, scope: ModuleScope) -> tuple[str, list[str]]:
    """Returns (`name = function`, arguments) that create a constant's tensor."""
    type, name = constant.value.type, scope.constant_names[constant.value]
    if isinstance(type, ir.OpaqueType):
        return f"{name} = parts.handle", [python_string(constant.value.name)]
    assert isinstance(type, ir.TensorType)
    dtype = f"torch.{type.dtype.torch_name}"
    if Int(0) in type.sizes:
        return f"{name} = torch.empty_strided", [_ints(type.sizes), _ints(type.strides), f"dtype={dtype}"]
    layout = [dtype, _ints(type.sizes), _ints(type.strides)]
    if constant.storage:
        args = [scope.bytes_names[constant.storage], *layout, str(constant.offset)]
        return f"{name} = {scope.helper(Helper.WINDOW)}", args
    args = [python_string(constant.value.name), *layout, *_memory_arguments(constant, type, scope)]
    return f"{name} = {scope.helper(Helper.CONSTANT)}", args


def _window(window: ConstantWindow, name: str, scope: ModuleScope) -> str:
    source = window.source
    base = scope.window_names[source] if isinstance(source, int) else scope.constant_names[source]
    return f"{name} = {constant_window(window, base, scope)}"


def _storage(data: ConstantBytes, scope: ModuleScope) -> tuple[str, list[str]]:
    """Returns (`name = function`, arguments) that create the bytes that several constants share."""
    one = data.constant
    assert ir.is_tensor(one.value)  # only tensors share bytes
    layout = ["torch.uint8", f"({data.nbytes},)", "(1,)"]
    args = [python_string(data.name), *layout, *_memory_arguments(one, one.value.type, scope)]
    return f"{scope.bytes_names[data.name]} = {scope.helper(Helper.CONSTANT)}", args


def _memory_arguments(constant: ir.Constant, type: ir.TensorType, scope: ModuleScope) -> list[str]:
    """Returns the arguments for the memory of a constant: mutable, device, alignment."""
    alignment = scope.plan.constant_alignment
    args = ["mutable=True"] if constant.mutable else []
    if type.device.type != "cpu":
        args.append(f"device={python_string(str(type.device))}")
    elif alignment > 1:
        args.append(f"alignment={alignment}")
    return args


def _ints(exprs: Sequence[Expr]) -> str:
    return tuple_text([str(e) for e in exprs])
