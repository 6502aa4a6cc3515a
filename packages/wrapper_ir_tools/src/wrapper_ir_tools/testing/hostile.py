"""Names, strings and sources that are hard to print."""

from __future__ import annotations

import dataclasses
import random

from wrapper_ir import ir

_CHARACTERS = "ab_.0 \"'\\\n\r\t{}[]()#%@,:=-é漢\u2028\x00\U0001f600\u0301"
_LINES = (
    "// }}}",
    "/*\n}}}\n}}}}  \n*/",
    '// "quotes" \\ and # marks',
    "// tab\there, größer",
    "// form\x0cfeed",
    "provenance",
)
_NODES = ("relu", "addmm_1", "linear", 'odd "node"', "größe")


def hostile_string(rng: random.Random) -> str:
    """A string of up to eight characters that need escapes."""
    return "".join(rng.choice(_CHARACTERS) for _ in range(rng.randrange(9)))


def hostile_name(rng: random.Random, wish: str) -> str:
    """`wish`, occasionally with characters that need quotes."""
    match rng.randrange(12):
        case 0:
            return f"{wish}.{rng.randrange(3)}"
        case 1:
            return wish + hostile_string(rng)
        case _:
            return wish


def hostile_source(rng: random.Random, kernel: ir.CppKernel) -> ir.CppKernel:
    """The kernel with comment lines that look like the end of a block, among others."""
    line = rng.choice(_LINES)
    if line == "provenance":
        line = "/*\nprovenance\n  #1 nodes()\n*/"
    return dataclasses.replace(kernel, source=f"{kernel.source}{line}{rng.choice(('', chr(10)))}")


def random_provenance(rng: random.Random) -> ir.Provenance:
    """Often unknown; otherwise a random subset of its parts."""
    if rng.random() < 0.3:
        return ir.UNKNOWN

    def some(*items: str) -> tuple[str, ...]:
        return tuple(rng.sample(items, rng.randrange(min(3, len(items)) + 1)))

    return ir.Provenance(
        nodes=some(*_NODES),
        ops=some("aten.relu.default", "aten.addmm.default"),
        locations=some("model.py:12", "C:\\model.py:7"),
        modules=some("encoder.layer.0", "mlp.1"),
        frontend_name=rng.choice(("", "buf0", "cpp_fused_relu_0")),
    )
