"""Writes a table of choices: the chosen kernel, the source files of all candidates, and their times."""

from __future__ import annotations

import csv
import io
import os
from dataclasses import dataclass
from pathlib import Path

from triton_runtime.choose.options import Pick

COLUMNS = ("multi_kernel", "kernel", "path", "latency_us", "chosen", "why")


@dataclass(frozen=True, slots=True)
class MetricsTable:
    """Appends one line per candidate of each choice to a CSV file with `COLUMNS`.

    Times are means in microseconds, empty for a kernel that was not measured. Processes may share the file:
    each choice is one write.
    """

    path: Path

    def __call__(self, pick: Pick) -> None:
        """Writes one choice; raises OSError."""
        count = len(pick.names)
        means = pick.means or (None,) * count
        paths = pick.paths or ("",) * count
        rows = [
            (pick.kernel, name, path, "" if m is None else f"{m * 1e6:.3f}", int(i == pick.index), pick.why)
            for i, (name, path, m) in enumerate(zip(pick.names, paths, means, strict=True))
        ]
        self.path.parent.mkdir(parents=True, exist_ok=True)
        handle = os.open(self.path, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o644)
        with os.fdopen(handle, "ab") as file:
            head = [COLUMNS] if file.tell() == 0 else []
            text = io.StringIO()
            csv.writer(text).writerows([*head, *rows])
            file.write(text.getvalue().encode())
