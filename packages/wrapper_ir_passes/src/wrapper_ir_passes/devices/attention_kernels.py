"""Turns calls of attention on CUDA devices into launches of a Triton kernel."""

from __future__ import annotations

import dataclasses
import logging
from collections.abc import Collection, Iterator, Mapping
from typing import ClassVar

from wrapper_ir import ir
from wrapper_ir.analysis.alignment import Congruence, analyse_alignment
from wrapper_ir.analysis.memo import Analyses
from wrapper_ir.artifact import Artifact
from wrapper_ir.plugins.passes import Pass
from wrapper_ir_passes.cleanup.derive_frees import DeriveFrees, derive_frees
from wrapper_ir_passes.cleanup.new_names import NewNames
from wrapper_ir_passes.cleanup.random_states import with_drawn_states
from wrapper_ir_passes.cleanup.result_storages import can_allocate, is_settled
from wrapper_ir_passes.devices.attention_calls import OPERATORS, Attention, attention_of
from wrapper_ir_passes.devices.attention_launches import DIVISIBLE, AttentionLaunches

_LOG = logging.getLogger(__name__)


@dataclasses.dataclass(frozen=True)
class AttentionKernels(Pass):
    """Turns calls of attention on CUDA devices into launches of a Triton kernel that the program defines.

    The calls are those of flash, memory-efficient and cuDNN attention without dropout, of whose results the
    program reads only the first. Their memory becomes part of the program, so CUDA graphs can contain them,
    and libraries without torch can run them. Rows without a visible key become 0. Log level INFO reports the
    calls that stay, with the reason. Lifetimes are derived again.
    """

    name: ClassVar[str] = "attention-kernels"
    repairs: ClassVar[frozenset[str]] = DeriveFrees.repairs

    def transform(self, analyses: Analyses) -> ir.Program:
        """Returns the program with fewer calls of attention."""
        changed = _with_kernels(analyses)
        return changed if changed is analyses.program else derive_frees(changed)

    def comparable(self, before: ir.Program, after: ir.Program) -> tuple[ir.Program, ir.Program]:
        """Returns both programs with the kernels: sums in another order have other values."""
        return _with_kernels(Analyses(before)), after

    def around(self, artifact: Artifact, program: ir.Program) -> Artifact:
        """Returns the artifact without random states that only replaced calls declare."""
        return with_drawn_states(artifact, program)


def _with_kernels(analyses: Analyses) -> ir.Program:
    program, launches = analyses.program, AttentionLaunches(analyses)
    functions = [f.with_body(_body(f, analyses, launches)) for f in program.functions]
    if not launches.kernels:
        return program
    kernels = (*program.kernels, *launches.kernels.values())
    changed = dataclasses.replace(program.with_functions(functions), kernels=kernels)
    aligned = _aligned(changed, launches.kernels)
    first: dict[ir.TritonKernel, str] = {}
    names = {name: first.setdefault(_unnamed(kernel), name) for name, kernel in aligned.items()}
    targets = {op.target for op in changed.ops_of(ir.CallExtern)}
    return dataclasses.replace(
        changed.with_functions([f.with_body(_renamed(f, names)) for f in changed.functions]),
        kernels=(*program.kernels, *(aligned[name] for name in first.values())),
        externs=tuple(e for e in program.externs if e.name not in OPERATORS or e.name in targets),
    )


def _unnamed(kernel: ir.TritonKernel) -> ir.TritonKernel:
    return dataclasses.replace(kernel, name="")


def _renamed(function: ir.Function, names: Mapping[str, str]) -> Iterator[ir.Op]:
    for op in function.body:
        match op:
            case ir.Launch(kernel=kernel) if kernel in names:
                yield dataclasses.replace(op, kernel=names[kernel])
            case _:
                yield op


def _body(function: ir.Function, analyses: Analyses, launches: AttentionLaunches) -> Iterator[ir.Op]:
    symbols, replaced = set(function.captures), set[ir.Value]()
    new = NewNames(function, analyses)
    for op in function.body:
        match op:
            case ir.Define(symbol=symbol):
                symbols.add(symbol)
                yield op
            case ir.CallExtern(target=target, result=ir.Value() as result) if target in OPERATORS:
                match _known(attention_of(op, function, analyses), symbols):
                    case Attention() as call:
                        yield from launches.write(call, op, new)
                        replaced |= {result, call.result}
                    case reason:
                        _LOG.info("@%s calls %s for %%%s: %s", function.name, target, result.name, reason)
                        yield op
            case ir.Unpack(source=source) | ir.Drop(value=source) if source in replaced:
                pass
            case _ if is_settled(op, replaced):
                pass
            case _:
                yield op


def _known(call: Attention | str, symbols: Collection[str]) -> Attention | str:
    """Returns the argument, or the reason why nothing can be launched where these symbols are known."""
    match call:
        case Attention(operands=operands, result=result):
            symbols_used = frozenset[str]().union(*(ir.type_symbols(value.type) for value in operands))
            if symbols_used <= {*symbols} and can_allocate(result, symbols):
                return call
            return "its sizes are not known before the call, or its result is not dense"
        case reason:
            return reason


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
