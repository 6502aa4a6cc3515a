"""Measures a program op by op in the interpreter, which calls the kernels and operators of emitted
programs."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from statistics import median
from typing import Any, TypeVar

from wrapper_ir import ir
from wrapper_ir.analysis.memo import Analyses
from wrapper_ir.artifact import Artifact
from wrapper_ir.expr import Int, Number
from wrapper_ir.operators.policy import DEFAULT_OPERATORS, OperatorPolicy
from wrapper_ir.plugins.protocols import Machine
from wrapper_ir_runtime.interp import InterpOptions, Interpreter, Step, example_inputs
from wrapper_ir_tools.profile.result import OpTime, Profile, Span
from wrapper_ir_tools.profile.timing import TimingMachine

_TIMED = ir.Launch | ir.OperatorCall | ir.Copy
_COPIED = 128 << 20
"""Size in bytes of the copy that measures a device's bandwidth: larger than caches."""
T = TypeVar("T")
R = TypeVar("R")
Key = tuple[str, int]
"""A function and a position in it."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ProfileOptions:
    """Options of a profile.

    `calls` are measured after `warm_up` unmeasured ones. `symbols` has values of symbols, `seed` is that of
    the inputs.
    """

    calls: int = 10
    warm_up: int = 2
    seed: int = 0
    symbols: Mapping[str, Number] = field(default_factory=dict)
    operators: OperatorPolicy = DEFAULT_OPERATORS


# Any in this file: the machine's tensors and marks
def profile_artifact(
    artifact: Artifact, machine: Machine[T], options: ProfileOptions | None = None
) -> Profile:
    """Profiles calls of the program on generated inputs. Raises the errors of the interpreter."""
    settings = options or ProfileOptions()
    recorder = _Recorder(machine)
    interpreter = Interpreter(
        artifact,
        machine,
        InterpOptions(operators=settings.operators, call=recorder.call, launch=recorder.launch),
    )
    program = interpreter.artifact.program
    analyses = Analyses(program)
    calls: list[dict[Key, _Row]] = []
    totals: list[float] = []
    for number in range(settings.warm_up + settings.calls):
        inputs = example_inputs(program, machine, settings.seed, settings.symbols)
        recorder.begin()
        begin = time.perf_counter()
        for step in interpreter.steps(inputs):
            recorder.step(step, analyses)
        recorder.finish()
        if number >= settings.warm_up:
            totals.append(time.perf_counter() - begin)
            calls.append(recorder.rows)
    devices = {row.device for row in calls[-1].values() if row.device is not None}
    limits = {str(device): bandwidth(machine, device) for device in sorted(devices, key=str)}
    keys = list(calls[-1])
    return Profile(
        calls=len(calls),
        seconds=median(totals),
        limits=limits,
        ops=tuple(_op_time(key, [call[key] for call in calls if key in call], limits) for key in keys),
        spans=tuple(Span(op=keys.index(key), begin=at, seconds=took) for key, at, took in recorder.spans),
    )


def bandwidth(machine: Machine[T], device: ir.Device) -> float:
    """Bytes per second that a large copy on the device reads and writes: the best of five."""
    space = ir.StorageType(Int(_COPIED), device)
    source, target = (machine.empty_storage(space, _COPIED, True) for _ in range(2))
    clock = _Clock(machine, device)
    times = []
    for _ in range(5):
        started = clock.start()
        machine.copy(target, source, False)
        times.append(clock.seconds(started, clock.start()))
    return 2 * _COPIED / min(times)


class _Clock:
    """Measures time on a device's stream if the machine supports that, otherwise on the host."""

    def __init__(self, machine: Machine[Any], device: ir.Device | None) -> None:
        is_timed = device is not None and device != ir.CPU and isinstance(machine, TimingMachine)
        self._device = device if is_timed else None
        self._machine: Any = machine  # Any: a TimingMachine if there is a device

    @property
    def is_device(self) -> bool:
        return self._device is not None

    def start(self) -> Any:
        return time.perf_counter() if self._device is None else self._machine.mark(self._device)

    def seconds(self, begin: Any, end: Any) -> float:
        return float(end - begin if self._device is None else self._machine.seconds_between(begin, end))


@dataclass(slots=True)
class _Row:
    """Measurements of one op in one call."""

    op: _TIMED
    device: ir.Device | None
    count: int = 0
    seconds: float = 0.0
    device_seconds: float | None = None
    bytes: int = 0
    marks: list[tuple[Any, Any]] = field(default_factory=list)


class _Recorder:
    """Times the calls that the interpreter makes for each op."""

    def __init__(self, machine: Machine[Any]) -> None:
        self._machine = machine
        self.begin()

    def begin(self) -> None:
        """Starts a call."""
        self.rows: dict[Key, _Row] = {}
        self.spans: list[tuple[Key, float, float]] = []
        self._zero = time.perf_counter()
        self._at: tuple[Step[Any], Key] | None = None
        self._copied = 0.0

    def step(self, step: Step[Any], analyses: Analyses) -> None:
        """Finishes the previous op and starts the next one."""
        self._close(time.perf_counter(), analyses)
        if isinstance(step.op, _TIMED):
            key = (step.function.name, step.position)
            self._at = (step, key)
            self.rows.setdefault(key, _Row(step.op, _device(step.op))).count += 1
            self._copied = time.perf_counter()

    def finish(self) -> None:
        """Finishes a call: reads the device's times once all work is done."""
        for row in self.rows.values():
            clock = _Clock(self._machine, row.device)
            if row.marks:
                row.device_seconds = sum(clock.seconds(*pair) for pair in row.marks)

    def call(self, extern: object, args: object, kwargs: object, run: Callable[[], R]) -> R:
        """Hook around calls of operators."""
        return self._timed(run)

    def launch(self, kernel: str, run: Callable[[], None]) -> None:
        """Hook around launches of kernels."""
        self._timed(run)

    def _timed(self, run: Callable[[], R]) -> R:
        assert self._at is not None
        key = self._at[1]
        row = self.rows[key]
        clock = _Clock(self._machine, row.device)
        first = clock.start() if clock.is_device else None
        begin = time.perf_counter()
        result = run()
        self._add(key, begin, time.perf_counter())
        if clock.is_device:
            row.marks.append((first, clock.start()))
        return result

    def _add(self, key: Key, begin: float, end: float) -> None:
        self.rows[key].seconds += end - begin
        self.spans.append((key, begin - self._zero, end - begin))

    def _close(self, now: float, analyses: Analyses) -> None:
        if self._at is None:
            return
        step, key = self._at
        self._at = None
        if isinstance(step.op, ir.Copy):
            self._add(key, self._copied, now)
        self.rows[key].bytes += _moved(step, analyses, self._machine)


def _device(op: ir.Op) -> ir.Device | None:
    devices = [ir.device_of(v) for v in (*ir.operands(op), *ir.results(op))]
    return next((d for d in devices if d is not None), None)


def _moved(step: Step[T], analyses: Analyses, machine: Machine[T]) -> int:
    """Bytes of the tensors that an op read and wrote, by its effects."""
    effects = analyses.aliasing(step.function).effects[step.position]
    values: Sequence[ir.Value] = (*effects.reads, *effects.writes, *effects.fresh)
    return sum(
        _bytes(v, step.values[v], machine)
        for v in values
        if ir.is_tensor(v) and machine.is_tensor(step.values.get(v))
    )


def _bytes(value: ir.Value[ir.TensorType], tensor: T, machine: Machine[T]) -> int:
    """Bytes that a tensor's elements occupy; those of a broadcast tensor count once."""
    number, extent = 1, 1
    for size, stride in zip(machine.sizes(tensor), machine.strides(tensor), strict=True):
        number *= size
        extent += max(size - 1, 0) * stride
    return min(number, extent) * value.type.dtype.itemsize


def _op_time(key: Key, rows: Sequence[_Row], limits: Mapping[str, float]) -> OpTime:
    last = rows[-1]
    device = "" if last.device is None else str(last.device)
    seconds = median(row.seconds for row in rows)
    on_device = [row.device_seconds for row in rows if row.device_seconds is not None]
    where = median(on_device) if on_device else seconds
    op = last.op
    return OpTime(
        function=key[0],
        op_index=key[1],
        op=type(op).__name__,
        name=ir.callee_name(op),
        device=device,
        count=last.count,
        seconds=seconds,
        device_seconds=median(on_device) if on_device else None,
        bytes=last.bytes,
        share=last.bytes / where / limits[device] if where and device in limits else None,
        source=op.prov.locations,
        modules=op.prov.modules,
    )
