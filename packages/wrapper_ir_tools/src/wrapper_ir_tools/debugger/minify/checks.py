"""What a program that is being shrunk has to go on doing wrong."""

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
    """Whether an artifact, or both of two, which take no inputs, still fail; `text` says how, for the test that comes out.
    `inputs_are_fixed`: what the check compares with was computed once, from the inputs that the program has."""

    fails: Callable[..., bool]  # of one artifact, or of two
    text: str
    inputs_are_fixed: bool = False


def finite_check(machine: Machine[Any], options: HuntOptions, interp: InterpOptions) -> Check:
    """An op makes a bad value from good ones."""

    def fails(artifact: Artifact) -> bool:
        found = hunt(Subject(artifact, machine, options=interp), options)
        return found is not None and found.function is not None

    return Check(fails, "an op makes a NaN or an infinity")


def engine_check(
    emitter: Emitter[Any], machine: Machine[Any], interp: InterpOptions, tolerance: Tolerance | None = None
) -> Check:
    """The emitter's engine computes something else than the interpreter, or fails where that does not."""

    def fails(artifact: Artifact) -> bool:
        subject = Subject(artifact, machine, options=interp)
        second = engine_samples(artifact, emitter, machine, InputChoice())
        found = compare_runs(samples(subject), second, tolerance)
        return found.mismatch is not None or found.failed == 2

    return Check(fails, f"the engine {emitter.name!r} differs from the interpreter")


def program_check(machine: Machine[Any], interp: InterpOptions, tolerance: Tolerance | None = None) -> Check:
    """A second program computes another value than the first under the same name. Random operators draw once for both."""

    def fails(first: Artifact, second: Artifact) -> bool:
        one = Subject(first, machine, options=interp)
        two = Subject(second, machine, options=interp, draws=one.draws)
        return compare_runs(samples(one), samples(two), tolerance).mismatch is not None

    return Check(fails, "the second program computes another value")


def eager_check(reference: EagerReference, machine: Machine[Any], interp: InterpOptions) -> Check:
    """The op computes something else than the model, of whose value the whole program differs first. A copy in the op's place
    holds what it computed in the whole program, and does not count."""

    def fails(artifact: Artifact) -> bool:
        found = reference.mismatch(Subject(artifact, machine, options=interp))
        if found is None or found.first.function is None:
            return False
        return not is_stub(found.first.function.body[found.first.position])

    return Check(fails, f"{reference.text} differs from the model", inputs_are_fixed=True)


def command_check(command: str, artifact: Artifact, timeout: float = 600) -> Check:
    """A shell command on the file (in place of `{}`, else as last argument) fails as it does for `artifact`: with the same exit
    status and, where it prints one, the same code."""
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
        done = subprocess.run(
            line, shell=True, capture_output=True, text=True, check=False, timeout=timeout
        )  # the user's own command
    found = _CODE.search(done.stderr) or _CODE.search(done.stdout)
    return done.returncode, found[1] if found else ""
