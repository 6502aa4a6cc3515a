"""Torch's operator database as native libraries: `python -m tools.conformance.native`.

Libraries are built without optimisation, and called twice. Operators that the native runtime lacks, or does not
have for the arguments of a case, are refused by name; anything else is wrong.
"""

from __future__ import annotations

import sys

from tools.conformance.native_refusals import PATTERN
from tools.conformance.sides import Sides, main

SIDES = Sides(
    command="native",
    ours="native",
    stock="",
    names=("native", ""),
    title="Native libraries of the operator database",
    text="Cases that stock `torch.compile` gets right, as libraries that need no torch: built with `opt_level=0`, and "
    "called twice through `wrapper_ir_native.load`.",
    goal=0.85,
    refused=PATTERN,
)

if __name__ == "__main__":
    sys.exit(main(SIDES))
