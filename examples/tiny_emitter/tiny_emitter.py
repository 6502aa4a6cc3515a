"""A complete small emitter: straight-line programs to Python with plain torch calls.

`docs/write-an-emitter.md` walks through this file.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from pathlib import Path
from types import MappingProxyType
from typing import Any, assert_never

import wrapper_ir
from wrapper_ir.alignment import constant_alignment
from wrapper_ir.analyses import Analyses
from wrapper_ir.artifact import Artifact
from wrapper_ir.errors import NotSupportedError
from wrapper_ir.expr import Expr, Item, OffsetOf, SizeOf, StrideOf, Sym, to_python
from wrapper_ir.guarded import NOT_GUARDED, Guarded
from wrapper_ir.ops import (
    AllocStorage,
    Arg,
    AssertExpr,
    AssertFinite,
    AssertLayout,
    Barrier,
    CallExtern,
    CallSubgraph,
    CollectiveStart,
    Comment,
    Complex,
    Copy,
    DebugValue,
    Define,
    Drop,
    EnsureAligned,
    EnterMemoryPool,
    EnterProfile,
    ExitScope,
    Free,
    Launch,
    Op,
    RecordEvent,
    ResizeStorage,
    Return,
    SetStorage,
    Slot,
    Switch,
    SyncEvent,
    Unpack,
    View,
    Wait,
    WaitEvent,
    WhileLoop,
    ZeroMode,
)
from wrapper_ir.ops.check import asserted_layouts
from wrapper_ir.program import Function, Program
from wrapper_ir.protocols import CompiledProgram
from wrapper_ir.quoting import (
    python_attribute,
    python_comment,
    python_keyword,
    python_names,
    python_string,
)
from wrapper_ir.registry import machine
from wrapper_ir.runtime import load_kernels, signature_call
from wrapper_ir.structure import results
from wrapper_ir.types import Device, DType, Layout, MemoryFormat, StorageType, TensorType
from wrapper_ir.values import Value

__all__ = ["EMITTER", "REFUSED", "TinyEmitter"]

Refused = (
    Switch
    | WhileLoop
    | CallSubgraph
    | RecordEvent
    | WaitEvent
    | SyncEvent
    | Barrier
    | EnterProfile
    | EnterMemoryPool
    | ExitScope
    | CollectiveStart
    | Wait
    | EnsureAligned
    | ResizeStorage
    | SetStorage
    | DebugValue
)
REFUSED: Mapping[type[Refused], str] = MappingProxyType(
    {
        Switch: "it writes one function",
        WhileLoop: "it writes one function",
        CallSubgraph: "it writes one function",
        RecordEvent: "it writes for one CPU",
        WaitEvent: "it writes for one CPU",
        SyncEvent: "it writes for one CPU",
        Barrier: "it keeps no other order than that of a CPU",
        EnterProfile: "nobody profiles what it writes",
        EnterMemoryPool: "it writes for one CPU",
        ExitScope: "it writes no scopes",
        CollectiveStart: "it writes for one process",
        Wait: "it writes for one process",
        EnsureAligned: "torch cannot be asked for an alignment",
        ResizeStorage: "storages are as torch made them",
        SetStorage: "storages are as torch made them",
        DebugValue: "there is nobody to show values to",
    }
)
"""Every op that this emitter does not write, and why. All others it writes."""

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


def has_layout(tensor, sizes, strides):
    return tensor.size() == torch.Size(sizes) and all(
        mine == given for mine, given, size in zip(tensor.stride(), strides, sizes) if size > 1
    )

'''
FOOTER = '''

def load():
    """The model's callable, with the constants and kernels that lie beside this file."""
    import tiny_emitter
    import wrapper_ir

    return tiny_emitter.bind(main, wrapper_ir.load(Path(__file__).with_name("model.wir")))
'''


RESERVED = ("Path", "args", "check", "constants", "has_layout", "kernels", "math", "torch", "view")


class FunctionWriter:
    """Writes one function, an op at a time."""

    def __init__(self, function: Function, analyses: Analyses) -> None:
        self.aliasing = analyses.aliasing(function)
        self.fresh = python_names(RESERVED)
        self.names = {c.value: f"constants[{python_string(name)}]" for name, c in analyses.constants.items()}
        self.symbols = {name: self.fresh(f"sym_{name}") for name in analyses.symbols}

    def tensors_over(self, storage: Value) -> list[Value]:
        """The storage and all tensors of it that have a Python name now: Python keeps bytes as long as any has."""
        over = (v for v, roots in self.aliasing.roots.items() if storage in roots)
        return [v for v in over if v in self.names and v not in self.aliasing.uncertain]

    def end(self, values: Iterable[Value]) -> list[str]:
        """The names of values that are not used any more."""
        return [self.names.pop(value) for value in values]

    def define(self, value: Value) -> str:
        """A fresh Python name for a value: `%buf0.s` is `buf0_s`."""
        name = self.names[value] = self.fresh(value.name)
        return name

    def expr(self, e: Expr) -> str:
        """A size, a condition, any number."""
        return to_python(e, self.leaf)

    def leaf(self, e: Expr) -> str:
        """A symbol, or what a `define` looks at."""
        match e:
            case Sym(name=name):
                return self.symbols[name]
            case SizeOf(value=value, dim=dim):
                return f"{self.names[value]}.size({dim})"
            case StrideOf(value=value, dim=dim):
                return f"{self.names[value]}.stride({dim})"
            case OffsetOf(value=value):
                return f"{self.names[value]}.storage_offset()"
            case Item(value=value) if isinstance(value.type, TensorType):
                return f"{self.names[value]}.item()"
            case Item(value=value):
                return self.names[value]
            case _:
                raise AssertionError(f"{e} is no leaf")

    def arg(self, x: Arg) -> str:
        """An argument of a call."""
        match x:
            case Value():
                return self.names[x]
            case Expr():
                return self.expr(x)
            case Complex():
                return f"complex({self.expr(x.real)}, {self.expr(x.imag)})"
            case tuple():
                return f"[{', '.join(map(self.arg, x))}]"
            case DType():
                return f"torch.{x.torch_name}"
            case Device():
                return f"torch.device({python_string(str(x))})"
            case MemoryFormat() | Layout():
                return f"torch.{x.value}"
            case str():
                return python_string(x)
            case None:
                return "None"
            case _:
                assert_never(x)

    def exprs(self, es: Iterable[Expr]) -> str:
        """Sizes or strides."""
        return f"[{', '.join(map(self.expr, es))}]"

    def line(self, op: Op) -> str:
        """One op as one line of Python."""
        if isinstance(op, Refused):
            raise refusal(op)
        match op:
            case AllocStorage(result=result, zero=zero):
                assert isinstance(result.type, StorageType)  # the verifier's rule WIR014
                make = "empty" if zero is ZeroMode.NONE else "zeros"
                return f"{self.define(result)} = torch.{make}({self.expr(result.type.nbytes)}, dtype=torch.uint8)"
            case Free(storage=storage):
                return f"del {', '.join(self.end(self.tensors_over(storage)))}"
            case Drop(value=value):
                return f"del {', '.join(self.end([value]))}"
            case Slot(pool=pool, result=result, offset=offset):
                assert isinstance(result.type, StorageType)  # WIR014
                part = f"{self.expr(offset)}:{self.expr(offset + result.type.nbytes)}"
                return f"{self.define(result)} = {self.names[pool]}[{part}]"
            case View(source=source, result=result, offset=offset):
                type = result.type
                assert isinstance(type, TensorType)  # WIR014
                given = (
                    self.names[source],
                    self.arg(type.dtype),
                    self.exprs(type.sizes),
                    self.exprs(type.strides),
                )
                return f"{self.define(result)} = view({', '.join(given)}, {self.expr(offset)})"
            case Copy(dst=dst, src=src):
                return f"{self.names[dst]}.copy_({self.names[src]})"
            case Launch(kernel=kernel, args=args):
                return f"kernels[{python_string(kernel)}]({', '.join(map(self.arg, args))})"
            case CallExtern():
                return self.call(op)
            case Unpack(source=source, path=path, result=result):
                steps = "".join(f"[{python_string(s) if isinstance(s, str) else s}]" for s in path)
                return f"{self.define(result)} = {self.names[source]}{steps}"
            case Define(symbol=symbol, expr=expr):
                return f"{self.symbols[symbol]} = {self.expr(expr)}"
            case AssertExpr(condition=condition, message=message):
                return f"check({self.expr(condition)}, {python_string(message or str(condition))})"
            case AssertLayout(message=message):
                holds = " and ".join(
                    f"has_layout({self.names[tensor]}, {self.exprs(sizes)}, {self.exprs(strides)})"
                    for tensor, sizes, strides in asserted_layouts(op)
                )
                named = ", ".join(tensor.name for tensor in op.tensors)
                return f"check({holds or True}, {python_string(message or f'layout of {named}')})"
            case AssertFinite(tensor=tensor, message=message):
                said = python_string(message or f"{tensor.name} is finite")
                return f"check({self.names[tensor]}.isfinite().all(), {said})"
            case Comment(text=text):
                return f"# {python_comment(text)}"
            case Return(values=values):
                return f"return ({''.join(self.arg(v) + ', ' for v in values)})"
            case _:
                assert_never(op)

    def call(self, op: CallExtern) -> str:
        """A library operator, by the name it has in `torch.ops`."""
        namespace, _, name = op.target.partition("::")
        operator, _, overload = name.partition(".")
        given = [*map(self.arg, op.args), *(python_keyword(key, self.arg(value)) for key, value in op.kwargs)]
        callee = "torch.ops"
        for part in (namespace, operator, overload or "default"):
            callee = python_attribute(callee, part)
        call = f"{callee}({', '.join(given)})"
        return call if op.result is None else f"{self.define(op.result)} = {call}"


def refusal(op: Refused) -> NotSupportedError:
    """The error for an op that is not written: what, where it came from, why, and the way out."""
    place = ", ".join((*op.prov.ops, *op.prov.locations)) or "no source is recorded"
    return NotSupportedError(
        "TINY101",
        f"tiny_emitter cannot write {type(op).__name__} ({place}): {REFUSED[type(op)]}",
        hint="emit with the 'python' emitter, which writes all ops",
    )


def refuse_devices(program: Program) -> None:
    """Raises NotSupportedError where anything is not on the CPU."""
    values = [p.value for p in program.main.params] + [v for op in program.main.body for v in results(op)]
    for value in values:
        if isinstance(value.type, TensorType | StorageType) and value.type.device.type != "cpu":
            raise NotSupportedError(
                "TINY102",
                f"tiny_emitter cannot place %{value.name} on {value.type.device}: it writes for one CPU",
                hint="lower the program for the CPU",
            )


class TinyEmitter:
    """See `wrapper_ir.protocols.Emitter`."""

    name = "tiny"

    def emit(self, artifact: Artifact) -> str:
        """Python source with a function `main(args, constants, kernels)`; raises NotSupportedError."""
        program = artifact.program
        wrapper_ir.verify(artifact)
        refuse_devices(program)
        out = FunctionWriter(program.main, Analyses(program))
        params = "".join(f"{out.define(param.value)}, " for param in program.main.params)
        lines = [f"{params}= args" if params else "", "args.clear()", *map(out.line, program.main.body)]
        body = "".join(f"    {line}\n" for line in lines if line)
        return f"{HEADER}\n@torch.no_grad()\ndef main(args, constants, kernels):\n{body}{FOOTER}"

    def write(self, artifact: Artifact, folder: Path) -> tuple[Path, ...]:
        """`main.py`, and the artifact beside it for its constants and kernels."""
        files = (folder / "main.py", folder / "model.wir")
        files[0].write_text(self.emit(artifact), encoding="utf-8")
        wrapper_ir.save(artifact, files[1])
        return files

    def compile(self, artifact: Artifact, guarded: Guarded = NOT_GUARDED) -> CompiledProgram:
        """A callable that takes the model's arguments and returns the model's own output structure. It
        checks no inputs, so that nothing is gained where they are guarded."""
        scope: dict[str, Any] = {"__file__": "<tiny_emitter>"}
        exec(compile(self.emit(artifact), "<tiny_emitter>", "exec"), scope)
        return bind(scope["main"], artifact)


def bind(main: Callable[..., Any], artifact: Artifact) -> CompiledProgram:
    """Gives an emitted `main` its constants and kernels, and the model's signature."""
    program = artifact.program
    torch_machine = machine("torch")
    alignment = Analyses(program).get(constant_alignment)
    constants = {
        c.value.name: torch_machine.constant(
            artifact.constants[c.value.name], c.value.type, c.mutable, alignment
        )
        for c in program.constants
        if isinstance(c.value.type, TensorType)
    }
    kernels = load_kernels(program.kernels, program.target)

    def boxed(args: list[Any]) -> tuple[Any, ...]:
        flat: tuple[Any, ...] = main(args, constants, kernels)
        return flat

    return signature_call(artifact.signature, boxed, torch_machine.caller)


EMITTER = TinyEmitter()
