"""Gives operators that allocate their result a storage of the program instead."""

from __future__ import annotations

import dataclasses
import enum
from collections.abc import Iterator, Mapping
from typing import ClassVar

from wrapper_ir import ir
from wrapper_ir.analysis.memo import Analyses
from wrapper_ir.artifact import Artifact
from wrapper_ir.operators.native import ATTENTION
from wrapper_ir.plugins.passes import Pass
from wrapper_ir_passes.cleanup.derive_frees import DeriveFrees, derive_frees
from wrapper_ir_passes.cleanup.new_names import NewNames
from wrapper_ir_passes.cleanup.random_states import with_drawn_states
from wrapper_ir_passes.cleanup.result_storages import allocate_result, can_allocate, is_settled
from wrapper_ir_passes.memory.native_attention import attention_calls
from wrapper_ir_passes.memory.out_variants import NATIVE_VARIANTS, OUT_VARIANTS, out_variant


class Runtime(enum.Enum):
    """Runtimes of operators."""

    TORCH = "torch"
    NATIVE = "native"


_VARIANTS = {Runtime.TORCH: OUT_VARIANTS, Runtime.NATIVE: NATIVE_VARIANTS}


@dataclasses.dataclass(frozen=True)
class UseOutVariants(Pass):
    """Turns operators that allocate their result into their `out=` variants, so that memory plans include it.

    Lifetimes are derived again. Only those of `out_variants.py` change, which give the same bits without
    allocating the result internally. Each has one dense result whose sizes are known before the call. For the
    `native` runtime, these are its own, among them `convolution.out` and `wrapper_ir::attention.out`.
    """

    name: ClassVar[str] = "use-out-variants"
    repairs: ClassVar[frozenset[str]] = DeriveFrees.repairs
    runtime: Runtime = Runtime.TORCH

    def transform(self, analyses: Analyses) -> ir.Program:
        """The program with fewer results of operators."""
        changed = _with_variants(analyses, self.runtime)
        return changed if changed is analyses.program else derive_frees(changed)

    def comparable(self, before: ir.Program, after: ir.Program) -> tuple[ir.Program, ir.Program]:
        """Returns both programs with the variants."""
        return _with_variants(Analyses(before), self.runtime), after

    def around(self, artifact: Artifact, program: ir.Program) -> Artifact:
        """Returns the artifact without random states that only replaced calls of attention declare."""
        return with_drawn_states(artifact, program)


def _with_variants(analyses: Analyses, runtime: Runtime) -> ir.Program:
    program = analyses.program
    variants: dict[str, ir.ExternDef] = {}
    for name, extern in analyses.externs.items():
        variant = out_variant(extern, _VARIANTS[runtime])
        if variant is not None:
            variants[name] = variant
    calls = {op.target for op in program.ops_of(ir.CallExtern)}
    changed = program.with_functions(
        [f.with_body(_body(f, variants, analyses, runtime)) for f in program.functions]
    )
    targets = {op.target for op in changed.ops_of(ir.CallExtern)}
    if targets == calls:
        return program
    names = {e.name for e in program.externs}
    new = [v for v in (*dict.fromkeys(variants.values()), ATTENTION) if v.name in targets - names]
    return dataclasses.replace(changed, externs=(*program.externs, *new))


def _body(
    function: ir.Function, variants: Mapping[str, ir.ExternDef], analyses: Analyses, runtime: Runtime
) -> Iterator[ir.Op]:
    symbols, allocated = set(function.captures), set[ir.Value]()
    new = NewNames(function, analyses)
    attention = attention_calls(function, analyses) if runtime is Runtime.NATIVE else {}
    for op in function.body:
        match op:
            case ir.Define(symbol=symbol):
                symbols.add(symbol)
                yield op
            case ir.CallExtern(target=target, result=result) if (
                target in variants and ir.is_tensor(result) and can_allocate(result, symbols)
            ):
                yield from allocate_result(op, result, new)
                variant, kwargs = variants[target].name, (*op.kwargs, ("out", result))
                yield dataclasses.replace(op, target=variant, kwargs=kwargs, result=None)
                if runtime is Runtime.NATIVE:
                    allocated.add(result)
            case ir.CallExtern(result=ir.Value() as result) if result in attention and can_allocate(
                attention[result].result, symbols
            ):
                yield from attention[result].write(op, new)
                allocated |= {result, attention[result].result}
            case ir.Unpack(source=source) | ir.Drop(value=source) if source in allocated & attention.keys():
                pass
            case _ if is_settled(op, allocated):
                pass
            case _:
                yield op
