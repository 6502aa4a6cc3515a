"""Stores packed constants in their original layout again."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator
from typing import ClassVar

from wrapper_ir import ir
from wrapper_ir.analysis.memo import Analyses
from wrapper_ir.artifact import Artifact
from wrapper_ir.artifact.packing import original_data
from wrapper_ir.plugins.passes import Pass
from wrapper_ir_passes.cleanup.derive_frees import DeriveFrees, derive_frees
from wrapper_ir_passes.cleanup.new_names import NewNames
from wrapper_ir_passes.packing.pack_constants import PACKED_FOR
from wrapper_ir_passes.packing.unpacked_calls import PACKED, UnpackedCall, unpacked_call

_Tensor = ir.Value[ir.TensorType]


@dataclasses.dataclass(frozen=True)
class UnpackConstants(Pass):
    """Replaces packed constants by their originals, and the calls that read them by torch's operators.

    The inverse of `pack-constants`: originals have their names, layouts and values again. Operators stay out
    variants; the result of `_weight_int8pack_mm`, which has none, is copied. A constant stays packed if a
    call or another op reads it in a way that `pack-constants` does not write.
    """

    name: ClassVar[str] = "unpack-constants"
    repairs: ClassVar[frozenset[str]] = DeriveFrees.repairs

    def transform(self, analyses: Analyses) -> ir.Program:
        """The program without packed constants."""
        unpacked = _Unpacker(analyses).program()
        return unpacked if unpacked is analyses.program else derive_frees(unpacked)

    def comparable(self, before: ir.Program, after: ir.Program) -> tuple[ir.Program, ir.Program]:
        """Returns both programs without packed constants."""
        return _Unpacker(Analyses(before)).program(), after

    def around(self, artifact: Artifact, program: ir.Program) -> Artifact:
        """Returns the artifact with the bytes of the originals, without those of removed constants."""
        if program is artifact.program:
            return artifact
        unpacker = _Unpacker(Analyses(artifact.program))
        packed = {original.value: constant for constant, original in unpacker.originals.items()}
        data, constants = dict(artifact.constants), []
        for constant in program.constants:
            if constant.value in packed and not constant.data_hash:
                content = original_data(artifact, packed[constant.value])
                if content is not None:
                    data[constant.data_name] = content
                    constant = dataclasses.replace(constant, data_hash=content.sha256())
            constants.append(constant)
        names = {c.data_name for c in constants}
        is_packed = any(c.packing is not None for c in constants)
        return dataclasses.replace(
            artifact,
            program=dataclasses.replace(program, constants=tuple(constants)),
            constants={name: content for name, content in data.items() if name in names},
            metadata={key: fact for key, fact in artifact.metadata.items() if is_packed or key != PACKED_FOR},
        )


class _Unpacker:
    """One run of the pass. `originals` are the constants that replace packed ones."""

    def __init__(self, analyses: Analyses) -> None:
        self.analyses = analyses
        self.constants = {c.value.name: c for c in analyses.program.constants}
        self.locals = {v.name for f in analyses.program.functions for v in ir.definitions(f)}
        self.originals = {c: self._original(c) for c in analyses.program.constants if c.packing is not None}
        self.packed = {c.value: c for c in self.originals}
        self.externs: dict[str, ir.ExternDef] = {}

    def program(self) -> ir.Program:
        """Returns the program without packed constants; the same one if there are none."""
        old = self.analyses.program
        if not self.originals:
            return old
        changed = old.with_functions([f.with_body(self._body(f)) for f in old.functions])
        if not self.externs:
            return old
        reads = {value for f in changed.functions for op in f.body for value in ir.operands(op)}
        constants = dict[str, ir.Constant]()
        for constant in old.constants:
            original = self.originals.get(constant)
            if original is None or constant.value in reads:
                constants.setdefault(constant.value.name, constant)
            if original is not None and original.value in reads:
                constants.setdefault(original.value.name, original)
        targets = {op.target for op in changed.ops_of(ir.CallExtern)}
        unused = {extern.name for extern in PACKED} - targets
        externs = [e for e in old.externs if e.name not in unused]
        declared = {e.name for e in externs}
        return dataclasses.replace(
            changed,
            constants=tuple(constants.values()),
            externs=(*externs, *(e for name, e in self.externs.items() if name not in declared)),
        )

    def _original(self, constant: ir.Constant) -> ir.Constant:
        """Returns the original of a packed constant: the program's own if it has it."""
        packing, value = constant.packing, constant.value
        assert packing is not None
        assert ir.is_tensor(value)
        name, names = packing.original, constant.names
        if name in self.constants:
            return self.constants[name]
        if name in self.locals:  # of a value of a function
            names = names or (name,)
            while name in self.locals or name in self.constants:
                name += "_"
        original: ir.Value = ir.Value(name, packing.original_type(value.type))
        return dataclasses.replace(constant, value=original, names=names, packing=None, data_hash="")

    def _body(self, function: ir.Function) -> Iterator[ir.Op]:
        new, views = NewNames(function, self.analyses), dict[tuple[str, ir.TensorType], _Tensor]()
        for op in function.body:
            match op:
                case ir.CallExtern() if (call := self._call(op)) is not None:
                    original = self.originals[call.constant].value
                    assert ir.is_tensor(original)
                    weight = original
                    if call.weight != original.type:
                        key = original.name, call.weight
                        if key not in views:
                            views[key] = ir.Value(new(f"{original.name}.matrix"), call.weight)
                            yield ir.View(source=original, result=views[key], prov=op.prov)
                        weight = views[key]
                    yield from self._written(op, call, weight, new)
                case _:
                    yield op

    def _call(self, op: ir.CallExtern) -> UnpackedCall | None:
        info = self.analyses.operator(op.target)
        if info is None or op.target not in {extern.name for extern in PACKED}:
            return None
        args = dict(zip((a.name for a in info.schema.args), op.args)) | dict(op.kwargs)
        return unpacked_call(op.target, args, self.packed)

    def _written(
        self, op: ir.CallExtern, call: UnpackedCall, weight: _Tensor, new: NewNames
    ) -> Iterator[ir.Op]:
        self.externs.setdefault(call.extern.name, call.extern)
        args = (*call.before, weight, *call.after)
        if call.has_out:
            kwargs = (*call.kwargs, ("out", call.output))
            yield dataclasses.replace(op, target=call.extern.name, args=args, kwargs=kwargs)
            return
        result = ir.Value(new(f"{call.output.name}.result"), call.output.type)
        yield dataclasses.replace(op, target=call.extern.name, args=args, kwargs=(), result=result)
        yield ir.Copy(dst=call.output, src=result, stream=op.stream, prov=op.prov)
