"""Runs programs one after another with guard pages around their memory; run by `test_guarded_soundness.py`.

Usage: `python -m tests.soundness.guarded.worker KIND FIRST COUNT ENGINES`, with a kind of `cases.KINDS` and
engines separated by commas. Prints one line `NUMBER OUTCOME` per program. Programs run in a forked process,
which is replaced if it ends: a crash or a hang loses one program. `show KIND NUMBER` prints a program and
runs it here.
"""

from __future__ import annotations

import faulthandler
import os
import signal
import sys
import tempfile
import warnings
from collections.abc import Iterator

import torch

from tests.soundness.guarded.allocator import GuardPages, install
from tests.soundness.guarded.cases import case
from tests.soundness.guarded.engines import judge
from tests.soundness.guarded.kernels import TouchRuntime

CPU_SECONDS = 20.0
"""Processor time after which a program counts as hanging; other load does not affect it."""


def run_one(kind: str, number: int, pages: GuardPages, engines: tuple[str, ...]) -> str:
    """The outcome of one program, on one line."""
    signal.setitimer(signal.ITIMER_PROF, CPU_SECONDS)
    try:
        artifact, make = case(kind, number)
        return judge(artifact, make, TouchRuntime(pages), engines)
    except Exception as error:
        where = error.__traceback__
        while where is not None and where.tb_next is not None:
            where = where.tb_next
        place = "" if where is None else f" at {where.tb_frame.f_code.co_filename}:{where.tb_lineno}"
        return f"WRONG: {type(error).__name__}: {error}{place}"
    finally:
        signal.setitimer(signal.ITIMER_PROF, 0)


def _child(
    kind: str, numbers: range, pages: GuardPages, engines: tuple[str, ...], out: int, errors: int
) -> None:
    """Writes a line for each program, so that the parent sees the position."""
    os.dup2(errors, 2)
    os.dup2(errors, 1)  # any output of a program
    faulthandler.enable()
    faulthandler.register(signal.SIGPROF, chain=True)
    for number in numbers:
        os.truncate(errors, 0)
        line = run_one(kind, number, pages, engines).replace("\n", " | ")[:1500]
        os.write(out, f"{number} {line}\n".encode(errors="replace"))


def outcomes(kind: str, numbers: range, pages: GuardPages, engines: tuple[str, ...]) -> Iterator[str]:
    """A line for each program, with the signal and the stack of those that ended the process."""
    with tempfile.TemporaryFile("a+b") as errors:  # output to a truncated file goes to its start
        while numbers:
            reading, writing = os.pipe()
            pid = os.fork()
            if pid == 0:
                try:
                    _child(kind, numbers, pages, engines, writing, errors.fileno())
                finally:
                    os._exit(0)
            os.close(writing)
            with open(reading, errors="replace") as lines:
                for line in lines:
                    yield line.rstrip("\n")
                    numbers = numbers[1:]
            _, status = os.waitpid(pid, 0)
            if numbers:
                errors.seek(0)
                said = errors.read().decode(errors="replace")[-3000:].replace("\n", " | ")
                how = os.waitstatus_to_exitcode(status)
                name = "hangs" if how == -signal.SIGPROF else f"ends the process with {how}"
                yield f"{numbers[0]} WRONG: {name}: {said}"
                numbers = numbers[1:]


def main() -> None:
    """See the module."""
    warnings.simplefilter("ignore")
    torch.set_num_threads(1)
    pages = install()
    if sys.argv[1] == "show":
        from wrapper_ir import print_program

        kind, number = sys.argv[2], int(sys.argv[3])
        artifact, make = case(kind, number)
        print(print_program(artifact.program))
        print(
            [(a.dtype, a.shape, a.stride(), a) if isinstance(a, torch.Tensor) else a for a in make()],
            flush=True,
        )
        faulthandler.enable()
        print(run_one(kind, number, pages, ("python", "fx", "fx hop")))
        return
    kind, first, count = sys.argv[1], int(sys.argv[2]), int(sys.argv[3])
    for line in outcomes(kind, range(first, first + count), pages, tuple(sys.argv[4].split(","))):
        print(line, flush=True)


if __name__ == "__main__":
    main()
