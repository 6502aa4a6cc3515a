"""Configs that follow from what the compiler found out: reductions whose registers leave multiprocessors idle."""

from __future__ import annotations

import dataclasses
import math
import re
from collections.abc import Mapping
from dataclasses import dataclass

from wrapper_ir import ir

_BLOCK = re.compile(r"R\d*_?BLOCK")
_SMALLEST = 64
"""Elements of a reduction's block that are not halved any more."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Multiprocessors:
    """A device's multiprocessors: how many, the registers of each, and the threads that each can hold."""

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
"""By compute capability: registers and threads are the architecture's, the count is that of its largest data-centre or
workstation model, for devices that are not there to be asked."""


def scaled(
    kernel: ir.TritonKernel, config: ir.TritonConfig, facts: ir.LaunchFacts, device: Multiprocessors
) -> ir.TritonConfig | None:
    """The config with its largest reduction block halved, where that could help: one thread takes more registers than
    let a multiprocessor hold all the threads it can, there are more programs than run at once, and the block is not
    small. None where it could not, and where the compiler does not tell.
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
