"""Feeds `wir step` with commands, from lists and from standard input, with history and completion on a terminal."""

from __future__ import annotations

import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path

from wrapper_ir_tools.debugger.console import Console

_HISTORY = Path("~/.wir_history")
_LENGTH = 1000


def run_console(console: Console, lines: Sequence[str], *, batch: bool) -> None:
    """Shows where the run is, runs `lines`, each shown after the prompt, then what standard input has."""
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
    """Until the session ends; an interrupt ends a command only."""
    while True:
        try:
            console.cmdloop()
            return
        except KeyboardInterrupt:
            console.say("interrupted")


@contextmanager
def _history() -> Iterator[None]:
    try:
        import readline  # not everywhere: Windows lacks it
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
