"""Registers memory of collectives with the communicators of their groups."""

from __future__ import annotations

import dataclasses
import logging
from collections.abc import Iterator, Mapping, Set
from typing import ClassVar

from wrapper_ir import ir
from wrapper_ir.analysis.memo import Analyses
from wrapper_ir.artifact.agreement import allocation_ids
from wrapper_ir.plugins.passes import Pass
from wrapper_ir_passes.cleanup.derive_frees import DeriveFrees, derive_frees, strip_frees
from wrapper_ir_passes.collectives.registration_candidates import (
    OUT_VARIANTS,
    CollectiveBuffers,
    RegistrationLimits,
    collective_buffers,
)

_LOG = logging.getLogger(__name__)
_SCHEMAS = (
    "_c10d_functional::all_gather_into_tensor_out(Tensor input, int group_size, str group_name, *, "
    "Tensor(a!) out) -> Tensor(a!)",
    "_c10d_functional::reduce_scatter_tensor_out(Tensor input, str reduce_op, int group_size, str "
    "group_name, *, Tensor(a!) out) -> Tensor(a!)",
)


@dataclasses.dataclass(frozen=True)
class RegisterBuffers(Pass):
    """Registers memory of collectives with their group, and derives lifetimes again.

    Eligible are storages that the function allocates and keeps to itself, of at least `threshold_bytes`
    bytes. Results that an operator allocates get a storage if the operator has a variant that writes into
    one. `groups` names the groups, separated by `:`; none: all. The communication library still runs the
    operators. Ids of storages depend only on the program. Log level INFO reports for each buffer whether it
    is registered, with the reason.
    """

    name: ClassVar[str] = "register-buffers"
    repairs: ClassVar[frozenset[str]] = DeriveFrees.repairs

    threshold_bytes: int = 0
    groups: str = ""

    def transform(self, analyses: Analyses) -> ir.Program:
        """The program with storages in registered memory."""
        for choice in self.choices(analyses):
            _LOG.info("%s", choice)
        return derive_frees(self._registered(self._with_out_variants(analyses.program)))

    def choices(self, analyses: Analyses) -> tuple[CollectiveBuffers, ...]:
        """The buffers of each collective of the program, in order."""
        return self._choices(analyses.after(strip_frees(analyses.program)))

    def comparable(self, before: ir.Program, after: ir.Program) -> tuple[ir.Program, ir.Program]:
        """Returns both programs with out variants."""
        return self._with_out_variants(before), after

    def _choices(self, stripped: Analyses) -> tuple[CollectiveBuffers, ...]:
        limits = RegistrationLimits(self.threshold_bytes, frozenset(filter(None, self.groups.split(":"))))
        return tuple(c for f in stripped.program.functions for c in collective_buffers(f, stripped, limits))

    def _with_out_variants(self, program: ir.Program) -> ir.Program:
        """The program, without frees, with a storage for each result that can be registered."""
        analyses = Analyses(strip_frees(program))
        program = analyses.program
        roots = ((c.op, buffer.root) for c in self._choices(analyses) for buffer in c.buffers)
        values = frozenset(root for op, root in roots if root is not None and root in op.results)
        changed = program.with_functions(_with_storages(f, values, analyses) for f in program.functions)
        targets = {op.target for op in changed.ops_of(ir.CollectiveStart)}
        names = {e.name for e in program.externs}
        new = [ir.ExternDef(schema=schema, tags=(ir.ExternTag.COLLECTIVE,)) for schema in _SCHEMAS]
        return dataclasses.replace(
            changed,
            externs=(*program.externs, *(e for e in new if e.name in targets and e.name not in names)),
        )

    def _registered(self, program: ir.Program) -> ir.Program:
        """The program with its storages in registered memory, each under an id."""
        ids, spaces = allocation_ids(program), dict[ir.Value, ir.MemorySpace]()
        for choice in self._choices(Analyses(program)):
            for root in (buffer.root for buffer in choice.buffers if buffer.root is not None):
                if root not in spaces:
                    spaces[root] = ir.MemorySpace(ir.MemoryKind.REGISTERED, choice.op.group, next(ids))
        return program.with_functions(_moved(f, spaces) for f in program.functions)


def _with_storages(function: ir.Function, results: Set[ir.Value], analyses: Analyses) -> ir.Function:
    names = {v.name for v in (*ir.definitions(function), *analyses.constant_values)}

    def body() -> Iterator[ir.Op]:
        for op in function.body:
            match op:
                case ir.CollectiveStart(results=(result,)) if result in results:
                    yield from over_storage(op, result)
                case _:
                    yield op

    def over_storage(op: ir.CollectiveStart, result: ir.Value[ir.TensorType]) -> Iterator[ir.Op]:
        name = f"{result.name}.out"
        while not names.isdisjoint({name, f"{name}.s"}):
            name += "_"
        names.update({name, f"{name}.s"})
        out: ir.Value[ir.TensorType] = ir.Value(name, result.type)
        storage = ir.Value(f"{name}.s", ir.StorageType(ir.extent_bytes(result.type), result.type.device))
        yield ir.AllocStorage(result=storage, prov=op.prov)
        yield ir.View(source=storage, result=out, prov=op.prov)
        yield dataclasses.replace(op, target=OUT_VARIANTS[op.target], kwargs=(*op.kwargs, ("out", out)))

    return function.with_body(body())


def _moved(function: ir.Function, spaces: Mapping[ir.Value, ir.MemorySpace]) -> ir.Function:
    """Returns the function with its storages in other memory spaces."""
    new: dict[ir.Value, ir.Value] = {}
    for storage in (op.result for op in function.ops_of(ir.AllocStorage)):
        if storage in spaces:
            new[storage] = ir.Value(storage.name, dataclasses.replace(storage.type, space=spaces[storage]))
    return ir.map_function(function, lambda v: new.get(v, v)) if new else function
