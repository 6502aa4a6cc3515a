"""Torch's operator database with memory plans: `python -m tools.conformance.planned`.

Each program passes through all memory passes, verified and compared after each one, and runs in every engine
with poisoned slots or persistent buffers. Results, and inputs after the call, must have the bits of emitted
Python without a plan.
"""

from __future__ import annotations

import sys

from tools.conformance.sides import Sides, main

SIDES = Sides(
    command="planned",
    ours="planned",
    stock="",
    names=("planned", ""),
    title="Memory plans of the operator database",
    text="Cases that stock `torch.compile` gets right, after all memory passes, each verified and compared with what was before: "
    "interpreter and emitted Python with poisoned slots, emitted Python and FX graphs with persistent buffers, FX graphs, and where "
    "there are slots C++ libraries (without `use-out-variants` where torch has no C function of a variant), each called twice. Right is what gives the bits of emitted Python without a plan, in results and "
    "in inputs after the call.",
    goal=1.0,
)

if __name__ == "__main__":
    sys.exit(main(SIDES))
