"""Launches of Triton kernels that passes define by a source of this package."""

from __future__ import annotations

import ast
import dataclasses
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import lru_cache
from pathlib import Path

from wrapper_ir import ir
from wrapper_ir.analysis.alignment import Congruence, analyse_alignment
from wrapper_ir.analysis.memo import Analyses
from wrapper_ir.analysis.sizes import Sizes
from wrapper_ir.expr import Expr, Int, Interval, bounds, prove_eq

DIVISIBLE = 16
INT32 = 2**31 - 1
_Tensor = ir.Value[ir.TensorType]


def fixed_number(size: Expr) -> int | None:
    """Returns the value of a number that is the same in all calls, None for others."""
    modulus, rest = ir.remainder(size)
    return None if modulus else rest


def expanded_strides(type: ir.TensorType, sizes: Sequence[Expr]) -> tuple[Expr, ...] | None:
    """Returns the strides of a tensor that is expanded to these sizes; None if it may have others."""
    strides: list[Expr] = [Int(0)] * (len(sizes) - len(type.sizes))
    for size, stride, target in zip(type.sizes, type.strides, sizes[len(strides) :], strict=False):
        if not prove_eq(size, target) and size != Int(1):
            return None
        strides.append(stride if prove_eq(size, target) else Int(0))
    return tuple(strides) if len(strides) == len(sizes) else None


@lru_cache
def _source(file: str) -> str:
    return (Path(__file__).parent / file).read_text(encoding="utf-8")


@lru_cache
def _order(file: str, entry: str) -> tuple[str, ...]:
    """Returns the parameters of a function of the source, in order."""
    functions = (node for node in ast.parse(_source(file)).body if isinstance(node, ast.FunctionDef))
    return tuple(a.arg for function in functions if function.name == entry for a in function.args.args)


@dataclass(frozen=True, slots=True, kw_only=True)
class SourceKernel:
    """The function `entry` of a source with its arguments, of which `outputs` are written.

    Numbers that are the same in all calls become constants, so that equal kernels are shared. The grid is
    over numbers, `grid_param`, and the meta-parameters.
    """

    file: str
    entry: str
    tensors: Mapping[str, _Tensor]
    outputs: Collection[str]
    numbers: Mapping[str, Expr]
    constants: Mapping[str, ir.ConstantValue]
    configs: tuple[ir.TritonConfig, ...]
    grid: Expr
    grid_param: str

    def argument(self, name: str) -> ir.Arg:
        """Returns the argument for a parameter."""
        return self.tensors[name] if name in self.tensors else self.numbers[name]

    def definition(self, name: str, ranges: Mapping[str, Interval]) -> ir.TritonKernel:
        """Returns the kernel as a definition, whose pointers are declared as divisible."""
        order = _order(self.file, self.entry)
        meta = {key for key, _ in self.configs[0].meta}
        params: list[ir.KernelParam] = []
        constants: list[tuple[str, ir.ConstantValue]] = []
        for each in order:
            number = self.numbers.get(each)
            fixed = None if number is None else fixed_number(number)
            if each in self.tensors:
                params.append(self._pointer(each))
            elif number is not None and fixed is None:
                params.append(_scalar(each, number, ranges))
            elif each not in meta:
                constants.append((each, self.constants.get(each, fixed)))
        return ir.TritonKernel(
            name=name,
            params=tuple(params),
            source=_source(self.file),
            entry=self.entry,
            order=order,
            configs=self.configs,
            grid=(self.grid,),
            grid_params=(self.grid_param,),
            constants=tuple(constants),
        )

    def _pointer(self, name: str) -> ir.KernelParam:
        access = ir.Access.WRITE if name in self.outputs else ir.Access.READ
        dtype = self.tensors[name].type.dtype
        return ir.KernelParam(
            name=name, kind=ir.ParamKind.POINTER, dtype=dtype, access=access, divisible=DIVISIBLE
        )


def _scalar(name: str, number: Expr, ranges: Mapping[str, Interval]) -> ir.KernelParam:
    interval = bounds(number, ranges)
    dtype = ir.DType.I32 if interval.low >= 0 and interval.high <= INT32 else ir.DType.I64
    modulus, rest = ir.remainder(number)
    divisible = 1 if modulus % DIVISIBLE or rest % DIVISIBLE else DIVISIBLE
    return ir.KernelParam(name=name, kind=ir.ParamKind.SCALAR, dtype=dtype, divisible=divisible)


@dataclass
class SourceLaunches:
    """Writes launches, and collects `kernels`, one for each, whose pointers are declared as divisible."""

    analyses: Analyses
    kernels: dict[str, ir.TritonKernel] = field(default_factory=dict)

    def __post_init__(self) -> None:
        program = self.analyses.program
        self.sizes = Sizes(program)
        self.ranges = {s.name: Interval(s.lower, s.upper) for s in program.symbols}
        self.reserved = {kernel.name for kernel in program.kernels}

    def launch(self, kernel: SourceKernel, op: ir.CallExtern, grid_argument: Expr) -> ir.Launch:
        """Returns a launch of a kernel that is defined for it alone."""
        name = f"{kernel.entry}_{len(self.kernels)}"
        while name in self.reserved:
            name += "_"
        self.kernels[name] = kernel.definition(name, self.ranges)
        args = tuple(kernel.argument(p.name) for p in self.kernels[name].params)
        return ir.Launch(kernel=name, args=args, grid=(grid_argument,), stream=op.stream, prov=op.prov)


def with_kernels(
    program: ir.Program,
    functions: Sequence[ir.Function],
    kernels: Mapping[str, ir.TritonKernel],
    operators: Collection[str],
) -> ir.Program:
    """Returns a program of functions that launch `kernels`, with one definition for all that are equal.

    Without kernels it is `program`. Pointers stay divisible only where their launch proves it. Declarations
    of `operators` go if nothing calls them.
    """
    if not kernels:
        return program
    changed = dataclasses.replace(
        program.with_functions(functions), kernels=(*program.kernels, *kernels.values())
    )
    aligned = _aligned(changed, kernels)
    first: dict[ir.TritonKernel, str] = {}
    names = {
        name: first.setdefault(dataclasses.replace(kernel, name=""), name) for name, kernel in aligned.items()
    }
    targets = {op.target for op in changed.ops_of(ir.CallExtern)}
    return dataclasses.replace(
        changed.with_functions([f.with_body(_renamed(f, names)) for f in changed.functions]),
        kernels=(*program.kernels, *(aligned[name] for name in first.values())),
        externs=tuple(e for e in program.externs if e.name not in operators or e.name in targets),
    )


def _renamed(function: ir.Function, names: Mapping[str, str]) -> Iterator[ir.Op]:
    for op in function.body:
        match op:
            case ir.Launch(kernel=kernel) if kernel in names:
                yield dataclasses.replace(op, kernel=names[kernel])
            case _:
                yield op


def _aligned(program: ir.Program, kernels: Mapping[str, ir.TritonKernel]) -> Mapping[str, ir.TritonKernel]:
    """Returns the kernels, whose pointers are declared as divisible only where their launch proves it."""
    alignment, aligned = Analyses(program).get(analyse_alignment), dict[str, ir.TritonKernel]()
    for function in program.functions:
        pointers = alignment.of(function)
        for position, op in function.positions_of(ir.Launch):
            if op.kernel in kernels:
                multiples = {p.param.name for p in pointers.get(position, ()) if _is_multiple(p.address)}
                kernel = kernels[op.kernel]
                params = tuple(_declared(param, multiples) for param in kernel.params)
                aligned[op.kernel] = dataclasses.replace(kernel, params=params)
    return aligned


def _is_multiple(address: Congruence) -> bool:
    return not (address.modulus % DIVISIBLE or address.rest % DIVISIBLE)


def _declared(param: ir.KernelParam, multiples: Collection[str]) -> ir.KernelParam:
    is_known = param.name in multiples or not param.kind.takes_tensor
    return param if is_known else dataclasses.replace(param, divisible=1)
