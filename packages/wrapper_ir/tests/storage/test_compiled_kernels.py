"""Compiled kernels as files, and refusals of damaged ones."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import pytest

from wrapper_ir import ir, parse_program
from wrapper_ir.artifact.file.binaries import binaries_from_json, binaries_to_json, binary_files
from wrapper_ir.errors import ParseError
from wrapper_ir.expr import print_expr
from wrapper_ir.json.kernel_hash import content_hash, find_binary

PROGRAM = """
wir 0.5
target cuda:0 arch "sm_90"

kernel triton @k entry "k" (read f16[] x block(B, 64), f32 ratio, i64 n)
  order(x, ratio, n, B, FLAG)
  constants(FLAG = true)
  configs({B = 32} warps(4) stages(1), {B = 64} warps(8) stages(2) options(num_ctas = 2) grid(to_int(ratio * B), n))
  grid(ceildiv(n, B), rows) over(rows)
  {{{
}}}

func @main() {
  return
}
"""
KERNEL = next(k for k in parse_program(PROGRAM).kernels if isinstance(k, ir.TritonKernel))
MAP = ir.TensorMap(box=(32, 64), element_type=6, element_size=2, swizzle=3, padded=True)
FIRST = ir.KernelBinary(
    runtime="triton",
    kernel=content_hash(KERNEL),
    target="cuda:sm_90",
    key="0" * 64,
    compiler="3.7",
    config=KERNEL.configs[0],
    kind=ir.ImageKind.CUBIN,
    facts=ir.LaunchFacts(
        symbol="k", num_warps=4, warp_size=32, registers=40, scratch=ir.Scratch(nbytes=8, align=16)
    ),
    params=(
        ir.DriverParam(kind=ir.DriverParamKind.TENSOR_MAP, dtype=ir.DType.F16, position=0, map=MAP),
        ir.DriverParam(kind=ir.DriverParamKind.SIZE, dtype=ir.DType.I32, position=0, dim=1),
        ir.DriverParam(kind=ir.DriverParamKind.NUMBER, dtype=ir.DType.I64, position=2, divisible=16),
        ir.DriverParam(kind=ir.DriverParamKind.SCRATCH, dtype=ir.DType.U8),
    ),
    image=b"first",
)
SECOND = replace(
    FIRST,
    key="1" * 64,
    config=KERNEL.configs[1],
    kind=ir.ImageKind.HSACO,
    facts=ir.LaunchFacts(symbol="k", num_warps=8, warp_size=64, cluster=(2, 1, 1), cooperative=True),
    image=b"second",
)


def test_files_hold_everything() -> None:
    """Decodes a config's grid over a float with the kinds of the kernel's parameters."""
    files = binary_files([FIRST, SECOND])
    assert list(files) == [f"binaries/{'0' * 64}.cubin", f"binaries/{'1' * 64}.hsaco"]
    text = binaries_to_json([FIRST, SECOND])
    assert binaries_from_json(text, files.__getitem__, [KERNEL]) == (FIRST, SECOND)


def test_they_are_found_by_kernel_config_and_target() -> None:
    binaries = [FIRST, SECOND, replace(FIRST, target="cuda:sm_80")]
    first, second = KERNEL.configs
    assert find_binary(binaries, KERNEL, second, "cuda:sm_90") is SECOND
    assert find_binary(binaries, KERNEL, first, "cuda:sm_80") is binaries[2]
    assert find_binary(binaries, KERNEL, second, "cuda:sm_80") is None
    assert find_binary(binaries, replace(KERNEL, entry="other"), first, "cuda:sm_90") is None


def test_bytes_of_parameters() -> None:
    assert [param.nbytes for param in FIRST.params] == [128, 4, 8, 8]


def test_grids_have_three_sizes_over_numbers_of_a_launch() -> None:
    grids = [[print_expr(size) for size in ir.bound_grid(KERNEL, config)] for config in KERNEL.configs]
    assert grids == [["ceildiv(n, 32)", "rows", "1"], ["to_int(ratio*64)", "n", "1"]]


@pytest.mark.parametrize(
    ("change", "said"),
    [
        (lambda t: t.update(version=1), "version 1; this package reads version 2"),
        (lambda t: t["binaries"][0].update(image="0" * 64), "does not fit its hash"),
        (lambda t: t["binaries"][0].update(file="../../etc/passwd"), "expected in binaries/0"),
        (lambda t: t["binaries"][0].update(key="../x"), "is not a hash"),
        (lambda t: t["binaries"][0].update(extra=1), "unknown field 'extra'"),
        (lambda t: t["binaries"][0]["facts"].update(cluster=[1, 1]), "expected a list of 3"),
        (lambda t: t["binaries"][0]["facts"].pop("symbol"), "field 'symbol' is missing"),
        (lambda t: t["binaries"][0]["params"][0].update(kind="magic"), "unknown driver param kind"),
        (lambda t: t["binaries"][0].update(kind="exe"), "unknown image kind"),
    ],
)
def test_what_is_refused(change: Callable[[dict[str, Any]], object], said: str) -> None:  # Any: of JSON
    table = json.loads(binaries_to_json([FIRST]))
    change(table)
    with pytest.raises(ParseError, match=said):
        binaries_from_json(json.dumps(table), binary_files([FIRST]).__getitem__, [KERNEL])
