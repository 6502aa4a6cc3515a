"""Stores constant weights of matmuls and convolutions in the layouts of kernels."""

from __future__ import annotations

import dataclasses
import enum
from collections.abc import Iterator, Mapping
from typing import ClassVar

from wrapper_ir import ir
from wrapper_ir.analysis.memo import Analyses
from wrapper_ir.artifact import Artifact
from wrapper_ir.artifact.packing import pack
from wrapper_ir.plugins.passes import Pass
from wrapper_ir_passes.cleanup.derive_frees import DeriveFrees, derive_frees
from wrapper_ir_passes.cleanup.new_names import NewNames
from wrapper_ir_passes.cleanup.result_storages import allocate_result, can_allocate, is_settled
from wrapper_ir_passes.packing.constant_views import ConstantViews
from wrapper_ir_passes.packing.packed_calls import PackedCall, packed_call

PACKED_FOR = "packed_for"
"""The entry of an artifact's metadata with the level that its constants are packed for."""


class Level(enum.Enum):
    """Levels of instruction sets that kernels are written for."""

    AVX512 = "avx512"
    AVX2 = "avx2"
    GENERIC = "generic"


@dataclasses.dataclass(frozen=True)
class PackConstants(Pass):
    """Packs constant weights of matmuls and convolutions, for libraries of the native runtime.

    `mm`, `addmm` (float32, bfloat16, float16), `_int_mm`, `_weight_int8pack_mm`, `convolution` (float32) and
    `wrapper_ir::int8_linear` become operators that read packed weights and write to storages of the program;
    lifetimes are derived again. A weight is packed if it is an immutable constant of the CPU, or a view of
    all of it; one of int8 also if `_to_copy` converts it to floats for `mm` or `addmm`. Constants that no op
    reads any more are removed, and such conversions, too. All levels have the same layouts today; an artifact
    names its level as `packed_for` in the metadata.

    `rounds_rows`: `int8_linear` may round rows of float32 to integers of 16 bits, with a scale for each row.
    Products of bytes are faster than those of floats, if the processor has an instruction for them.
    """

    name: ClassVar[str] = "pack-constants"
    repairs: ClassVar[frozenset[str]] = DeriveFrees.repairs
    level: Level = Level.AVX512
    rounds_rows: bool = False

    def transform(self, analyses: Analyses) -> ir.Program:
        """The program with packed constants."""
        packed = _Packer(analyses, rounds_rows=self.rounds_rows).program()
        return packed if packed is analyses.program else derive_frees(packed)

    def comparable(self, before: ir.Program, after: ir.Program) -> tuple[ir.Program, ir.Program]:
        """Returns both programs with packed constants."""
        return _Packer(Analyses(before), rounds_rows=self.rounds_rows).program(), after

    def around(self, artifact: Artifact, program: ir.Program) -> Artifact:
        """Returns the artifact with the bytes of the packed constants, without those of removed ones."""
        if program is artifact.program:
            return artifact
        originals = {c.value.name: c for c in artifact.program.constants}
        data, constants = dict(artifact.constants), []
        for constant in program.constants:
            original = originals.get(constant.packing.original) if constant.packing is not None else None
            if original is not None and constant.packing is not None and not constant.data_hash:
                content = artifact.data_of(original)
                if content is not None:
                    data[constant.data_name] = packed = pack(content, constant.packing)
                    constant = dataclasses.replace(constant, data_hash=packed.sha256())
            constants.append(constant)
        names = {c.data_name for c in constants}
        return dataclasses.replace(
            artifact,
            program=dataclasses.replace(program, constants=tuple(constants)),
            constants={name: content for name, content in data.items() if name in names},
            metadata={**artifact.metadata, PACKED_FOR: self.level.value},
        )


class _Packer:
    """One run of the pass. `packed` are the new constants by original and packing."""

    def __init__(self, analyses: Analyses, *, rounds_rows: bool) -> None:
        self.analyses = analyses
        self.rounds_rows = rounds_rows
        self.constants = {c.value: c for c in analyses.program.constants}
        self.packed: dict[ir.Packing, ir.Constant] = {}
        self.externs: dict[str, ir.ExternDef] = {}
        values = (v for f in analyses.program.functions for v in ir.definitions(f))
        self.names = {v.name for v in (*values, *self.constants)}

    def program(self) -> ir.Program:
        """Returns the program with packed constants; the same one if there are none."""
        old = self.analyses.program
        changed = old.with_functions([f.with_body(self._body(f)) for f in old.functions])
        if not self.packed:
            return old
        originals = {packing.original for packing in self.packed}
        functions = [_without_unused_views(f, originals, self.constants) for f in changed.functions]
        reads = {value for f in functions for op in f.body for value in ir.operands(op)}
        others = [c for c in old.constants if c.value in reads or c.value.name not in originals]
        targets = {op.target for f in functions for op in f.ops_of(ir.CallExtern, ir.CollectiveStart)}
        unused = {op.target for op in old.ops_of(ir.CallExtern)} - targets
        externs = {e.name: e for e in old.externs if e.name not in unused} | self.externs
        return dataclasses.replace(
            old.with_functions(functions),
            constants=(*others, *self.packed.values()),
            externs=tuple(externs.values()),
        )

    def _body(self, function: ir.Function) -> Iterator[ir.Op]:
        views, symbols = ConstantViews(function, self.constants), set(function.captures)
        new, allocated = NewNames(function, self.analyses), set[ir.Value]()
        for op in function.body:
            match op:
                case ir.Define(symbol=symbol):
                    symbols.add(symbol)
                    yield op
                case ir.CallExtern() if (rewrite := self._call(op, views, symbols)) is not None:
                    call, output = rewrite
                    if op.result is not None:
                        yield from allocate_result(op, output, new)
                        allocated.add(output)
                    args = (*call.before, self._constant(call).value, *call.after)
                    self.externs.setdefault(call.extern.name, call.extern)
                    yield dataclasses.replace(
                        op, target=call.extern.name, args=args, kwargs=(("out", output),), result=None
                    )
                case _ if is_settled(op, allocated):
                    pass
                case _:
                    yield op

    def _call(
        self, op: ir.CallExtern, views: ConstantViews, symbols: set[str]
    ) -> tuple[PackedCall, ir.Value[ir.TensorType]] | None:
        info = self.analyses.operator(op.target)
        if info is None:
            return None
        args = dict(zip((a.name for a in info.schema.args), op.args)) | dict(op.kwargs)
        output = op.result if "out" not in args else args["out"] if op.result is None else None
        if not ir.is_tensor(output) or (op.result is not None and not can_allocate(output, symbols)):
            return None
        call = packed_call(op, args, output, views, rounds_rows=self.rounds_rows)
        return None if call is None else (call, output)

    def _constant(self, call: PackedCall) -> ir.Constant:
        """Returns the packed constant of a call."""
        if call.packing not in self.packed:
            original, packing = call.constant, call.packing
            assert ir.is_tensor(original.value)  # it is an operand of a matmul or convolution
            name = f"{original.value.name}.packed"
            while name in self.names:
                name += "_"
            self.names.add(name)
            type = packing.packed_type(original.value.type)
            self.packed[packing] = ir.Constant(
                value=ir.Value(name, type), kind=original.kind, names=original.names, packing=packing
            )
        return self.packed[call.packing]


def _without_unused_views(
    function: ir.Function, originals: set[str], constants: Mapping[ir.Value, ir.Constant]
) -> ir.Function:
    """Returns the function without views and conversions of these constants that no op reads."""
    views = ConstantViews(function, {v: c for v, c in constants.items() if v.name in originals})
    operands: set[ir.Value] = set()
    unused: set[ir.Value] = set()
    for op in reversed(function.body):
        match op:
            case ir.View(result=result) | ir.CallExtern(result=result) if (
                isinstance(result, ir.Value) and result not in operands and views.reads(result)
            ):
                unused.add(result)
            case ir.Drop() | ir.Free():
                pass
            case ir.AssertLayout(tensors=tensors) if all(map(views.reads, tensors)):
                pass
            case _:
                operands.update(ir.operands(op))
    return function.with_body(
        op for op in function.body if unused.isdisjoint((*ir.results(op), *_subjects(op)))
    )


def _subjects(op: ir.Op) -> tuple[ir.Value, ...]:
    """Returns the values that an op ends or checks."""
    match op:
        case ir.Drop(value=value) | ir.Free(storage=value):
            return (value,)
        case ir.AssertLayout(tensors=tensors):
            return tensors
        case _:
            return ()
