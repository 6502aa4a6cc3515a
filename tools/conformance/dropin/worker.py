"""Runs the programs of one feature: `python -m tools.conformance.dropin.worker FEATURE TEXT SKIPPED`.

Prints three JSON lines per run: at its start, after stock, and the verdict.
"""

from __future__ import annotations

import importlib
import json
import sys
import warnings

import torch

from tools.conformance.dropin.observe import Seen, difference, outcomes
from tools.conformance.dropin.table import Program


def programs_of(feature: str) -> dict[str, Program]:
    """The programs of a feature by name."""
    module = importlib.import_module(f"tools.conformance.dropin.programs.{feature}")
    return dict(module.PROGRAMS)


def verdict(program: Program, stock: list[Seen], *, dynamic: bool) -> tuple[str, str]:
    """Compares ours with stock; returns the verdict and the difference.

    Verdicts are `equal`, `error` (the same one in both), `as stock` (which cannot compile it), `as eager`
    (stock differs from eager mode, and ours does not) and `wrong`.
    """
    ours = outcomes(program, "wrapper_ir", dynamic=dynamic)
    text = difference(stock, ours)
    if text:
        as_eager = not difference(outcomes(program, "eager", dynamic=dynamic), ours)
        return "as eager" if as_eager else "wrong", text
    if all(_refused(seen) for seen in stock):
        return "as stock", ""
    return ("error" if any(seen.error for seen in stock) else "equal"), ""


def _refused(seen: Seen) -> bool:
    return bool(seen.error) and not seen.compiles


def main() -> None:
    """See the module."""
    warnings.simplefilter("ignore")
    torch.set_num_threads(1)
    feature, text, skipped = *sys.argv[1:3], json.loads(sys.argv[3])
    for name, program in programs_of(feature).items():
        for dynamic in (False, True):
            if text not in name or [name, dynamic] in skipped:
                continue
            print(json.dumps({"start": name, "dynamic": dynamic}), flush=True)
            stock = outcomes(program, "inductor", dynamic=dynamic)
            print(json.dumps({"stock": len(stock)}), flush=True)
            kind, detail = verdict(program, stock, dynamic=dynamic)
            print(json.dumps({"kind": kind, "detail": detail}), flush=True)


if __name__ == "__main__":
    main()
