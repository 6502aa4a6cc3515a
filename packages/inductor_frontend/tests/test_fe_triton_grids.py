"""Grids as expressions, compared with Inductor's own classes, which generate and run text."""

from __future__ import annotations

import itertools
from typing import Any

import pytest

pytest.importorskip("triton", reason="Inductor's heuristics import it")

from torch._inductor.runtime import runtime_utils, triton_heuristics

from inductor_frontend.triton.grids import GRIDS, MAX_Y_GRID, grid_of
from wrapper_ir.expr import evaluate

Meta = dict[str, Any]  # Any: Inductor's meta data

SIZES = (1, 2, 127, 128, 129, 65_536, 8_500_000)


def combo(flat: bool, *, y: bool = False, least: int | None = None, plain: bool = False) -> Meta:
    """Returns three kernels: a constant width, a symbolic width, and one without an x dimension."""
    meta: Meta = {
        "num_kernels": 3,
        "min_blocks": least,
        "default_config": {"XBLOCK": 1024} if plain else None,
        "xnumel_0": 1000,
        "xnumel_1": None,
        "xnumel_2": None,
        "no_x_dim_0": False,
        "no_x_dim_1": False,
        "no_x_dim_2": not y,
    }
    if y:
        meta |= {"ynumel_0": None, "ynumel_2": 77}
    return {"combo_grid_meta": meta}


FLAT_BLOCKS = {f"{d}BLOCK_{i}": 16 << i for d in "XY" for i in range(3)}
CASES: list[tuple[str, Meta, list[dict[str, int]]]] = [
    ("Grid1D", {}, [{"XBLOCK": 128}, {}]),
    ("Grid2D", {}, [{"XBLOCK": 32, "YBLOCK": 64}, {"YBLOCK": 8}]),
    ("Grid3D", {}, [{"XBLOCK": 32, "YBLOCK": 64, "ZBLOCK": 2}]),
    ("BatchMatmulGrid3D", {}, [{"XBLOCK": 32, "YBLOCK": 64, "ZBLOCK": 1}]),
    ("Grid2DWithYZOverflow", {}, [{"XBLOCK": 32, "YBLOCK": 2}, {"XBLOCK": 1, "YBLOCK": 1}]),
    ("MixOrderReductionGrid", {}, [{"XBLOCK": 4, "RSPLIT_SIZE": 64}]),
    ("CooperativeReductionGrid", {}, [{"XBLOCK": 4, "RSPLIT": 32}]),
    ("SplitScanGrid", {}, [{"XBLOCK": 1, "R0_BLOCK": 2048}]),
    ("FixedGrid", {"fixed_grid": ["_grid_0", "_grid_1", "_grid_2"]}, [{}]),
    ("SequentialComboKernelGrid", combo(False), [{"XBLOCK": 128}]),
    ("SequentialComboKernelGrid", combo(False, least=5000), [{"XBLOCK": 128}]),
    ("SequentialComboKernelGrid", combo(False, plain=True), [{}]),
    ("SequentialComboKernelGrid", combo(False, y=True), [{"XBLOCK": 128, "YBLOCK": 4}]),
    ("SequentialFlattenComboKernelGrid", combo(True, y=True), [FLAT_BLOCKS]),
    ("SequentialFlattenComboKernelGrid", combo(True, least=100), [FLAT_BLOCKS]),
    ("RoundRobinComboKernelGrid", combo(False), [{"XBLOCK": 128}]),
]

NAMES = ("xnumel", "ynumel", "znumel", "r0_numel", "xnumel_1", "xnumel_2", "ynumel_0")
FIXED = {"_grid_0": 3, "_grid_1": 5, "_grid_2": 7}


def sizes(mentioned: set[str]) -> list[dict[str, int]]:
    """Yields all combinations of values for the names of a grid."""
    names = [n for n in NAMES if n in mentioned]
    return [{**FIXED, **dict(zip(names, v))} for v in itertools.product(SIZES, repeat=len(names))]


@pytest.mark.parametrize(
    ("kind", "meta", "configs"), CASES, ids=[f"{k}{i}" for i, (k, *_) in enumerate(CASES)]
)
def test_grids_are_inductors(kind: str, meta: Meta, configs: list[dict[str, int]]) -> None:
    facts = {"grid_type": kind, **meta}
    for config in configs:
        theirs = triton_heuristics.GridExpr.from_meta(facts, config)
        ours = grid_of("k", facts, list(config))
        mentioned = {n for e in ours for n in e.free_symbols}
        for numbers in sizes(mentioned):
            want = theirs.eval_slow({**dict.fromkeys(NAMES, 1), **numbers, **config})
            got = [int(evaluate(e, {**numbers, **config})) for e in ours]
            assert (*got, *[1] * (3 - len(got))) == want, (numbers, config)


def test_every_class_is_known() -> None:
    """Other classes are bases, or their grids are passed with the launch."""

    def below(cls: type[Any]) -> set[str]:
        return {cls.__name__}.union(*(below(c) for c in cls.__subclasses__()))

    every = below(triton_heuristics.GridExpr)
    assert every - set(GRIDS) == {"GridExpr", "ComboKernelGrid", "PrecomputedGrid"}
    assert {kind for kind, *_ in CASES} == set(GRIDS)


def test_the_longest_dimension_is_inductors() -> None:
    assert runtime_utils.get_max_y_grid() == MAX_Y_GRID
