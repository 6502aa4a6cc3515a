"""Torch's operator database through FX graphs, ours and Inductor's, on the same cases: `python -m
tools.conformance.fx`.

Ours are converted in both forms, and every graph must be whole; Inductor's come from `fx_wrapper=True`.
"""

from __future__ import annotations

import sys

from tools.conformance.sides import Sides, main

SIDES = Sides(
    command="fx",
    ours="fx",
    stock="stock_fx",
    names=("fx_converter", "Inductor's converter"),
    title="FX graphs of the operator database",
    text="Cases that stock `torch.compile` gets right, through FX graphs: ours in both forms, with all checks; "
    "Inductor's (`fx_wrapper=True`) without its checks of sizes, alignment and conditions, which its converter refuses.",
    goal=0.99,
)

if __name__ == "__main__":
    sys.exit(main(SIDES))
