"""Moves a program to another device."""

from __future__ import annotations

import dataclasses
import re
from collections.abc import Callable, Iterator
from typing import Any, ClassVar

from wrapper_ir import ir
from wrapper_ir.analysis.memo import Analyses
from wrapper_ir.artifact import Artifact
from wrapper_ir.errors import PassError
from wrapper_ir.plugins.passes import Pass
from wrapper_ir_passes.devices.device_reasons import Move, Reason, reasons_against

_DEVICE = re.compile(r"([a-z_][a-z0-9_]*)(?::(\d+))?")


@dataclasses.dataclass(frozen=True)
class MoveDevice(Pass):
    """Moves everything on one device to another, of the same or another type.

    `to` is `cpu`, `cuda:1`; `from` is required if the program is on several devices besides the CPU. `arch`
    is the architecture of the new device (`sm_90`); by default that of the old one, if the type is the same.
    Storages, tensors, constants, events and device arguments move; kernels keep their sources; a CPU records
    nothing. Between types, kernels and operators of one type only, collectives, symmetric and pinned memory,
    memory pools and opaque constants are refused. So are streams if the new device has none. `libraries=true`
    assumes that operators of other libraries support the new device.
    """

    name: ClassVar[str] = "move-device"
    to: str = ""
    from_: str = ""
    arch: str = ""
    libraries: bool = False

    def transform(self, analyses: Analyses) -> ir.Program:
        """Returns the program on the new device.

        Raises PassError WIR806 if the options do not determine the devices, WIR807 if something cannot be
        moved.
        """
        program = analyses.program
        move = self.move(program)
        if move.source == move.target and move.arch == program.target.arch:
            return program
        reason = next(_reasons(analyses, move), None)
        if reason is not None:
            raise PassError(
                "WIR807",
                f"{reason.what}, so what is on {move.source} cannot be moved to {move.target}: "
                f"{reason.place}",
                hint=reason.hint,
            )
        return _moved(program, move)

    def comparable(self, before: ir.Program, after: ir.Program) -> tuple[ir.Program, ir.Program]:
        """Returns both programs on the new device."""
        move = self.move(before)
        return _moved(before, move), _moved(after, move)

    def around(self, artifact: Artifact, program: ir.Program) -> Artifact:
        """Uses random numbers of the new device, and removes kernels that were compiled for the old
        architecture.
        """
        move = self.move(artifact.program)
        signature = artifact.signature
        random = tuple(dataclasses.replace(r, device=move.of(r.device)) for r in signature.random)
        target = program.target
        architecture = f"{target.device.type}:{target.arch}"
        same = target.arch == artifact.program.target.arch and move.same_type
        return dataclasses.replace(
            artifact,
            program=program,
            signature=dataclasses.replace(signature, random=tuple(dict.fromkeys(random))),
            binaries=artifact.binaries
            if same
            else tuple(b for b in artifact.binaries if b.target == architecture),
        )

    def move(self, program: ir.Program) -> Move:
        """Determines the devices; raises PassError WIR806."""
        target = _device("to", self.to)
        devices = devices_of(program)
        source = _device("from", self.from_) if self.from_ else _only(devices)
        if source not in devices:
            there = ", ".join(map(str, devices)) or "none"
            raise PassError(
                "WIR806", f"nothing is on {source}", hint=f"from= one of the program's devices: {there}"
            )
        lone = sum(d.type == source.type for d in devices) == 1
        arch = self.arch or (program.target.arch if source.type == target.type else "")
        return Move(source=source, target=target, lone=lone, arch=arch, libraries=self.libraries)


def devices_of(program: ir.Program) -> tuple[ir.Device, ...]:
    """All devices of a program's values and of its target, in order of their first use."""
    values = [c.value for c in program.constants]
    values += [v for function in program.functions for v in ir.definitions(function)]
    return tuple(dict.fromkeys((program.target.device, *filter(None, map(ir.device_of, values)))))


def _device(option: str, text: str) -> ir.Device:
    match = _DEVICE.fullmatch(text)
    if match is None or (match[1] == ir.CPU.type) != (match[2] is None):
        raise PassError(
            "WIR806", f"{option}={text} is not a device", hint=f"write {option}=cpu or {option}=cuda:1"
        )
    return ir.Device(match[1], None if match[2] is None else int(match[2]))


def _only(devices: tuple[ir.Device, ...]) -> ir.Device:
    """The device to move by default: the only one, or the only one that is not the CPU."""
    others = [d for d in devices if d != ir.CPU]
    if len(others) > 1:
        names = ", ".join(map(str, others))
        raise PassError("WIR806", f"the program is on several devices: {names}", hint=f"say from={others[0]}")
    return others[0] if others else ir.CPU


# --- refusals


def _reasons(analyses: Analyses, move: Move) -> Iterator[Reason]:
    """The reasons against moving a program, in the order of the program."""
    # Imported here: a higher layer, and for messages only.
    from wrapper_ir.text.op_place import op_place

    program = analyses.program
    for constant in program.constants:
        match constant.value.type:
            case ir.OpaqueType(kind=ir.OpaqueKind.PACKED, detail=detail) if not move.same_type:
                what = f"constant %{constant.value.name}, {detail}, is packed for one machine's library"
                yield Reason(what, "among the constants", "capture the model without packed weights")
            case _:
                pass
    for function in program.functions:
        for position, op in enumerate(function.body):
            if _touches(op, move):
                for what, hint in reasons_against(op, analyses, move):
                    yield Reason(what, op_place(function, position), hint)


def _touches(op: ir.Op, move: Move) -> bool:
    """Returns whether an op refers to the device that is moved, by its values or by name."""
    return _named(op, move) is not op or any(
        _value(v, move) is not v for v in (*ir.operands(op), *ir.results(op))
    )


# --- moving


def _moved(program: ir.Program, move: Move) -> ir.Program:
    """Returns the program with one device in place of the other, without checks."""
    new_values: dict[ir.Value, ir.Value] = {}

    def value(old: ir.Value) -> ir.Value:
        new = new_values.get(old)
        if new is None:
            new = new_values[old] = _value(old, move)
        return new

    target = program.target
    if target.device == move.source or target.device == move.target:
        target = dataclasses.replace(target, device=move.of(target.device), arch=move.arch)
    return dataclasses.replace(
        program,
        target=target,
        constants=tuple(dataclasses.replace(c, value=value(c.value)) for c in program.constants),
        functions=tuple(_function(f, value, move) for f in program.functions),
    )


def _value(old: ir.Value, move: Move) -> ir.Value:
    match old.type:
        case ir.TensorType(device=device) as type if device == move.source:
            return ir.Value(old.name, dataclasses.replace(type, device=move.target))
        case ir.StorageType(device=device) as type if device == move.source:
            alignment = min(type.alignment, move.target.traits.allocation_alignment)
            return ir.Value(old.name, dataclasses.replace(type, device=move.target, alignment=alignment))
        case _:
            return old


def _function(function: ir.Function, value: Callable[[ir.Value], ir.Value], move: Move) -> ir.Function:
    moved_ops = function.with_body(_named(op, move) for op in function.body)
    replayable = function.replayable and move.target != ir.CPU
    return dataclasses.replace(ir.map_function(moved_ops, value), replayable=replayable)


def _named(op: ir.Op, move: Move) -> ir.Op:
    """Returns the op with the devices that it names replaced: those of events, and those in operator
    arguments.
    """
    # Any: each field keeps its own type, which `_devices` preserves
    changes: dict[str, Any] = {}
    for field in ir.op_spec(type(op)).fields:
        content = field.get(op)
        moved = _devices(content, move)
        if moved is not content:
            changes[field.name] = moved
    return dataclasses.replace(op, **changes) if changes else op


def _devices(x: object, move: Move) -> object:
    match x:
        case ir.Device():
            return move.of(x)
        case tuple():
            moved = tuple(_devices(item, move) for item in x)
            return x if all(a is b for a, b in zip(moved, x, strict=True)) else moved
        case _:
            return x
