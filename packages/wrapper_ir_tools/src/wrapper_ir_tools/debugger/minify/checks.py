"""Failures that a program must preserve while it is shrunk."""

from __future__ import annotations

import re
import shlex
import subprocess
import tempfile
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from wrapper_ir.artifact import Artifact
from wrapper_ir.artifact.file import save
from wrapper_ir.plugins.protocols import Emitter, Machine
from wrapper_ir_runtime.interp import InterpOptions
from wrapper_ir_tools.debugger.compare import compare_runs
from wrapper_ir_tools.debugger.engines import engine_samples
from wrapper_ir_tools.debugger.hunt import HuntOptions, hunt
from wrapper_ir_tools.debugger.minify.eager_reference import EagerReference
from wrapper_ir_tools.debugger.minify.stubs import is_stub
from wrapper_ir_tools.debugger.samples import samples
from wrapper_ir_tools.debugger.subject import InputChoice, Subject
from wrapper_ir_tools.debugger.tolerances import Tolerance

# Any in this file: the machine's tensors, the emitter's code
_CODE = re.compile(r"\[([A-Z]+\d{3})\]")


@dataclass(frozen=True, slots=True)
class Check:
    """Decides if an artifact (or a pair of them), which takes no inputs, still fails.

    `text` describes the failure in the generated test. `inputs_are_fixed`: the reference was computed once,
    from the inputs of the program.
    """

    # called with one artifact, or with two
    fails: Callable[..., bool]
    text: str
    inputs_are_fixed: bool = False


def finite_check(machine: Machine[Any], options: HuntOptions, interp: InterpOptions) -> Check:
    """Checks that an op computes a bad value from good ones."""

    def fails(artifact: Artifact) -> bool:
        finding = hunt(Subject(artifact, machine, options=interp), options)
        return finding is not None and finding.function is not None

    return Check(fails, "an op makes a NaN or an infinity")


def engine_check(
    emitter: Emitter[Any], machine: Machine[Any], interp: InterpOptions, tolerance: Tolerance | None = None
) -> Check:
    """Checks that the emitter's engine differs from the interpreter, or fails alone."""

    def fails(artifact: Artifact) -> bool:
        subject = Subject(artifact, machine, options=interp)
        second = engine_samples(artifact, emitter, machine, InputChoice())
        comparison = compare_runs(samples(subject), second, tolerance)
        return comparison.mismatch is not None or comparison.failed == 2

    return Check(fails, f"the engine {emitter.name!r} differs from the interpreter")


def program_check(machine: Machine[Any], interp: InterpOptions, tolerance: Tolerance | None = None) -> Check:
    """Checks that a second program computes another value than the first under the same name.

    Random operators draw once for both.
    """

    def fails(first: Artifact, second: Artifact) -> bool:
        one = Subject(first, machine, options=interp)
        two = Subject(second, machine, options=interp, draws=one.draws)
        return compare_runs(samples(one), samples(two), tolerance).mismatch is not None

    return Check(fails, "the second program computes another value")


def eager_check(reference: EagerReference, machine: Machine[Any], interp: InterpOptions) -> Check:
    """Checks that the op differs from the model as in the whole program, where its value is the first to
    differ.

    A copy in place of the op has the value of the whole program and does not count.
    """

    def fails(artifact: Artifact) -> bool:
        mismatch = reference.mismatch(Subject(artifact, machine, options=interp))
        if mismatch is None or mismatch.first.function is None:
            return False
        return not is_stub(mismatch.first.function.body[mismatch.first.position])

    return Check(fails, f"{reference.text} differs from the model", inputs_are_fixed=True)


def command_check(command: str, artifact: Artifact, timeout: float = 600) -> Check:
    """Checks that a shell command fails as it does for `artifact`.

    The file replaces `{}`, or is appended as the last argument. The exit status and, if one is printed, the
    error code must be the same.
    """
    first = _outcome(command, artifact, timeout)

    def fails(candidate: Artifact) -> bool:
        return first[0] != 0 and _outcome(command, candidate, timeout) == first

    return Check(fails, f"`{command}` fails with status {first[0]}")


def _outcome(command: str, artifact: Artifact, timeout: float) -> tuple[int, str]:
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "candidate.wir"
        save(artifact, path)
        file = shlex.quote(str(path))
        line = command.replace("{}", file) if "{}" in command else f"{command} {file}"
        process = subprocess.run(
            line, shell=True, capture_output=True, text=True, check=False, timeout=timeout
        )  # the user's own command
    match = _CODE.search(process.stderr) or _CODE.search(process.stdout)
    return process.returncode, match[1] if match else ""
