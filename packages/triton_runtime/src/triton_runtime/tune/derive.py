"""Derives configs from the compiler's output, for reductions whose registers leave multiprocessors idle."""

from __future__ import annotations

import dataclasses
import math
import re
from collections.abc import Mapping
from dataclasses import dataclass

from wrapper_ir import ir

_BLOCK = re.compile(r"R\d*_?BLOCK")
_SMALLEST = 64
"""Elements of a reduction's block that is not halved further."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Multiprocessors:
    """A device's multiprocessors: their number, and registers and threads of each."""

    count: int
    registers: int = 65536
    threads: int = 2048


MULTIPROCESSORS: Mapping[int, Multiprocessors] = {
    75: Multiprocessors(count=72, threads=1024),
    80: Multiprocessors(count=108),
    86: Multiprocessors(count=72, threads=1536),
    89: Multiprocessors(count=142, threads=1536),
    90: Multiprocessors(count=132),
    100: Multiprocessors(count=148),
    120: Multiprocessors(count=188, threads=1536),
}
"""Defaults by compute capability, for absent devices.

Registers and threads are the architecture's; the count is that of its largest data-centre or workstation
model.
"""


def scaled(
    kernel: ir.TritonKernel, config: ir.TritonConfig, facts: ir.LaunchFacts, device: Multiprocessors
) -> ir.TritonConfig | None:
    """Returns the config with its largest reduction block halved, if that could help.

    It could if a thread uses too many registers for full occupancy, more programs exist than run at once, and
    the block is not small. Otherwise, or if the compiler reports no registers, returns None.
    """
    blocks = {n: v for n, v in config.meta if _BLOCK.fullmatch(n) and isinstance(v, int) and v > 1}
    rows = dict(kernel.size_hints).get("x")
    if not blocks or rows is None or facts.registers is None or math.prod(blocks.values()) <= _SMALLEST:
        return None
    if facts.registers <= device.registers // device.threads:
        return None
    resident = max(device.registers // (facts.registers * facts.warp_size * facts.num_warps), 1)
    block = dict(config.meta).get("XBLOCK")
    programs = -(-rows // (block if isinstance(block, int) else 1))
    if programs <= resident * device.count:
        return None
    largest = max(blocks, key=lambda name: blocks[name])
    meta = tuple((n, blocks[n] // 2 if n == largest else v) for n, v in config.meta)
    return dataclasses.replace(config, meta=meta)
