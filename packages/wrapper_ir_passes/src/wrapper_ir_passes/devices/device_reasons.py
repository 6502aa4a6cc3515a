"""Reasons why an op cannot move to another device."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from wrapper_ir import ir
from wrapper_ir.analysis.memo import Analyses
from wrapper_ir_passes.devices.device_operators import LAYOUT_BY_DEVICE, PORTABLE, only_device


@dataclass(frozen=True, slots=True, kw_only=True)
class Move:
    """A move from `source` to `target`, with architecture `arch`.

    `lone`: the program has no other device of the type of `source`, so a device without an index is that one.
    `libraries`: operators of other libraries are assumed to support the target.
    """

    source: ir.Device
    target: ir.Device
    lone: bool
    arch: str
    libraries: bool

    @property
    def same_type(self) -> bool:
        """Returns whether only the index changes."""
        return self.source.type == self.target.type

    def of(self, device: ir.Device) -> ir.Device:
        """The new device of values on `device`."""
        unnamed = self.lone and device == ir.Device(self.source.type)
        return self.target if device == self.source or unnamed else device


@dataclass(frozen=True, slots=True)
class Reason:
    """A reason against a move, its place in the program, and a remedy."""

    what: str
    place: str
    hint: str


_CAPTURE = "capture the model for that device"


def reasons_against(op: ir.Op, analyses: Analyses, move: Move) -> Iterator[tuple[str, str]]:
    """Yields reasons why an op on the old device cannot be on the new one, each with a remedy."""
    match op:
        case ir.Launch():
            yield from _kernel(analyses.kernels.get(op.kernel), analyses, move)
        case _ if move.same_type:
            pass
        case ir.CallExtern() | ir.CollectiveStart():
            yield from _call(op, analyses, move)
        case ir.AllocStorage() if (kind := op.result.type.space.kind) is not ir.MemoryKind.DEFAULT:
            yield f"{kind.value} memory belongs to its type of device", _CAPTURE
        case ir.EnterMemoryPool(name=name):
            yield f"memory pool {name} belongs to its type of device", "remove the scope"
        case _:
            pass
    if move.target.type == "cpu" and not move.same_type and _uses_streams(op):
        yield "a CPU has no streams", "capture the model without torch.cuda.stream"


def _uses_streams(op: ir.Op) -> bool:
    """Returns whether an op orders streams, or is on another one than the current one."""
    match op:
        case ir.RecordEvent() | ir.WaitEvent():
            return True
        case _:
            return any(f.get(op) for f in ir.op_spec(type(op)).of_role(ir.Role.STREAM))


def _call(op: ir.OperatorCall, analyses: Analyses, move: Move) -> Iterator[tuple[str, str]]:
    if ir.EffectClass.COLLECTIVE in op.effects(analyses).classes:
        yield f"{op.target} runs in a process group of one type of device", _CAPTURE
        return
    yield from _operator(op.target, move)


def _operator(name: str, move: Move) -> Iterator[tuple[str, str]]:
    only = only_device(name)
    if only and only != move.target.type:
        yield f"operator {name} exists for {only} only", _CAPTURE
    elif name.partition(".")[0] in LAYOUT_BY_DEVICE:
        yield f"what operator {name} returns has other strides on another type of device", _CAPTURE
    elif not only and not move.libraries and name.partition("::")[0] not in PORTABLE:
        yield (
            f"operator {name} belongs to another library, which may not have it for {move.target.type}",
            "move-device{libraries=true} where it does",
        )


def _kernel(kernel: ir.KernelDef | None, analyses: Analyses, move: Move) -> Iterator[tuple[str, str]]:
    """Reasons in a kernel's definition; its source is compiled again."""
    match kernel:
        case ir.TritonKernel():
            yield from _triton(kernel, analyses, move)
        case ir.MultiKernel():
            for variant in kernel.variants:
                yield from _kernel(analyses.kernels.get(variant.kernel), analyses, move)
        case None:  # reported by the verifier
            return
        case _ if move.same_type:
            return
        case ir.CppKernel():
            if move.target.type != "cpu":
                yield f"kernel @{kernel.name} is C++ for a CPU", f"{_CAPTURE}, or with Triton kernels"
        case ir.OperatorKernel():
            yield from _operator(ir.parse_schema(kernel.schema).name, move)
        case ir.ForeignKernel():
            yield f"kernel @{kernel.name} is for the runtime {kernel.runtime!r} alone", _CAPTURE


_ONE_TARGET = ("tl.extra.cuda", "tl.inline_asm_elementwise", "language.extra.cuda")


def _triton(kernel: ir.TritonKernel, analyses: Analyses, move: Move) -> Iterator[tuple[str, str]]:
    """Triton compiles for any target, except for sources that name one."""
    changed = not move.same_type or move.arch != analyses.program.target.arch
    if changed and kernel.multiprocessors is not None:
        count = kernel.multiprocessors
        yield f"kernel @{kernel.name} was made for a device with {count} multiprocessors", _CAPTURE
    target = next((text for text in _ONE_TARGET if text in kernel.source), None)
    if target is not None and not move.same_type:
        yield f"kernel @{kernel.name} has {target} in its source", _CAPTURE
