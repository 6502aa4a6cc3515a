"""A complete small emitter: straight-line programs to Python with plain torch calls.

`docs/write-an-emitter.md` walks through this file.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from pathlib import Path
from types import MappingProxyType
from typing import Any, assert_never

import wrapper_ir
from wrapper_ir import ir
from wrapper_ir.analysis.alignment import constant_alignment
from wrapper_ir.analysis.input_facts import Input, NumberInput
from wrapper_ir.analysis.memo import Analyses
from wrapper_ir.artifact import Artifact
from wrapper_ir.errors import NotSupportedError
from wrapper_ir.expr import Expr, Int, Sym, to_python
from wrapper_ir.plugins.protocols import CompiledProgram
from wrapper_ir.plugins.registry import machine
from wrapper_ir.support.quoting import (
    python_attribute,
    python_comment,
    python_keyword,
    python_names,
    python_string,
)
from wrapper_ir_lowering import LoweringOptions, Plan, lower
from wrapper_ir_lowering.steps import (
    Align,
    Allocate,
    Barrier,
    BeginSlot,
    ByteWindow,
    Call,
    CallOperator,
    CheckAlignment,
    CheckApart,
    CheckCondition,
    CheckFinite,
    CheckGroups,
    CheckInputs,
    CheckLayout,
    CheckResult,
    CheckStorages,
    Comment,
    Copy,
    Define,
    EndNames,
    EndStorage,
    EnterDevice,
    EnterPool,
    EnterProfile,
    ExitScope,
    Given,
    Launch,
    Loop,
    RecordEvent,
    ResizeBlock,
    ResizeStorage,
    Return,
    Same,
    SaveValue,
    SetStorage,
    ShowLine,
    ShowValue,
    StartCollective,
    Step,
    Switch,
    SyncEvent,
    Unpack,
    Wait,
    WaitEvent,
    Window,
    Zero,
)
from wrapper_ir_runtime import load_kernels, signature_call

Refused = (
    Switch | Loop | Call | EnterDevice | RecordEvent | WaitEvent | SyncEvent | Barrier | EnterProfile | EnterPool | ExitScope
    | CheckGroups | StartCollective | Wait | Align | ResizeStorage | SetStorage | ShowLine | ShowValue | SaveValue | Zero | ResizeBlock
)  # fmt: skip
REFUSED: Mapping[type[Refused], str] = MappingProxyType(
    {
        Switch: "it writes one function",
        Loop: "it writes one function",
        Call: "it writes one function",
        EnterDevice: "it writes for one CPU",
        RecordEvent: "it writes for one CPU",
        WaitEvent: "it writes for one CPU",
        SyncEvent: "it writes for one CPU",
        Barrier: "it keeps no other order than that of a CPU",
        EnterProfile: "nobody profiles what it writes",
        EnterPool: "it writes for one CPU",
        ExitScope: "it writes no scopes",
        CheckGroups: "it writes for one process",
        StartCollective: "it writes for one process",
        Wait: "it writes for one process",
        Align: "it copies nothing that no copy asks for",
        ResizeStorage: "storages are as torch made them",
        SetStorage: "storages are as torch made them",
        **dict.fromkeys((ShowLine, ShowValue, SaveValue), "there is nobody to show values to"),
        Zero: "it fills nothing but what it allocates",
        ResizeBlock: "it keeps no tensors from call to call",
    }
)
"""The steps that this emitter does not write, with reasons."""

HEADER = '''"""Written by tiny_emitter."""

import math
from pathlib import Path

import torch


def view(source, dtype, sizes, strides, offset):
    start = source.storage_offset() * source.element_size() + offset
    return torch.empty(0, dtype=dtype).set_(source.untyped_storage(), start // dtype.itemsize, sizes, strides)


def check(holds, message):
    if not holds:
        raise AssertionError(message)


def within(tensor):
    last = tensor.storage_offset() + sum((n - 1) * stride for n, stride in zip(tensor.size(), tensor.stride()))
    return not tensor.numel() or (last + 1) * tensor.element_size() <= tensor.untyped_storage().nbytes()


def has_layout(tensor, sizes, strides):
    return tensor.size() == torch.Size(sizes) and all(
        mine == given for mine, given, size in zip(tensor.stride(), strides, sizes) if size > 1
    )


def fits(tensor, dtype, sizes, strides):
    return tensor.dtype == dtype and tensor.dim() == len(sizes) and all(
        want is None or want == mine for want, mine in zip([*sizes, *strides], [*tensor.size(), *tensor.stride()])
    )

'''
FOOTER = '''

def load():
    """Returns the model's callable, with the constants and kernels beside this file."""
    import tiny_emitter
    import wrapper_ir

    return tiny_emitter.bind(main, wrapper_ir.load(Path(__file__).with_name("model.wir")))
'''


RESERVED = (
    "Path", "args", "check", "constants", "fits", "has_layout", "kernels", "math", "torch", "view", "within"
)  # fmt: skip


class FunctionWriter:
    """Writes one function, step by step."""

    def __init__(self, plan: Plan) -> None:
        self.fresh = python_names(RESERVED)
        constants = plan.program.constants
        self.names = {c.value: f"constants[{python_string(c.value.name)}]" for c in constants}
        self.symbols = {s.name: self.fresh(f"sym_{s.name}") for s in plan.program.symbols}

    def define(self, value: ir.Value) -> str:
        """Returns a new Python name for a value: `%buf0.s` is `buf0_s`."""
        name = self.names[value] = self.fresh(value.name)
        return name

    def end(self, values: Iterable[ir.Value]) -> str:
        """Returns a statement that ends names: Python frees memory when no name refers to a tensor in it."""
        names = [self.names.pop(value) for value in values]
        return f"del {', '.join(names)}" if names else ""

    def expr(self, e: Expr) -> str:
        """Returns a size, a condition or any other number."""
        return to_python(e, self.leaf)

    def leaf(self, e: Expr) -> str:
        """Returns a symbol, or an operand of a `define`."""
        match e:
            case Sym(name=name):
                return self.symbols[name]
            case ir.SizeOf(value=value, dim=dim):
                return f"{self.names[value]}.size({dim})"
            case ir.StrideOf(value=value, dim=dim):
                return f"{self.names[value]}.stride({dim})"
            case ir.OffsetOf(value=value):
                return f"{self.names[value]}.storage_offset()"
            case ir.Item(value=value) if isinstance(value.type, ir.TensorType):
                return f"{self.names[value]}.item()"
            case ir.Item(value=value):
                return self.names[value]
            case _:
                raise AssertionError(f"{e} is not a leaf")

    def arg(self, x: ir.Arg) -> str:
        """Returns an argument of a call."""
        match x:
            case ir.Value():
                return self.names[x]
            case Expr():
                return self.expr(x)
            case ir.Complex():
                return f"complex({self.expr(x.real)}, {self.expr(x.imag)})"
            case tuple():
                return f"[{', '.join(map(self.arg, x))}]"
            case ir.DType():
                return f"torch.{x.torch_name}"
            case ir.Device():
                return f"torch.device({python_string(str(x))})"
            case ir.MemoryFormat() | ir.Layout():
                return f"torch.{x.value}"
            case str():
                return python_string(x)
            case None:
                return "None"
            case _:
                assert_never(x)

    def exprs(self, es: Iterable[Expr]) -> str:
        """Returns sizes or strides."""
        return f"[{', '.join(map(self.expr, es))}]"

    def line(self, step: Step) -> str:
        """Returns one step as one line of Python."""
        if isinstance(step, Refused):
            raise refusal(step)
        match step:
            case Allocate(result=result, type=type, zero=zero):
                make = f"torch.empty_strided({self.layout(type)}, dtype={self.arg(type.dtype)})"
                return f"{self.define(result)} = {make}{'.zero_()' if zero else ''}"
            case EndStorage(ends=ends) | EndNames(ends=ends):
                return self.end(ends)
            case BeginSlot():  # steps that use a slot as a whole are refused: `Zero`, and calls of functions
                return ""
            case Same(result=result, source=source, ends=ends):
                return self.made(result, self.names[source], ends)
            case Window(result=result, source=source, offset=offset, ends=ends):
                return self.made(
                    result, self.view(result, source, offset * Int(result.type.dtype.itemsize)), ends
                )
            case ByteWindow(result=result, source=source, offset=offset, ends=ends):
                return self.made(result, self.view(result, source, offset), ends)
            case Copy(dst=dst, src=src):
                return f"{self.names[dst]}.copy_({self.names[src]})"
            case Launch(kernel=kernel, args=args):
                given = ", ".join(self.arg(arg) for _, arg in args)
                return f"kernels[{python_string(kernel.name)}]({given})"
            case CallOperator():
                return self.call(step)
            case Unpack(source=source, path=path, result=result):
                parts = "".join(f"[{python_string(p) if isinstance(p, str) else p}]" for p in path)
                return f"{self.define(result)} = {self.names[source]}{parts}"
            case Define(symbol=symbol, expr=expr):
                return f"{self.symbols[symbol]} = {self.expr(expr)}"
            case CheckInputs(inputs=inputs):
                return "; ".join(self.input(value, wanted) for value, wanted in inputs)
            case CheckStorages(storages=storages):
                return "; ".join(f"check(within({self.names[v]}), 'a storage')" for v, _ in storages)
            case CheckCondition(condition=condition, message=message):
                return f"check({self.expr(condition)}, {python_string(message or str(condition))})"
            case CheckLayout(value=value, alignment=alignment, message=message):
                holds = (
                    f"has_layout({self.names[value]}, {self.exprs(step.sizes)}, {self.exprs(step.strides)})"
                )
                line = f"check({holds}, {python_string(message or f'layout of {value.name}')})"
                return f"{line}; {self.aligned(value, alignment, message)}" if alignment else line
            case CheckResult(value=value):
                return self.of_type(value)
            case CheckApart(value=value, operands=operands):
                return self.apart(value, operands)
            case CheckAlignment(value=value, alignment=alignment, message=message):
                return self.aligned(value, alignment, message)
            case CheckFinite(value=value, message=message):
                said = python_string(message or f"{value.name} is finite")
                return f"check({self.names[value]}.isfinite().all(), {said})"
            case Comment(text=text):
                return f"# {python_comment(text)}"
            case Return(values=values):
                return f"return ({''.join(self.arg(v) + ', ' for v in values)})"
            case _:
                assert_never(step)

    def input(self, value: ir.Value, wanted: Input) -> str:
        """Returns the check of one argument. None is a size that depends on a symbol."""
        name = self.names[value]
        if isinstance(wanted, NumberInput):
            return f"check(type({name}) is {wanted.kind}, {python_string(f'{wanted.name} is not {wanted.kind}')})"
        assert isinstance(value.type, ir.TensorType)  # only tensors have such checks
        layout = f"{self.arg(value.type.dtype)}, {list(wanted.sizes)}, {list(wanted.fixed_strides)}"
        return f"check(fits({name}, {layout}), {python_string(f'{wanted.name} is not {wanted.text}')})"

    def of_type(self, value: ir.Value[ir.TensorType]) -> str:
        """Returns the check that a result is a tensor of its dtype."""
        name, dtype = self.names[value], self.arg(value.type.dtype)
        return f"check({name} is not None and {name}.dtype is {dtype}, 'a result')"

    def apart(self, value: ir.Value, operands: Iterable[ir.Value]) -> str:
        """Returns the check that a result has new memory."""
        address, *others = (f"{self.names[x]}.untyped_storage().data_ptr()" for x in (value, *operands))
        return f"check(not {address} or {address} not in ({', '.join(others)},), 'a new result')"

    def aligned(self, value: ir.Value, alignment: int, message: str) -> str:
        """Returns the check of an address."""
        said = python_string(message or f"{value.name} is aligned to {alignment} bytes")
        return f"check({self.names[value]}.data_ptr() % {alignment} == 0, {said})"

    def made(self, result: ir.Value, text: str, ends: tuple[ir.Value, ...]) -> str:
        """Returns the assignment of a new name, and ends the names that it replaces."""
        line, end = f"{self.define(result)} = {text}", self.end(ends)
        return f"{line}; {end}" if end else line

    def layout(self, type: ir.TensorType) -> str:
        """Returns sizes and strides."""
        return f"{self.exprs(type.sizes)}, {self.exprs(type.strides)}"

    def view(self, result: ir.Value[ir.TensorType], source: ir.Value, offset: Expr) -> str:
        """Returns a tensor over a window of bytes."""
        type = result.type
        return f"view({self.names[source]}, {self.arg(type.dtype)}, {self.layout(type)}, {self.expr(offset)})"

    def call(self, step: CallOperator) -> str:
        """Calls a library operator by its name in `torch.ops`, with the arguments that the call passes."""
        namespace, _, name = step.operator.extern.name.partition("::")
        operator, _, overload = name.partition(".")
        given = [self.arg(a.value) for a in step.arguments if a.given is Given.POSITION]
        named = [a for a in step.arguments if a.given is Given.KEYWORD]
        given += [python_keyword(a.schema.name, self.arg(a.value)) for a in named]
        callee = "torch.ops"
        for part in (namespace, operator, overload or "default"):
            callee = python_attribute(callee, part)
        call = f"{callee}({', '.join(given)})"
        return call if step.result is None else f"{self.define(step.result)} = {call}"


def refusal(step: Refused) -> NotSupportedError:
    """Returns the error for a step that is not written, with its source, the reason and the alternative."""
    place = ", ".join((*step.prov.ops, *step.prov.locations)) or "no source is recorded"
    return NotSupportedError(
        "TINY101",
        f"tiny_emitter cannot write {type(step).__name__} ({place}): {REFUSED[type(step)]}",
        hint="emit with the 'python' emitter, which writes all steps",
    )


def refuse_devices(program: ir.Program) -> None:
    """Raises NotSupportedError for values that are not on the CPU."""
    values = [p.value for p in program.main.params] + [v for op in program.main.body for v in ir.results(op)]
    for value in values:
        if isinstance(value.type, ir.TensorType | ir.StorageType) and value.type.device.type != "cpu":
            raise NotSupportedError(
                "TINY102",
                f"tiny_emitter cannot place %{value.name} on {value.type.device}: it writes for one CPU",
                hint="lower the program for the CPU",
            )


class TinyEmitter:
    """See `wrapper_ir.plugins.protocols.Emitter`."""

    name = "tiny"

    def emit(self, artifact: Artifact) -> str:
        """Returns Python source with a function `main(args, constants, kernels)`. Raises NotSupportedError."""
        program = artifact.program
        wrapper_ir.verify(artifact)
        refuse_devices(program)
        plan = lower(artifact, LoweringOptions(hoist_windows=False))
        out = FunctionWriter(plan)
        params = "".join(f"{out.define(param.value)}, " for param in program.main.params)
        lines = [f"{params}= args" if params else "", "args.clear()", *map(out.line, plan.main.steps)]
        body = "".join(f"    {line}\n" for line in lines if line)
        return f"{HEADER}\n@torch.no_grad()\ndef main(args, constants, kernels):\n{body}{FOOTER}"

    def write(self, artifact: Artifact, folder: Path) -> tuple[Path, ...]:
        """Writes `main.py`, and beside it the artifact, for its constants and kernels."""
        files = (folder / "main.py", folder / "model.wir")
        files[0].write_text(self.emit(artifact), encoding="utf-8")
        wrapper_ir.save(artifact, files[1])
        return files

    def compile(self, artifact: Artifact, guarded: ir.Guarded = ir.NOT_GUARDED) -> CompiledProgram:
        """Returns a callable with the model's signature and result structure.

        `guarded` has no effect, because inputs are never checked.
        """
        scope: dict[str, Any] = {"__file__": "<tiny_emitter>"}
        exec(compile(self.emit(artifact), "<tiny_emitter>", "exec"), scope)
        return bind(scope["main"], artifact)


def bind(main: Callable[..., Any], artifact: Artifact) -> CompiledProgram:
    """Binds an emitted `main` to its constants and kernels, with the model's signature."""
    program = artifact.program
    torch_machine = machine("torch")
    alignment = Analyses(program).get(constant_alignment)
    constants = {
        c.value.name: torch_machine.constant(
            artifact.constants[c.value.name], c.value.type, c.mutable, alignment
        )
        for c in program.constants
        if isinstance(c.value.type, ir.TensorType)
    }
    kernels = load_kernels(program.kernels, program.target)

    def boxed(args: list[Any]) -> tuple[Any, ...]:
        flat: tuple[Any, ...] = main(args, constants, kernels)
        return flat

    return signature_call(artifact.signature, boxed, torch_machine.caller)


EMITTER = TinyEmitter()
