"""The state of lowering one function: live names, symbols with values, and the tensors that represent
storages.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from functools import cached_property

from wrapper_ir import ir
from wrapper_ir.analysis.aliasing import Aliasing
from wrapper_ir.analysis.inputs import InputChecks
from wrapper_ir.analysis.memo import Analyses
from wrapper_ir.artifact.group_ranks import GroupRanks
from wrapper_ir.errors import LoweringError, NotSupportedError
from wrapper_ir.expr import Expr
from wrapper_ir_lowering.joined import joined_results
from wrapper_ir_lowering.options import LoweringOptions
from wrapper_ir_lowering.persistent import PersistentMemory
from wrapper_ir_lowering.steps import BEFORE, FunctionPlan, Origin, Stream
from wrapper_ir_lowering.storages import (
    SharedWindows,
    SlotPlaces,
    made_elsewhere,
    plan_slots,
    share_windows,
    storage_users,
)


@dataclass(frozen=True, slots=True, kw_only=True)
class ProgramState:
    """State that all functions share; `plan_of` returns the plan of a called function, by name."""

    program: ir.Program
    analyses: Analyses
    options: LoweringOptions
    checks: InputChecks
    constants: frozenset[ir.Value[ir.Type]]
    ranks: tuple[GroupRanks, ...]
    plan_of: Callable[[str], FunctionPlan | None]


class FunctionState:
    """The state of lowering one function."""

    def __init__(
        self,
        program: ProgramState,
        function: ir.Function,
        windows: Mapping[ir.Value[ir.Type], int],
        is_main: bool,
    ) -> None:
        self.program = program
        self.function = function
        self.is_main = is_main
        self.windows = windows
        self.persistent = PersistentMemory()
        self.at: Origin = BEFORE
        self.defined: set[str] = set(function.captures)
        self.pending: dict[ir.Value[ir.Type], ir.AllocStorage] = {}
        """Storages that are allocated as the one tensor that is made of them, where that is made."""
        self.stands_for: dict[ir.Value[ir.Type], ir.Value[ir.Type]] = {}
        """The views that stand for storages."""
        self.base_dtypes: dict[ir.Value[ir.Type], ir.DType] = {}
        """Element types of what stands for other storages."""
        self.calls: dict[ir.Value[ir.Type], tuple[ir.OperatorCall, ir.ExternInfo, tuple[int | str, ...]]] = {}
        """For what operators returned, the call, and the path that leads there."""
        self._alive: dict[ir.Value[ir.Type], None] = {}
        self._tenants: dict[ir.Value[ir.Type], dict[ir.Value[ir.Type], None]] = {}
        """For each root, the names that may live in it, in order of definition."""

    # --- facts

    @cached_property
    def aliasing(self) -> Aliasing:
        """The storages that each value may be in."""
        return self.program.analyses.aliasing(self.function)

    @cached_property
    def users(self) -> dict[ir.Value, list[ir.Op]]:
        """The ops that use each storage value, in order."""
        return storage_users(self.function)

    @cached_property
    def slots(self) -> SlotPlaces:
        """The positions of slots, and the views of storages."""
        return plan_slots(self.function)

    @cached_property
    def shared_windows(self) -> SharedWindows:
        """Views of pools that are created once."""
        return (
            share_windows(self.function, self.slots) if self.program.options.fuse_views else SharedWindows()
        )

    @cached_property
    def joined(self) -> frozenset[ir.Value[ir.TensorType]]:
        """Results of collectives whose starts wait for them."""
        return joined_results(self.function.body) if self.program.options.join_waits else frozenset()

    @cached_property
    def made_elsewhere(self) -> frozenset[ir.Value]:
        """Storages that are allocated in another place than their first use."""
        return made_elsewhere(self.function)

    def sole_view(self, storage: ir.Value[ir.Type]) -> ir.View | None:
        """Returns the view that a storage is allocated for, if otherwise only a free uses the storage."""
        views = [op for op in self.users.get(storage, ()) if not isinstance(op, ir.Free)]
        return views[0] if len(views) == 1 and isinstance(views[0], ir.View) else None

    def is_global(self, value: ir.Value[ir.Type]) -> bool:
        """Returns whether a value is a constant, or a window of one that is created once."""
        return value in self.program.constants or value in self.windows

    def knows(self, exprs: Iterable[Expr]) -> bool:
        """Returns whether all symbols in these expressions have a value."""
        return all(e.free_symbols <= self.defined for e in exprs)

    # --- names

    def define(self, value: ir.Value[ir.Type]) -> None:
        """A name begins."""
        self._alive[value] = None
        for root in self._roots(value):
            self._tenants.setdefault(root, {})[value] = None

    def is_alive(self, value: ir.Value[ir.Type]) -> bool:
        """Returns whether a name has begun and has not ended."""
        return value in self._alive

    def end(self, values: Iterable[ir.Value[ir.Type]]) -> tuple[ir.Value[ir.Type], ...]:
        """Names end; returns those that were alive."""
        ended = []
        for value in values:
            if value in self._alive:
                del self._alive[value]
                ended.append(value)
                for root in self._roots(value):
                    self._tenants[root].pop(value, None)
        return tuple(ended)

    def tenants(self, value: ir.Value[ir.Type]) -> list[ir.Value[ir.Type]]:
        """Returns all live names in the storage of `value`."""
        return list(dict.fromkeys(m for root in self._roots(value) for m in self._tenants.get(root, ())))

    def _roots(self, value: ir.Value[ir.Type]) -> tuple[ir.Value[ir.Type], ...]:
        pool = self.shared_windows.pools.get(value)
        return self.aliasing.roots.get(value, (value,)) if pool is None else (pool,)

    # --- streams

    def stream(self, op: ir.Op, number: int) -> Stream | None:
        """Returns the stream that an op queues on, None for the current one.

        Raises NotSupportedError WIR910 for a stream of a device that has none.
        """
        if not number:
            return None
        device = stream_device(op)
        if device.type == ir.CPU.type:
            raise self.not_supported(
                "WIR910", f"stream {number} of {device} does not exist", "put the op on stream 0"
            )
        return Stream(device, number)

    # --- errors

    def invalid(self, why: str) -> LoweringError:
        """Returns an error for a program that is not valid at this op."""
        return LoweringError(
            "WIR240", f"{why}\n{self.place()}", hint="wrapper_ir.verify says what is wrong with a program"
        )

    def not_supported(self, code: str, what: str, hint: str) -> NotSupportedError:
        """Returns an error that names the op and its place."""
        return NotSupportedError(code, f"{what}\n{self.place()}", hint=hint)

    def place(self) -> str:
        """Returns the op with its surroundings."""
        return op_place(self.function, self.at.position, self.program.program)


def op_place(function: ir.Function, position: int, program: ir.Program) -> str:
    """Returns the op at a position with its surroundings, and the source that it comes from, for error
    messages.
    """
    from wrapper_ir.text import print_excerpt  # only errors need the text form

    prov = function.body[position].prov
    source = ", ".join((*prov.nodes, *prov.ops, *prov.locations))
    excerpt = print_excerpt(function, position, program)
    return excerpt + (f"\nfrom {source}" if source else "")


def stream_device(op: ir.Op) -> ir.Device:
    """The device of an op: that of its tensors that are not on the host. Events have a device."""
    match op:
        case ir.RecordEvent() | ir.WaitEvent():
            return op.device
        case _:
            devices = map(ir.device_of, (*ir.results(op), *ir.operands(op)))
            return next((d for d in devices if d is not None and d.type != ir.CPU.type), ir.CPU)
