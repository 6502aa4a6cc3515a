"""Extracts a part of a program as a standalone program, with its inputs in a run as constants."""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, cast

from wrapper_ir import ir
from wrapper_ir.analysis.memo import Analyses
from wrapper_ir.artifact import Artifact, TensorData, bare_artifact
from wrapper_ir.errors import DebugError
from wrapper_ir.expr import Number, as_expr
from wrapper_ir.json.kernel_hash import content_hash
from wrapper_ir.verifier import verify
from wrapper_ir_passes.cleanup.dead_ops import without_unused_definitions
from wrapper_ir_passes.cleanup.derive_frees import derive_frees
from wrapper_ir_runtime.interp import Step
from wrapper_ir_tools.debugger.computed_values import computed_values
from wrapper_ir_tools.debugger.events import events
from wrapper_ir_tools.debugger.snapshot import Snapshot
from wrapper_ir_tools.debugger.subject import Subject
from wrapper_ir_tools.debugger.taps import dense_copy

_RANGE = re.compile(r"(?:@(?P<function>.+):)?(?P<first>\d+)(?:\.\.(?P<last>\d+))?(?:#(?P<call>\d+))?")


@dataclass(frozen=True, slots=True, kw_only=True)
class OpRange:
    """The ops from `first` to `last`, inclusive, of a function (empty: `main`) in its `call`-th call, from
    1."""

    first: int
    last: int
    function: str = ""
    call: int = 1


def parse_range(text: str) -> OpRange:
    """Parses `12`, `12..20`, `@body:0..3` or `@body:0..3#2`; raises DebugError WIR960."""
    match = _RANGE.fullmatch(text.strip())
    if match is None:
        raise DebugError(
            "WIR960",
            f"{text!r} is not a range of ops",
            hint="write 12, 12..20, @function:0..3 or @function:0..3#2",
        )
    first = int(match["first"])
    return OpRange(
        first=first,
        last=int(match["last"] or first),
        function=match["function"] or "",
        call=int(match["call"] or 1),
    )


def replay_piece(subject: Subject, span: OpRange) -> Artifact:
    """Returns an artifact whose `main` takes no arguments and runs the ops of a range.

    It builds their inputs from constants and returns the computed values that are still alive afterwards.
    Raises DebugError WIR960 for a range that does not exist or does not run, WIR961 for inputs that a file
    cannot store.
    """
    function = subject.analyses.functions.get(span.function or subject.program.main.name)
    if function is None or not span.first <= span.last < len(function.body):
        count = "there is no such function"
        if function is not None:
            count = f"@{function.name} has ops 0..{len(function.body) - 1}"
        raise DebugError("WIR960", f"the ops {span.first}..{span.last} do not exist: {count}")
    piece = _Piece(subject, function, span)
    for event in events(_watched(subject, piece), subject.analyses):
        piece.after(event.step)
        if piece.done:
            break
    return piece.artifact()


def _watched(subject: Subject, piece: _Piece) -> Any:  # Any: a generator of steps of the machine's tensors
    run = subject.run()
    try:
        while True:
            step = next(run)
            piece.before(step)
            yield step
    except StopIteration as end:
        return end.value


class _Piece:
    """The ops of a range, their inputs, and their results."""

    def __init__(self, subject: Subject, function: ir.Function, span: OpRange) -> None:
        self._subject = subject
        self._function = function
        self._wanted = span
        self._calls = 0
        self._frame: object = None
        self._body = list(function.body[span.first : span.last + 1])
        self._wanted_symbols: set[str] = set()
        self._snapshot: Snapshot | None = None
        self._symbols: dict[str, Number] = {}
        self._state: dict[str, TensorData] = {}
        self._results: tuple[ir.Arg, ...] | None = None

    @property
    def done(self) -> bool:
        """True if all ops of the range have run."""
        return self._results is not None

    def before(self, step: Step[Any]) -> None:
        """Takes the snapshot before the first op, and the results of a range that ends in a return."""
        if step.function.name != self._function.name:
            return
        if step.position == self._wanted.first and self._frame is None:
            self._calls += 1
            if self._calls == self._wanted.call:
                self._frame = step.frame
                self._take(step)
        if (
            step.frame is self._frame
            and isinstance(step.op, ir.Return)
            and self._wanted.last == step.position
        ):
            self._symbols = self._known_symbols(step)
            self._results = step.op.values

    def after(self, step: Step[Any]) -> None:
        """Records the results of the range after its last op."""
        if step.frame is not self._frame or step.position != self._wanted.last or self.done:
            return
        computed: dict[ir.Value, None] = {}
        for position in range(self._wanted.first, self._wanted.last + 1):
            computed |= dict.fromkeys(computed_values(self._function, position, self._subject.analyses))
        values = step.frame.values
        roots = {r for v in computed if v not in values for r in step.frame.roots_of(v)}
        # a computed value may survive under another name that took over its storage
        views = [op.result for op in self._body if isinstance(op, ir.View)]
        computed |= dict.fromkeys(v for v in views if not roots.isdisjoint(step.frame.roots_of(v)))
        self._symbols = self._known_symbols(step)
        self._results = tuple(v for v in computed if v in values)

    def _take(self, step: Step[Any]) -> None:
        machine, session = self._subject.machine, step.frame.session
        inputs = self._needed()
        names = {v.name for op in self._body for v in (*ir.results(op), *ir.operands(op))}
        names |= {c.value.name for c in self._subject.program.constants}
        self._snapshot = Snapshot(step, inputs, machine, names)
        self._find_symbols(inputs)
        for constant in self._subject.program.constants:
            if constant.mutable and machine.is_tensor(session.constants[constant.value]):
                self._state[constant.value.name] = machine.data(session.constants[constant.value])

    def _needed(self) -> list[ir.Value]:
        """Operands that the ops do not define. Values that are only ended are not inputs; the ops that end
        them are dropped.
        """
        constants = self._subject.analyses.constant_values
        defined = {v for op in self._body for v in ir.results(op)}
        ends = {position for position, op in enumerate(self._body) if isinstance(op, ir.EndOp)}
        working = [op for position, op in enumerate(self._body) if position not in ends]
        operand_set = dict.fromkeys(v for op in working for v in ir.operands(op))
        names = {*operand_set, *defined}
        self._body = [
            op
            for position, op in enumerate(self._body)
            if position not in ends or not names.isdisjoint(ir.operands(op))
        ]
        return [v for v in operand_set if v not in defined and v not in constants]

    def _find_symbols(self, inputs: Iterable[ir.Value]) -> None:
        """Finds the symbols that the piece defines at its start, as numbers.

        A value's type may mention a symbol that only an op of the range defines, from that value.
        """
        in_types = {s for v in inputs for s in ir.type_symbols(v.type)}
        self._body = [op for op in self._body if not (isinstance(op, ir.Define) and op.symbol in in_types)]
        own = {op.symbol for op in self._body if isinstance(op, ir.Define)}
        symbols = set(in_types)
        for op in self._body:
            symbols |= {s for e in ir.exprs(op) for s in e.free_symbols}
            symbols |= {s for v in ir.results(op) for s in ir.type_symbols(v.type)}
            for name in ir.callees(op):
                symbols |= set(self._subject.analyses.functions[name].captures)
        self._wanted_symbols = symbols - own

    def _known_symbols(self, step: Step[Any]) -> dict[str, Number]:
        return {name: value for name, value in step.symbols.items() if name in self._wanted_symbols}

    # --- the program

    def artifact(self) -> Artifact:
        """Returns the piece; raises DebugError WIR960 if its ops did not run."""
        if self._snapshot is None or self._results is None:
            raise DebugError(
                "WIR960",
                f"@{self._function.name} ran {self._calls} times, and its ops "
                f"{self._wanted.first}..{self._wanted.last} "
                f"did not run to the end in call {self._wanted.call}",
            )
        program = self._program(self._snapshot, self._results)
        data = _needed_data(program, self._subject.artifact.constants, {**self._snapshot.data, **self._state})
        bare = bare_artifact(program, data)
        kernels = set(map(content_hash, program.kernels))
        source = self._subject.artifact
        piece = replace(
            source,
            program=program,
            constants=data,
            signature=bare.signature,
            binaries=tuple(b for b in source.binaries if b.kernel in kernels),
            metadata={**source.metadata, "piece": json.dumps(self._note())},
            tuning={},
        )
        verify(piece)
        return piece

    def _note(self) -> Mapping[str, object]:
        span = self._wanted
        return {"function": self._function.name, "ops": [span.first, span.last], "call": span.call}

    def _program(self, snapshot: Snapshot, returned: Sequence[ir.Arg]) -> ir.Program:
        program = self._subject.program
        defines: list[ir.Op] = [ir.Define(symbol=n, expr=as_expr(v)) for n, v in self._symbols.items()]
        working = [op for op in self._body if not isinstance(op, ir.Return)]
        body = [_with_numbers(op, snapshot.numbers) for op in working]
        values = [_number_or(v, snapshot.numbers) for v in returned]
        copies = self._without_slots(values)
        main = ir.Function(
            name=program.main.name,
            params=(),
            body=(*defines, *snapshot.ops, *body, *copies, ir.Return(values=tuple(values))),
        )
        others = [f for f in program.functions if f.name != main.name]
        whole = replace(
            program, functions=(main, *others), constants=(*program.constants, *snapshot.constants)
        )
        pruned = without_unused_definitions(Analyses(whole))
        operand_set = {v for op in pruned.ops for v in ir.operands(op)}
        shared = {c.storage for c in pruned.constants if c.value in operand_set and c.storage}
        live = tuple(
            c for c in pruned.constants if c.value in operand_set or (c.storage in shared and c.storage)
        )
        return derive_frees(replace(pruned, constants=tuple(map(self._with_state, live))))

    def _with_state(self, constant: ir.Constant) -> ir.Constant:
        """Returns the constant with the hash of its content in the run."""
        data = self._state.get(constant.value.name)
        return constant if data is None or constant.storage else replace(constant, data_hash=data.sha256())

    def _without_slots(self, values: list[ir.Arg]) -> list[ir.Op]:
        """Replaces tensors in slots, which cannot leave a function, by copies."""
        aliasing = self._subject.analyses.aliasing(self._function)
        names = {v.name for v in ir.definitions(self._function)}
        copies: list[ir.Op] = []
        for number, value in enumerate(values):
            if ir.is_tensor(value) and any(r in aliasing.hosts for r in aliasing.roots.get(value, ())):
                values[number], copying = dense_copy(value, f"{value.name}.out", ir.UNKNOWN, names)
                copies += copying
        return copies


def _needed_data(
    program: ir.Program, stored: Mapping[str, TensorData], more: Mapping[str, TensorData]
) -> dict[str, TensorData]:
    """The data of a program's constants; the state in the run replaces the stored data."""
    result: dict[str, TensorData] = {}
    for constant in program.constants:
        name = constant.data_name
        data = more.get(constant.value.name) if not constant.storage else None
        data = data or stored.get(name) or more.get(name)
        if data is not None:
            result[name] = data
    return result


def _number_or(arg: ir.Arg, numbers: Mapping[ir.Value, Number]) -> ir.Arg:
    return as_expr(numbers[arg]) if ir.is_scalar(arg) and arg in numbers else arg


def _with_numbers(op: ir.Op, numbers: Mapping[ir.Value, Number]) -> ir.Op:
    """Replaces scalar operands by numbers; raises DebugError WIR961 if an expression reads one."""
    scalars = [v for v in ir.operands(op) if v in numbers]
    if not scalars:
        return op
    inside = [v for e in ir.exprs(op) for v in ir.values_in(e, []) if v in numbers]
    if inside:
        raise DebugError(
            "WIR961", f"an expression reads the scalar %{inside[0].name}", hint="begin after its `define`"
        )
    # cast: arguments accept numbers in place of scalar values
    return ir.map_values(op, lambda v: cast(ir.Value, _number_or(v, numbers)))
