"""Gives operators that allocate their result a storage of the program instead."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator
from typing import ClassVar

from wrapper_ir import ir
from wrapper_ir.analysis.memo import Analyses
from wrapper_ir.plugins.passes import Pass
from wrapper_ir_passes.cleanup.derive_frees import DeriveFrees, derive_frees
from wrapper_ir_passes.cleanup.new_names import NewNames
from wrapper_ir_passes.cleanup.result_storages import allocate_result, can_allocate
from wrapper_ir_passes.memory.out_variants import out_variant


@dataclasses.dataclass(frozen=True)
class UseOutVariants(Pass):
    """Turns operators that allocate their result into their `out=` variants, so that memory plans include it.

    Lifetimes are derived again. Only those of `out_variants.py` change, which give the same bits without
    allocating the result internally. Each has one dense result whose sizes are known before the call.
    """

    name: ClassVar[str] = "use-out-variants"
    repairs: ClassVar[frozenset[str]] = DeriveFrees.repairs

    def transform(self, analyses: Analyses) -> ir.Program:
        """The program with fewer results of operators."""
        changed = _with_variants(analyses.program, analyses)
        return changed if changed is analyses.program else derive_frees(changed)

    def comparable(self, before: ir.Program, after: ir.Program) -> tuple[ir.Program, ir.Program]:
        """Returns both programs with the variants."""
        return _with_variants(before, Analyses(before)), after


def _with_variants(program: ir.Program, analyses: Analyses) -> ir.Program:
    variants: dict[str, ir.ExternDef] = {}
    for name, extern in analyses.externs.items():
        variant = out_variant(extern)
        if variant is not None:
            variants[name] = variant
    calls = {op.target for op in program.ops_of(ir.CallExtern)}
    changed = program.with_functions([f.with_body(_body(f, variants, analyses)) for f in program.functions])
    targets = {op.target for op in changed.ops_of(ir.CallExtern)}
    if targets == calls:
        return program
    names = {e.name for e in program.externs}
    new = [v for v in dict.fromkeys(variants.values()) if v.name in targets and v.name not in names]
    return dataclasses.replace(changed, externs=(*program.externs, *new))


def _body(function: ir.Function, variants: dict[str, ir.ExternDef], analyses: Analyses) -> Iterator[ir.Op]:
    symbols = set(function.captures)
    new = NewNames(function, analyses)
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
            case _:
                yield op
