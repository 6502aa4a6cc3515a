"""Gives operators that allocate their result a storage of the program's to write it into."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator
from typing import ClassVar

from wrapper_ir.analysis.memo import Analyses
from wrapper_ir.expr import Expr, Int, mul
from wrapper_ir.ir.layout import extent_bytes, numel, type_symbols
from wrapper_ir.ir.ops import AllocStorage, CallExtern, Define, Op, View
from wrapper_ir.ir.program import Function, Program
from wrapper_ir.ir.schemas import ExternDef
from wrapper_ir.ir.structure import definitions
from wrapper_ir.ir.types import StorageType, TensorType
from wrapper_ir.ir.values import Value, is_tensor
from wrapper_ir.operators.out_variants import out_variant
from wrapper_ir.plugins.passes import Pass
from wrapper_ir_passes.cleanup.derive_frees import DeriveFrees, derive_frees


@dataclasses.dataclass(frozen=True)
class UseOutVariants(Pass):
    """Turns operators that allocate their result into their `out=` variants, so that memory plans hold it, and derives
    lifetimes again.

    Only those of `wrapper_ir.operators.out_variants`, which give the same bits and allocate no result all the same, with one dense result
    whose sizes are known before the call.
    """

    name: ClassVar[str] = "use-out-variants"
    repairs: ClassVar[frozenset[str]] = DeriveFrees.repairs

    def transform(self, analyses: Analyses) -> Program:
        """The program with fewer results of operators."""
        changed = _with_variants(analyses.program, analyses)
        return changed if changed is analyses.program else derive_frees(changed)

    def comparable(self, before: Program, after: Program) -> tuple[Program, Program]:
        """Both with the variants."""
        return _with_variants(before, Analyses(before)), after


def _with_variants(program: Program, analyses: Analyses) -> Program:
    found: dict[str, ExternDef] = {}
    for name, extern in analyses.externs.items():
        variant = out_variant(extern)
        if variant is not None:
            found[name] = variant
    calls = {op.target for op in program.ops if isinstance(op, CallExtern)}
    changed = program.with_functions([f.with_body(_body(f, found, analyses)) for f in program.functions])
    called = {op.target for op in changed.ops if isinstance(op, CallExtern)}
    if called == calls:
        return program
    known = {e.name for e in program.externs}
    new = [v for v in dict.fromkeys(found.values()) if v.name in called and v.name not in known]
    return dataclasses.replace(changed, externs=(*program.externs, *new))


def _body(function: Function, variants: dict[str, ExternDef], analyses: Analyses) -> Iterator[Op]:
    known = set(function.captures)
    taken = {v.name for v in (*definitions(function), *analyses.constant_values)}
    for op in function.body:
        if isinstance(op, Define):
            known.add(op.symbol)
        variant = variants.get(op.target) if isinstance(op, CallExtern) else None
        if (
            isinstance(op, CallExtern)
            and variant is not None
            and is_tensor(op.result)
            and _fits(op.result, known)
        ):
            yield from _call(op, op.result, variant.name, taken)
        else:
            yield op


def _fits(result: Value[TensorType], known: set[str]) -> bool:
    """Whether a storage can be made for the result before the call: sizes are known, and all its bytes are elements."""
    type = result.type
    bytes: Expr = mul(numel(type.sizes), Int(type.dtype.itemsize))
    return type_symbols(type) <= known and extent_bytes(type) == bytes


def _call(op: CallExtern, result: Value[TensorType], variant: str, taken: set[str]) -> Iterator[Op]:
    name = f"{result.name}.s"
    while name in taken:
        name += "_"
    taken.add(name)
    storage = Value(name, StorageType(extent_bytes(result.type), result.type.device))
    yield AllocStorage(result=storage, stream=op.stream, prov=op.prov)
    yield View(source=storage, result=result, prov=op.prov)
    yield dataclasses.replace(op, target=variant, kwargs=(*op.kwargs, ("out", result)), result=None)
