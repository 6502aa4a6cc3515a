"""Torch's operator database as C++ libraries, ours and AOTInductor's: `python -m tools.conformance.cpp`.

Ours are emitted, built without optimisation, and called twice through our loader. AOTInductor's sample is
fixed.
"""

from __future__ import annotations

import sys

from tools.conformance.sides import Sides, main

SIDES = Sides(
    command="cpp",
    ours="cpp",
    stock="stock_cpp",
    names=("cpp_wrapper", "AOTInductor"),
    title="C++ libraries of the operator database",
    text="Cases that stock `torch.compile` gets right, as C++ libraries: ours emitted, built with `opt_level=0`, and "
    "called twice through `cpp_wrapper.load`; AOTInductor's over the first 150, through `aoti_load_package`.",
    goal=0.98,
    stock_cases=150,
    build_together=32,
)

if __name__ == "__main__":
    sys.exit(main(SIDES))
