"""Plants each fault, runs the commands that find it, and returns their output.

`python -m tests.debugger.transcript` writes it into `docs/debugging.md`.
"""

from __future__ import annotations

import json
import os
import shlex
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from tempfile import TemporaryDirectory

from click.testing import CliRunner

import inductor_frontend
from tests.debugger import fault_models
from tests.debugger.faults import FAULTS, Fault
from wrapper_ir import save
from wrapper_ir.artifact import Artifact
from wrapper_ir_tools.cli.main import main as wir

PAGE = Path(__file__).parents[2] / "docs" / "debugging.md"
BEGIN, END = "<!-- faults: begin -->\n", "<!-- faults: end -->\n"
_WIDTH = 150
_LINES = 26


def capture_model(name: str) -> Artifact:
    """The program of a model, as `wir capture` stores it."""
    model, args, kwargs = getattr(fault_models, name.removesuffix("_gpu"))()
    target = "cuda:sm_90" if name.endswith("_gpu") else None
    made = inductor_frontend.capture(model, args, kwargs, target=target)
    noted = {"frontend": "inductor", "model": f"{fault_models.__name__}:{name}"}
    return replace(made, metadata={**made.metadata, "capture": json.dumps(noted)})


@contextmanager
def _inside(folder: Path) -> Iterator[None]:
    before = Path.cwd()
    os.chdir(folder)
    try:
        yield
    finally:
        os.chdir(before)


def find(fault: Fault, good: Artifact) -> list[tuple[str, str]]:
    """Returns the commands with their output, run in a folder with `good.wir` and `bad.wir`."""
    with TemporaryDirectory() as folder, _inside(Path(folder)):
        save(good, "good.wir")
        save(fault.plant(good), "bad.wir")
        return [(command, _run(command)) for command in fault.commands_for(good)]


def _run(command: str) -> str:
    name, *arguments = shlex.split(command)
    assert name == "wir"
    done = CliRunner().invoke(wir, arguments, catch_exceptions=False)
    return done.output


def section(found: dict[str, list[tuple[str, str]]]) -> str:
    """The section of the page: a block for each fault, long lines cut."""
    parts = []
    for fault in FAULTS:
        note = " ".join((fault.plant.__doc__ or "").split())
        lines = [
            f"### {fault.name[0].upper()}{fault.name[1:]}",
            "",
            f"In `{fault.model}`: {note}",
            "",
            "```console",
        ]
        for command, output in found[fault.name]:
            lines.append(f"$ {command}")
            printed = output.splitlines()
            lines += [x if len(x) <= _WIDTH else f"{x[: _WIDTH - 3]}..." for x in printed[:_LINES]]
            lines += [f"... ({len(printed) - _LINES} more lines)"] if len(printed) > _LINES else []
        parts.append("\n".join([*lines, "```", ""]))
    return "\n".join(parts)


def main() -> None:
    """Writes the page."""
    goods = {name: capture_model(name) for name in dict.fromkeys(f.model for f in FAULTS)}
    found = {fault.name: find(fault, goods[fault.model]) for fault in FAULTS}
    text = PAGE.read_text(encoding="utf-8")
    head, _, rest = text.partition(BEGIN)
    _, _, tail = rest.partition(END)
    PAGE.write_text(f"{head}{BEGIN}\n{section(found)}\n{END}{tail}", encoding="utf-8")


if __name__ == "__main__":
    main()
