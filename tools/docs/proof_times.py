"""Run the commands in the table of `docs/testing.md` and write their seconds into its last column.

`python -m tools.docs.proof_times` for all rows, `--only WORD` for those whose line has the word in it.
"""

from __future__ import annotations

import argparse
import re
import subprocess
import sys
import time
from pathlib import Path

_ROOT = Path(__file__).resolve().parents[2]
_PAGE = _ROOT / "docs" / "testing.md"
_ROW = re.compile(r"^(?P<head>\|.*\| `(?P<command>make [^`]+)` \|)[^|]*\|$")


def main() -> int:
    """Updates the page, a row at a time; returns 1 if any command failed, whose time is then omitted."""
    parser = argparse.ArgumentParser(prog="python -m tools.docs.proof_times", description=__doc__)
    parser.add_argument("--only", default="", help="rows that have this in their line")
    only: str = parser.parse_args().only
    lines = _PAGE.read_text(encoding="utf-8").splitlines()
    failed = 0
    for i, line in enumerate(lines):
        row = _ROW.match(line)
        if row is None or only not in line:
            continue
        seconds, ok = _run(row["command"])
        failed += not ok
        lines[i] = f"{row['head']} {seconds if ok else ''} |"
        print(f"{row['command']}: {f'{seconds} s' if ok else 'failed'}", flush=True)
        _PAGE.write_text("\n".join(lines) + "\n", encoding="utf-8")
    return 1 if failed else 0


def _run(command: str) -> tuple[int, bool]:
    started = time.perf_counter()
    # a command from a page of this repository, without the check of the environment
    words = ["make", "-o", ".venv/.ready", *command.split()[1:]]
    process = subprocess.run(words, cwd=_ROOT, capture_output=True, check=False)
    return round(time.perf_counter() - started), process.returncode == 0


if __name__ == "__main__":
    sys.exit(main())
