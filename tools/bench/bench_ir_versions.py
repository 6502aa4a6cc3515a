"""Parse, print, verify and JSON of two versions of `wrapper_ir`, in one run.

Usage: `python -m tools.bench.bench_ir_versions OLD NEW [OPS ...]`, where OLD and NEW are folders to import
`wrapper_ir` from (`git worktree add /tmp/old 64cc238~1`, then `/tmp/old/packages/wrapper_ir/src
packages/wrapper_ir/src`). Each version runs in a separate process, on the program of `bench_ir_scale`, with
its own text and JSON. Rounds alternate between the two; times are the best of the rounds, in process time.
"""

from __future__ import annotations

import argparse
import gc
import os
import subprocess
import sys
from collections.abc import Callable
from functools import partial
from pathlib import Path

from tools.bench.bench_ir_scale import synthetic
from tools.bench.pages import table
from tools.bench.timing import alternate, best_seconds
from wrapper_ir import check, from_json, parse_program, print_program, to_json

SIZES = (20_000, 100_000)
ROUNDS = 9
STEPS = ("print", "parse", "verify", "to JSON", "from JSON")
_ROOT = Path(__file__).parents[2]


def _measured(ops: int, dynamic: bool) -> dict[str, Callable[[], object]]:
    program = synthetic(ops, dynamic=dynamic)
    text, json = print_program(program), to_json(program)
    return {
        "print": lambda: print_program(program),
        "parse": lambda: parse_program(text),
        "verify": lambda: check(program),
        "to JSON": lambda: to_json(program),
        "from JSON": lambda: from_json(json),
    }


def serve(ops: int, dynamic: bool) -> None:
    """Runs each step that is named on standard input, and prints its seconds."""
    runs = _measured(ops, dynamic)
    for line in sys.stdin:
        gc.collect()
        print(best_seconds(runs[line.strip()], 1), flush=True)


class _Side:
    """One version in a separate process."""

    def __init__(self, source: str, ops: int, dynamic: bool) -> None:
        command = [sys.executable, "-m", "tools.bench.bench_ir_versions", "--serve", str(ops)]
        self._process = subprocess.Popen(
            [*command, *(["--dynamic"] if dynamic else [])],
            env={
                **os.environ,
                "PYTHONPATH": f"{Path(source).resolve()}{os.pathsep}{_ROOT}",
                "PYTHONHASHSEED": "0",
            },
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
        )

    def seconds(self, step: str) -> float:
        """Returns the seconds of one execution."""
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        print(step, file=self._process.stdin, flush=True)
        return float(self._process.stdout.readline())

    def close(self) -> None:
        """Ends the process."""
        self._process.communicate()


def compare(old: str, new: str, ops: int, dynamic: bool) -> list[list[str]]:
    """Rows of the table: (ops, sizes, step, best of both, their ratio)."""
    sides = {"old": _Side(old, ops, dynamic), "new": _Side(new, ops, dynamic)}
    sizes, rows = "symbolic" if dynamic else "fixed", []
    for step in STEPS:
        times = alternate({name: partial(side.seconds, step) for name, side in sides.items()}, ROUNDS)
        a, b = min(times["old"]), min(times["new"])
        rows.append([f"{ops:,}", sizes, step, f"{a:.3f}", f"{b:.3f}", f"{b / a:.2f}"])
    for side in sides.values():
        side.close()
    return rows


def main() -> None:
    """Run the command line."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("sources", nargs="*", metavar="OLD NEW [OPS ...]")
    parser.add_argument("--serve", type=int, help=argparse.SUPPRESS)
    parser.add_argument("--dynamic", action="store_true", help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.serve:
        serve(options.serve, options.dynamic)
        return
    old, new, *sizes = options.sources
    rows = []
    for ops in map(int, sizes or SIZES):
        for dynamic in (False, True):
            rows += compare(old, new, ops, dynamic)
    print(table(("ops", "sizes", "step", "old s", "new s", "new / old"), rows))


if __name__ == "__main__":
    main()
