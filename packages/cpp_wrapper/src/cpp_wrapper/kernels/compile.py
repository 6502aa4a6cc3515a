"""Runs the compiler and reports its errors."""

from __future__ import annotations

import errno
import os
import shlex
import signal
import subprocess
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from cpp_wrapper.errors import CompileError
from cpp_wrapper.kernels.toolchain import Recipe, link_args

PROGRAM = "wir_program"
"""The symbol under which the container of a library looks for its program."""
_SHOWN_LINES = 12
_FULL = os.strerror(errno.ENOSPC)


@dataclass(frozen=True, slots=True, kw_only=True)
class Unit:
    """One compiler run. `what` names the subject in messages; `code` is the error code of a refusal."""

    what: str
    output: Path
    source: Path = Path()
    header: Path | None = None
    """A header to include first; its precompiled form is beside it."""
    code: str = "CPP102"


def compile_library(recipe: Recipe, unit: Unit, timeout: float) -> None:
    """Compiles and links one source file.

    Raises CompileError with `unit.code` if the compiler refuses, CPP104 if it runs longer than `timeout`
    seconds, and OSError if the disk is full. `unit.output` is then incomplete or absent.
    """
    _run(_command(recipe, unit, "-x", "c++", str(unit.source), *link_args(recipe)), unit, timeout)


def compile_object(recipe: Recipe, unit: Unit, timeout: float) -> None:
    """Compiles one source file. Raises the errors of `compile_library`."""
    _run(_command(recipe, unit, "-c", str(unit.source)), unit, timeout)


def link_stub(recipe: Recipe, unit: Unit, timeout: float) -> None:
    """Links an empty library with the name of one of torch's, `unit.output`.

    Raises the errors of `compile_library`.
    """
    empty = unit.output.with_name("stub.cpp")
    empty.write_text("")
    flags = ("-shared", "-nostdlib", f"-Wl,-soname,{unit.output.name}")
    _run((recipe.toolchain.command, *flags, str(empty), "-o", str(unit.output)), unit, timeout)


def link_library(
    recipe: Recipe,
    unit: Unit,
    objects: Sequence[Path],
    exports: Path,
    timeout: float,
    *,
    aliases: Sequence[tuple[str, str]] = (),
    is_whole: bool = False,
) -> None:
    """Links objects and stubs into a library, which needs the stubs by name.

    `exports` is a version script; the linker removes code that its symbols do not reach. `aliases` are
    symbols, and those of the objects that they stand for. `is_whole`: it needs symbols of the standard
    libraries only.
    Raises the errors of `compile_library`.
    """
    command = (
        recipe.toolchain.command,
        *recipe.flags,
        *("-o", str(unit.output)),
        *("-shared", f"-Wl,--version-script={exports}", "-Wl,--no-as-needed", "-Wl,--gc-sections"),
        *(("-Wl,-z,defs",) if is_whole else ()),
        *map(str, objects),
        *(f"-Wl,--defsym={name}={symbol}" for name, symbol in aliases),
    )
    _run(command, unit, timeout)


def join_objects(
    recipe: Recipe, unit: Unit, objects: Sequence[Path], globals: Sequence[str], timeout: float
) -> None:
    """Joins objects into one, in which only symbols that match a pattern of `globals` are visible to others.

    Raises the errors of `compile_library`.
    """
    # A group whose symbol is not visible would be dropped for another object's, and its readers with it:
    # the address of the function that handles exceptions.
    joins = ("-r", "-nostdlib", "-Wl,--force-group-allocation")
    _run((recipe.toolchain.command, *joins, "-o", str(unit.output), *map(str, objects)), unit, timeout)
    patterns = [f"--keep-global-symbol={one}" for one in globals]
    _run(("objcopy", "--wildcard", *patterns, str(unit.output)), unit, timeout)


def precompile_header(recipe: Recipe, header: Path, output: Path, timeout: float) -> None:
    """Compiles `header` into `output`, in the same folder. Raises CompileError CPP103 or CPP104."""
    unit = Unit(what="the kernels' common header", source=header, output=output, code="CPP103")
    _run(_command(recipe, unit, "-x", "c++-header", str(header)), unit, timeout)


def _command(recipe: Recipe, unit: Unit, *words: str) -> tuple[str, ...]:
    """Returns a command of the recipe that compiles the unit; `words` are its input and further arguments."""
    header = () if unit.header is None else ("-include", str(unit.header))
    flags = (*recipe.flags, *recipe.includes, *header, "-o", str(unit.output))
    return (recipe.toolchain.command, *flags, *words)


def _shown(command: tuple[str, ...], unit: Unit) -> str:
    """Returns the command in a form that a user can repeat: the output's folder will not exist."""
    return shlex.join("/dev/null" if word == str(unit.output) else word for word in command)


def _run(command: tuple[str, ...], unit: Unit, timeout: float) -> None:
    try:
        process = _finished(command, timeout)
    except subprocess.TimeoutExpired as cause:
        raise CompileError(
            "CPP104",
            f"compiling {unit.what} took longer than {timeout:g} s\n  command: {_shown(command, unit)}",
            "raise CppOptions.timeout, or lower CppOptions.opt_level",
        ) from cause
    if process.returncode != 0:
        if _FULL in process.stderr:
            raise OSError(errno.ENOSPC, _FULL, str(unit.output))  # the cache then uses another folder
        raise CompileError(
            unit.code,
            f"the compiler refused {unit.what} (exit status {process.returncode})\n"
            f"  command: {_shown(command, unit)}\n{_first_errors(process.stderr)}",
        )


def _finished(command: tuple[str, ...], timeout: float) -> subprocess.CompletedProcess[str]:
    """Runs a compiler to its end. On a timeout or an interrupt, its child processes are killed, too."""
    pipe = subprocess.PIPE
    with subprocess.Popen(command, stdout=pipe, stderr=pipe, text=True, process_group=0) as process:
        try:
            output, errors = process.communicate(timeout=timeout)
        except BaseException:
            os.killpg(process.pid, signal.SIGKILL)
            raise
    return subprocess.CompletedProcess(command, process.returncode, output, errors)


def _first_errors(stderr: str) -> str:
    """Returns the lines from the first error on, or the first lines if none contains `error`.

    The linker's own message precedes the line that contains the word.
    """
    lines = stderr.splitlines()
    errors = (i for i, line in enumerate(lines) if "error" in line and not line.startswith("collect2"))
    start = next(errors, 0)
    head = lines[start : start + _SHOWN_LINES]
    rest = len(lines) - start - len(head)
    return "\n".join(f"  | {line}" for line in head) + (f"\n  | … {rest} more lines" if rest > 0 else "")
