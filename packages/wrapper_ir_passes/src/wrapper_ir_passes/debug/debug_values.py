"""Shows the inputs and outputs of kernels and operators."""

from __future__ import annotations

import enum
import warnings
from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import ClassVar

from wrapper_ir import ir
from wrapper_ir.analysis.memo import Analyses
from wrapper_ir.analysis.replayable import replayed_functions
from wrapper_ir.errors import DebugWarning
from wrapper_ir.expr import Expr
from wrapper_ir.plugins.passes import Pass
from wrapper_ir_passes.debug.debug_calls import CallView, calls_of
from wrapper_ir_passes.debug.debug_filter import NameFilter

_EVENT = "debug_event_"


class DebugLevel(enum.Enum):
    """The values that are shown.

    A digit is accepted for each word, as in Inductor's AOT_INDUCTOR_DEBUG_INTERMEDIATE_VALUE_PRINTER.
    """

    OFF = "off"
    SAVE = "save"
    PRINT = "print"
    NAMES = "names"

    @classmethod
    def _missing_(cls, value: object) -> DebugLevel | None:
        return {"0": cls.OFF, "1": cls.SAVE, "2": cls.PRINT, "3": cls.NAMES}.get(str(value))

    @property
    def mode(self) -> ir.DebugMode:
        """The mode of the ops that the pass inserts; raises ValueError for OFF."""
        return ir.DebugMode(self.value)


@dataclass(frozen=True)
class DebugValues(Pass):
    """Shows tensors that launches and operators read, before each, and those that they wrote, after it.

    They are printed or saved, or only their names are printed. `filter` lists names of kernels and operators,
    as shell patterns separated by commas, ignoring case; without any, all are shown. `operators` includes
    library operators and collectives. `inputs` and `outputs` include those of the program, regardless of the
    filter. `directory` is the folder for saved tensors. Memory that nothing has written is not shown, nor are
    constant numbers. Functions that a device captures are unchanged, with a warning.
    """

    name: ClassVar[str] = "debug-values"
    level: DebugLevel = DebugLevel.PRINT
    filter: str = ""
    operators: bool = True
    inputs: bool = True
    outputs: bool = True
    directory: str = "debug_values"

    def transform(self, analyses: Analyses) -> ir.Program:
        """Returns the program with debug ops; at level `off` the program itself.

        Warns (DebugWarning) of patterns that match nothing.
        """
        if self.level is DebugLevel.OFF:
            return analyses.program
        original, program = analyses.program, _without(analyses.program)
        analyses = analyses.after(program)
        graphed = analyses.get(replayed_functions)
        if graphed:
            names = ", ".join(f"@{name}" for name in graphed)
            warnings.warn(
                DebugWarning(
                    "WIR807", f"{names}: captured by a device, which shows no values; insert them before"
                ),
                stacklevel=2,
            )
        name_filter = NameFilter.of(self.filter, program)
        with_debug = program.with_functions(
            f if f.name in graphed else self._insert(f, analyses, name_filter) for f in program.functions
        )
        return original if with_debug == original else with_debug

    def comparable(self, before: ir.Program, after: ir.Program) -> tuple[ir.Program, ir.Program]:
        """Returns both programs without debug ops, and without the events that the host waits for before
        reading."""
        return _without(before), _without(after)

    def _insert(self, function: ir.Function, analyses: Analyses, name_filter: NameFilter) -> ir.Function:
        is_main = function.name == analyses.program.main.name
        before: dict[int, list[ir.Op]] = {}
        after: dict[int, list[ir.Op]] = {}
        for number, call in enumerate(calls_of(function, analyses, self.operators)):
            if not name_filter.takes(call.name):
                continue
            before.setdefault(call.begin, []).extend(
                self._around(call, ir.DebugPhase.BEFORE, call.reads, f"{_EVENT}{number}_before")
            )
            after.setdefault(call.end, []).extend(
                self._around(call, ir.DebugPhase.AFTER, call.writes, f"{_EVENT}{number}_after")
            )
        body: list[ir.Op] = []
        if is_main and self.inputs:
            body += self._of_program(
                ir.DebugPhase.INPUTS, tuple(p.value for p in function.params), ir.Provenance()
            )
        for position, op in enumerate(function.body):
            match op:
                case ir.Return(values=values) if is_main and self.outputs:
                    body += self._of_program(ir.DebugPhase.OUTPUTS, values, op.prov)
                case _:
                    pass
            body += [*before.get(position, ()), op, *after.get(position, ())]
        return function.with_body(body)

    def _around(
        self, call: CallView, phase: ir.DebugPhase, args: tuple[ir.Arg, ...], event: str
    ) -> Iterator[ir.Op]:
        names = self.level is DebugLevel.NAMES
        op = _shown(self._op(phase, call.prov, call.name), () if names else args)
        if not names and not (op.values or op.numbers):
            return
        if call.stream and call.device is not None and not names:
            happened = ir.Value(event, ir.RecordEvent.event)
            yield ir.RecordEvent(result=happened, device=call.device, stream=call.stream, prov=call.prov)
            yield ir.SyncEvent(event=happened, prov=call.prov)
            yield ir.Drop(value=happened, prov=call.prov)
        yield op

    def _of_program(
        self, phase: ir.DebugPhase, args: tuple[ir.Arg, ...], prov: ir.Provenance
    ) -> Iterator[ir.Op]:
        op = _shown(self._op(phase, prov, ""), args)
        if self.level is not DebugLevel.NAMES and (op.values or op.numbers):
            yield op

    def _op(self, phase: ir.DebugPhase, prov: ir.Provenance, callee: str) -> ir.DebugValue:
        directory = self.directory if self.level is DebugLevel.SAVE else ""
        return ir.DebugValue(mode=self.level.mode, phase=phase, callee=callee, directory=directory, prov=prov)


def _shown(op: ir.DebugValue, args: tuple[ir.Arg, ...]) -> ir.DebugValue:
    """Returns the op with those arguments that can be shown: tensors, numbers, and expressions that are not
    constants.
    """
    values: list[ir.Value[ir.TensorType | ir.ScalarType]] = [
        a for a in args if ir.is_tensor(a) or ir.is_scalar(a)
    ]
    numbers = tuple(a for a in args if isinstance(a, Expr) and a.constant is None)
    return replace(op, values=tuple(values), numbers=numbers)


def _without(program: ir.Program) -> ir.Program:
    """Returns the program without ops that an earlier run inserted."""
    return program.with_functions(
        f.with_body(op for op in f.body if not _is_inserted(op)) for f in program.functions
    )


def _is_inserted(op: ir.Op) -> bool:
    match op:
        case ir.DebugValue():
            return op.phase is not ir.DebugPhase.HERE
        case ir.RecordEvent(result=event) | ir.SyncEvent(event=event) | ir.Drop(value=event):
            return event.name.startswith(_EVENT)
        case _:
            return False
