"""Turns calls of attention on CUDA devices into launches of a Triton kernel."""

from __future__ import annotations

import dataclasses
import logging
from collections.abc import Collection, Iterator
from typing import ClassVar

from wrapper_ir import ir
from wrapper_ir.analysis.memo import Analyses
from wrapper_ir.artifact import Artifact
from wrapper_ir.plugins.passes import Pass
from wrapper_ir_passes.cleanup.derive_frees import DeriveFrees, derive_frees
from wrapper_ir_passes.cleanup.new_names import NewNames
from wrapper_ir_passes.cleanup.random_states import with_drawn_states
from wrapper_ir_passes.cleanup.result_storages import can_allocate, is_settled
from wrapper_ir_passes.devices.attention_calls import OPERATORS, Attention, attention_of
from wrapper_ir_passes.devices.attention_launches import AttentionLaunches
from wrapper_ir_passes.devices.source_kernels import with_kernels

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
    return with_kernels(program, functions, launches.kernels, OPERATORS)


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
