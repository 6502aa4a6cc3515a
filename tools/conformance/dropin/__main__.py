"""Runs the drop-in list: `python -m tools.conformance.dropin [--feature NAME ...] [--program TEXT] [--jobs N]
[--anew]`.

Rows are written to out/dropin immediately, so an interrupted run resumes; rows that differed run again. Each
program is compiled by stock `torch.compile` and by the backend wrapper_ir, with fixed and with dynamic sizes,
and called. Results, changed arguments, gradients, object identity, layouts, the random state and errors must
be equal. A run over all features writes docs/conformance-drop-in.md. Exit status 1 if a row differs.
"""

from __future__ import annotations

import argparse
import shutil
import sys
from collections.abc import Sequence
from pathlib import Path

from tools.conformance.dropin.run import FEATURES, PAGE, render, run_features


def main(argv: Sequence[str] | None = None) -> int:
    """Runs the command line (by default the process's); returns the exit status."""
    parser = argparse.ArgumentParser(prog="python -m tools.conformance.dropin", description=__doc__)
    parser.add_argument("--feature", action="append", choices=FEATURES, help="only this one; may be repeated")
    parser.add_argument("--program", default="", help="only programs whose name has this in it")
    parser.add_argument("--jobs", type=int, default=2, help="processes at a time")
    parser.add_argument("--anew", action="store_true", help="forget the results of earlier runs")
    options = parser.parse_args(argv)
    out = Path("out/dropin")
    if options.anew:
        shutil.rmtree(out, ignore_errors=True)
    rows = run_features(options.feature or FEATURES, options.program, options.jobs, out)
    wrong = [row for row in rows if row.wrong]
    print(f"{len(rows)} runs, {len(wrong)} different")
    if options.feature is None and not options.program:
        PAGE.write_text(render(rows), encoding="utf-8")
    return bool(wrong)


if __name__ == "__main__":
    sys.exit(main())
