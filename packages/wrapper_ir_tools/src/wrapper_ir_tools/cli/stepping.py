"""Feeds commands to `wir step` from lists and standard input; a terminal has history and completion."""

from __future__ import annotations

import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path

from wrapper_ir_tools.debugger.console import Console

_HISTORY = Path("~/.wir_history")
_LENGTH = 1000


def run_console(console: Console, lines: Sequence[str], *, batch: bool) -> None:
    """Shows the position, then runs `lines`, each printed after the prompt, then standard input."""
    console.show()
    for line in lines:
        console.say(f"{console.prompt}{line}")
        if console.onecmd(line):
            return
    if batch:
        return
    if sys.stdin.isatty():
        with _history():
            _loop(console)
        return
    for line in sys.stdin:
        console.say(f"{console.prompt}{line.rstrip()}")
        if console.onecmd(line.strip()):
            return


def _loop(console: Console) -> None:
    """Runs until the session ends; an interrupt ends only the current command."""
    while True:
        try:
            console.cmdloop()
            return
        except KeyboardInterrupt:
            console.say("interrupted")


@contextmanager
def _history() -> Iterator[None]:
    try:
        # Windows has none
        import readline
    except ImportError:
        yield
        return
    file = str(_HISTORY.expanduser())
    with suppress(OSError):
        readline.read_history_file(file)
    readline.set_completer_delims(" ")
    try:
        yield
    finally:
        readline.set_history_length(_LENGTH)
        with suppress(OSError):
            readline.write_history_file(file)
