"""Steps that run kernels, operators and collectives."""

from __future__ import annotations

import enum
from dataclasses import dataclass
from typing import ClassVar

from wrapper_ir import ir
from wrapper_ir.expr import Expr
from wrapper_ir_lowering.steps.base import StepBase, Stream


class Given(enum.Enum):
    """Forms of an argument: by position, by keyword, or omitted."""

    POSITION = "position"
    KEYWORD = "keyword"
    DEFAULT = "default"


@dataclass(frozen=True, slots=True, kw_only=True)
class Argument:
    """One argument of an operator: the facts of its schema (name, type, whether it is written), and its
    value.

    The value is the schema's default if the call omits it. A single number for `int[2]` represents the whole
    list.
    """

    schema: ir.SchemaArg
    value: ir.Arg
    given: Given
    is_default: bool
    """True if the value is the schema's default."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Launch(StepBase):
    """Launches a kernel. `args` are in the order of the kernel's parameters; the numbers of its grid
    follow them. Text: `launch @relu(x: %x, n: 4*s0) grid(s0)`."""

    syntax: ClassVar[str] = "launch {kernel}({args})< grid({grid})>< extents({extents})>< {stream}>"

    kernel: ir.KernelDef
    args: tuple[tuple[ir.KernelParam, ir.Arg], ...]
    grid: tuple[Expr, ...] = ()
    extents: tuple[Expr, ...] = ()
    stream: Stream | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class CallOperator(StepBase):
    """Calls a library operator. `arguments` are all of its schema's, in order.
    Text: `call aten::add.out(self=%x, other=%y, alpha=1, out=%buf0)`."""

    syntax: ClassVar[str] = "<{result} = >call {operator}({arguments})< {stream}>< : {result:type}>"

    operator: ir.ExternInfo
    arguments: tuple[Argument, ...]
    result: ir.Value[ir.Type] | None = None
    stream: Stream | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class StartCollective(StepBase):
    """Starts a collective of `group`.

    Its results stand for the operator's returns, or with `is_list` for the elements of the list that it
    returns; with `is_finished` the step waits for all of them, and no `Wait` follows. Text: `%h = start
    c10d::all_reduce(input=%x, group_name="tp") group("tp") : f32[8]`.
    """

    syntax: ClassVar[str] = (
        "<{results} = >start {operator}({arguments}) group({group})< {is_list:list}>< "
        "{is_finished:finished}>< {stream}>< : {results:type}>"
    )

    operator: ir.ExternInfo
    arguments: tuple[Argument, ...]
    results: tuple[ir.Value[ir.TensorType], ...]
    group: str
    is_list: bool
    is_finished: bool = False
    stream: Stream | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Wait(StepBase):
    """Waits for a result of a collective. Text: `%y = wait %h`."""

    syntax: ClassVar[str] = "{result} = wait {source}"

    result: ir.Value[ir.TensorType]
    source: ir.Value[ir.TensorType]


@dataclass(frozen=True, slots=True, kw_only=True)
class Unpack(StepBase):
    """The value at `path` of a nested result; the result itself where the path is empty.
    Text: `%y = unpack %t[0] : f32[8]`."""

    syntax: ClassVar[str] = "{result} = unpack {source}{path:path} : {result:type}"

    result: ir.Value[ir.Type]
    source: ir.Value[ir.Type]
    path: tuple[int | str, ...] = ()


CallStep = Launch | CallOperator | StartCollective | Wait | Unpack
