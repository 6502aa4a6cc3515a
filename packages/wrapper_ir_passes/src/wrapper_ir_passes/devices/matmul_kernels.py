"""Turns matmuls on CUDA devices into launches of Triton kernels."""

from __future__ import annotations

import dataclasses
import logging
from collections.abc import Collection, Iterator
from typing import ClassVar

from wrapper_ir import ir
from wrapper_ir.analysis.memo import Analyses
from wrapper_ir.plugins.passes import Pass
from wrapper_ir_passes.cleanup.derive_frees import DeriveFrees, derive_frees
from wrapper_ir_passes.cleanup.new_names import NewNames
from wrapper_ir_passes.cleanup.result_storages import can_allocate, is_settled
from wrapper_ir_passes.devices.matmul_calls import OPERATORS, Matmul, matmul_of
from wrapper_ir_passes.devices.matmul_launches import MatmulLaunches
from wrapper_ir_passes.devices.source_kernels import with_kernels

_LOG = logging.getLogger(__name__)


@dataclasses.dataclass(frozen=True)
class MatmulKernels(Pass):
    """Turns matmuls on CUDA devices into launches of Triton kernels that the program defines.

    The calls are those of `mm`, `addmm`, `bmm` and `baddbmm`, and of their out variants, whose operands have
    one type: `f32` (in full precision), `f16` or `bf16`. Libraries of such programs open no cuBLAS. A model
    of the device chooses the kernel, its blocks, and the number of programs that share a sum. `rows` limits
    the calls to those with at most so many rows, as hinted; 0 is no limit. Log level INFO reports the calls
    that stay, with the reason. Lifetimes are derived again.
    """

    name: ClassVar[str] = "matmul-kernels"
    repairs: ClassVar[frozenset[str]] = DeriveFrees.repairs

    rows: int = 0

    def transform(self, analyses: Analyses) -> ir.Program:
        """Returns the program with fewer calls of matmuls."""
        changed = self._with_kernels(analyses)
        return changed if changed is analyses.program else derive_frees(changed)

    def comparable(self, before: ir.Program, after: ir.Program) -> tuple[ir.Program, ir.Program]:
        """Returns both programs with the kernels: sums in another order have other values."""
        return self._with_kernels(Analyses(before)), after

    def _with_kernels(self, analyses: Analyses) -> ir.Program:
        program, launches = analyses.program, MatmulLaunches(analyses)
        functions = [f.with_body(self._body(f, analyses, launches)) for f in program.functions]
        return with_kernels(program, functions, launches.kernels, OPERATORS)

    def _body(self, function: ir.Function, analyses: Analyses, launches: MatmulLaunches) -> Iterator[ir.Op]:
        symbols, allocated = set(function.captures), set[ir.Value]()
        new = NewNames(function, analyses)
        for op in function.body:
            match op:
                case ir.Define(symbol=symbol):
                    symbols.add(symbol)
                    yield op
                case ir.CallExtern(target=target) if target in OPERATORS:
                    match self._supported(matmul_of(op, analyses), symbols, launches):
                        case Matmul() as call:
                            yield from launches.write(call, op, new)
                            allocated |= {call.result} if call.is_new else set()
                        case reason:
                            _LOG.info("@%s calls %s: %s", function.name, target, reason)
                            yield op
                case _ if is_settled(op, allocated):
                    pass
                case _:
                    yield op

    def _supported(
        self, call: Matmul | str, symbols: Collection[str], launches: MatmulLaunches
    ) -> Matmul | str:
        """Returns the argument, or the reason against its kernel where these symbols are known."""
        match call:
            case Matmul(tensors=tensors, result=result):
                operands = frozenset[str]().union(*(ir.type_symbols(value.type) for value in tensors))
                if not operands <= {*symbols} or (call.is_new and not can_allocate(result, symbols)):
                    return "its sizes are not known before the call, or its result is not dense"
                if self.rows and launches.sizes.number(call.sizes[1]) > self.rows:
                    return f"it has more than {self.rows} rows"
                return call
            case reason:
                return reason
