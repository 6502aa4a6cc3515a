"""Checks of libraries beside speed: threads that share one, repeated loads, processes that share its weights,
other runtimes in its process.
"""

from __future__ import annotations

import contextlib
from pathlib import Path

from tools.bench.native.processes import Command, Server, run_driver
from tools.bench.native.sides import LIBTORCH, NATIVE, SIDES, Workshop
from tools.bench.native.together import together_row
from tools.bench.pages import table

_THREADS, _CALLS, _LOADS, _PROCESSES = 8, 10_000, 1_000, 8


def proportional_kilobytes(rollup: str) -> int:
    """The proportional share of memory, of the text of `/proc/ID/smaps_rollup`."""
    (line,) = (line for line in rollup.splitlines() if line.startswith("Pss:"))
    return int(line.split()[1])


def weight_kilobytes(maps: str, file: str) -> tuple[int, int]:
    """Resident and proportional memory of a file's constants, of the text of `/proc/ID/smaps`: its mappings of
    4 MiB and more, which are shared."""
    resident = proportional = 0
    is_weights = False
    for line in maps.splitlines():
        first, _, rest = line.partition(" ")
        if not first.endswith(":"):  # the head of a mapping
            begin, end = (int(text, 16) for text in first.split("-"))
            is_weights = rest.endswith(file) and end - begin >= 4 << 20
        elif is_weights and first == "Rss:":
            resident += int(rest.split()[0])
        elif is_weights and first == "Pss:":
            proportional += int(rest.split()[0])
    return resident, proportional


def _shared(command: Command) -> str:
    """Proportional memory of several processes together, over that of one, less the weights."""
    sizes, weights = dict[int, list[int]](), list[tuple[int, int]]()
    for count in (1, _PROCESSES):
        with contextlib.ExitStack() as stack:
            servers = [stack.enter_context(Server(command, 1, "hold")) for _ in range(count)]
            for server in servers:
                server.answer()
            texts = [
                Path(f"/proc/{server.id}/smaps_rollup").read_text(encoding="utf-8") for server in servers
            ]
            sizes[count] = [proportional_kilobytes(text) for text in texts]
            weights = [
                weight_kilobytes(
                    Path(f"/proc/{server.id}/smaps").read_text(encoding="utf-8"), command.model.name
                )
                for server in servers
            ]
    one, (least, most) = sizes[1][0], (min(sizes[_PROCESSES]), max(sizes[_PROCESSES]))
    resident, together = max(one for one, _ in weights), sum(part for _, part in weights)
    shared = f"; weights: {together / resident:.3f} of one copy" if resident else ""
    return (
        f"one has {one / 1024:.1f} MiB, {_PROCESSES} have {sum(sizes[_PROCESSES]) / 1024:.1f} together, "
        f"{least / 1024:.2f} to {most / 1024:.2f} each{shared}"
    )


def checks(workshop: Workshop) -> str:
    """A table of our sides."""
    rows = list[tuple[str, str, str, str]]()
    wanted = {title: side for title, side in SIDES.items() if title in (LIBTORCH, NATIVE)}
    for model, loads in (("mlp", _LOADS), ("minilm", _LOADS // 10)):
        prepared = workshop.prepare(model, wanted)
        for title, command in prepared.commands.items():
            calls = _CALLS if model == "mlp" else _CALLS // 100
            shared = run_driver(command, 1, "share", str(_THREADS), str(calls)).numbers
            grown = (shared["resident"] - shared["before"]) / 1024
            rows.append(
                (
                    model,
                    title,
                    f"{_THREADS} threads x {calls:,} calls",
                    f"{shared['different']:.0f} differ, {grown:+.1f} MiB",
                )
            )
            again = run_driver(command, 1, "reload", str(loads)).numbers
            grown = (again["resident"] - again["before"]) / 1024
            rows.append((model, title, f"{loads:,} loads", f"{grown:+.1f} MiB since the {loads // 10}th"))
            rows.append((model, title, f"{_PROCESSES} processes", _shared(command)))
    rows.append(together_row(workshop))
    return table(("model", "side", "check", "result"), rows)
