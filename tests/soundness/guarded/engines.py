"""One program through the interpreter, emitted Python, FX graphs and C++ libraries, each with separate
memory.
"""

from __future__ import annotations

import dataclasses
import re
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor

import fx_converter
import py_wrapper
from fx_converter import FxOptions
from py_wrapper import PyOptions
from tests.soundness.guarded.kernels import TouchRuntime
from tests.soundness.guarded.libraries import run_library
from wrapper_ir import verify
from wrapper_ir.artifact import Artifact, TensorData
from wrapper_ir.errors import VerificationError, code_of
from wrapper_ir_runtime.interp import InterpOptions, run

MAX_OPS = 3_000
"""A loop may be valid and never end."""

# Any in this file: tensors and numbers.
Make = Callable[[], list[Any]]


@dataclass(frozen=True, slots=True)
class Outcome:
    """Outcome of a run: results and arguments after it, or the code and text of the error."""

    values: tuple[Any, ...] = ()
    code: str = ""
    error: str = ""


def _in_torch(artifact: Artifact) -> Artifact:
    """Copies each constant to torch's memory, which has guard pages."""

    def moved(data: TensorData) -> TensorData:
        raw = (
            torch.frombuffer(bytearray(data.buffer), dtype=torch.uint8).clone()
            if data.nbytes
            else torch.empty(0)
        )
        return dataclasses.replace(data, buffer=memoryview(raw.numpy()))  # type: ignore[arg-type]  # numpy says so since Python 3.12

    return dataclasses.replace(artifact, constants={n: moved(d) for n, d in artifact.constants.items()})


def _outcome(call: Callable[[list[Any]], Any], make: Make) -> Outcome:
    args = make()
    try:
        found = tuple(call(list(args)))
    except Exception as error:
        kind = type(error).__name__
        return Outcome(code=code_of(error) or kind, error=f"{kind}: {error}"[:600])
    return Outcome((*found, *args))


def _engines(artifact: Artifact, runtime: TouchRuntime) -> dict[str, Callable[[list[Any]], Any]]:
    quiet = InterpOptions(max_ops=MAX_OPS, debug=lambda op, values: None, find_runtime=runtime.find)
    direct = FxOptions(convention="flat", find_runtime=runtime.find)
    hop = dataclasses.replace(direct, kernel_calls="hop")

    def python(args: list[Any]) -> Any:
        return py_wrapper.compile(_in_torch(artifact), PyOptions(find_runtime=runtime.find)).boxed(args)

    return {
        "interpreter": lambda args: run(_in_torch(artifact), args, py_wrapper.TORCH_MACHINE, quiet),
        "python": python,
        "fx": lambda args: fx_converter.convert(_in_torch(artifact), direct)(*args),
        "fx hop": lambda args: fx_converter.convert(_in_torch(artifact), hop)(*args),
        "cpp": lambda args: run_library(_in_torch(artifact), args),
    }


def _is_held(x: Tensor) -> bool:
    """Returns whether a tensor's storage still contains it: a program may have resized the storage of another
    argument that shares it.
    """
    extent = 1 + sum((n - 1) * s for n, s in zip(x.shape, x.stride(), strict=True)) if x.numel() else 0
    return (x.storage_offset() + extent) * x.element_size() <= x.untyped_storage().nbytes()


def _bytes(x: Tensor) -> Tensor:
    if not _is_held(x):
        return torch.empty(0, dtype=torch.uint8).set_(x.untyped_storage())
    return x.detach().clone(memory_format=torch.contiguous_format).view(-1).view(torch.uint8)


def _same(a: Any, b: Any) -> bool:
    """Compares bit for bit: kernels write any bytes, and uninitialised memory has one pattern."""
    if isinstance(a, Tensor) and isinstance(b, Tensor):
        if a.dtype != b.dtype or a.shape != b.shape or a.layout != b.layout or a.device != b.device:
            return False
        if a.is_meta or a.layout != torch.strided:
            return True
        return _is_held(a) == _is_held(b) and _bytes(a).equal(_bytes(b))
    return repr(a) == repr(b)


def judge(artifact: Artifact, make: Make, runtime: TouchRuntime, engines: tuple[str, ...]) -> str:
    """Returns `refused`, `error CODE` or `ran`; else the failure, after `WRONG: `."""
    try:
        verify(artifact)  # and its signature, which a corrupted program may no longer fit
    except VerificationError as error:
        return "refused" if re.fullmatch(r"WIR[012]\d\d", error.code) else f"WRONG: refused with {error.code}"
    ways = _engines(artifact, runtime)
    want = _outcome(ways["interpreter"], make)
    if want.code == "WIR928" and "stopped after" in want.error:
        return "endless"
    if want.code and not want.code.startswith("WIR"):
        return f"WRONG: the interpreter has no code: {want.error}"
    for name in engines:
        got = _outcome(ways[name], make)
        if got.code == "EmitError":
            continue  # C++ cannot express it
        if finding := _compare(want, got):
            return f"WRONG: {name} {finding}"
    if runtime.pages.damaged():
        return "WRONG: bytes around blocks were written"
    return f"error {want.code}" if want.code else "ran"


_OF_TORCH = ("RuntimeError", "TypeError", "IndexError", "ValueError", "NotImplementedError")
_OVERFLOW = "Storage size calculation overflowed"


def _is_of_torch(want: Outcome, got: Outcome) -> bool:
    """Torch's own errors pass through graphs as they are: of operators, and of allocations beyond all memory.

    The others note the op on them.
    """
    if got.code == "RuntimeError" and _OVERFLOW in got.error:
        return want.code == "WIR408"
    return want.code == "WIR927" and got.code in _OF_TORCH and want.error == got.error


def _compare(want: Outcome, got: Outcome) -> str:
    """Returns the failure of one engine's outcome, or an empty text."""
    if want.code and got.code:
        if got.code.startswith(("WIR", "FX", "PY")) or "[CPP405]" in got.error or _is_of_torch(want, got):
            return ""
        return f"has no code: {got.error}; the interpreter: {want.error}"
    if got.code:
        return f"only fails: {got.error}"
    if want.code:
        return f"only runs: the interpreter has {want.error}"
    if len(want.values) != len(got.values):
        return f"has {len(got.values)} values, the interpreter {len(want.values)}"
    for position, (a, b) in enumerate(zip(want.values, got.values, strict=True)):
        if not _same(a, b):
            return f"differs in value {position}: {b}; the interpreter: {a}"
    return ""
