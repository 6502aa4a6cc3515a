"""Ranks that may run an artifact: compared by a store, stored in the file, checked before a call; without
torch."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from pathlib import Path

import pytest
from packages.wrapper_ir.tests.core.store_bus import Bus
from packages.wrapper_ir_runtime.tests.interp.list_machine import ListMachine

from wrapper_ir import ir, load, parse_program, save
from wrapper_ir.artifact import Artifact, TensorData, bare_artifact
from wrapper_ir.artifact.agreement import artifact_manifest
from wrapper_ir.artifact.group_ranks import GroupRanks, group_ranks, with_group_ranks
from wrapper_ir.errors import ArtifactError, ExecutionError
from wrapper_ir_lowering import lower
from wrapper_ir_lowering.steps import CheckGroups
from wrapper_ir_runtime import check_rank, compare_ranks
from wrapper_ir_runtime.interp import run

PROGRAM = """wir 0.5
target cpu
const %w : f32[2]

extern "_c10d_functional::all_reduce(Tensor input, str reduce_op, str group_name) -> Tensor" tags(collective)

func @main(%x: f32[2]) {{
  copy %x, %w
  %h = collective _c10d_functional::all_reduce(%x, "{operation}", "0") group("0") : f32[2]
  %y = wait %h : f32[2]
  return %y
}}
"""


def _artifact(operation: str = "sum", weight: int = 0) -> Artifact:
    data = TensorData(ir.DType.F32, memoryview(bytes([weight] * 8)))
    return bare_artifact(parse_program(PROGRAM.format(operation=operation)), {"w": data})


def _compared(bus: Bus, artifacts: list[Artifact]) -> list[GroupRanks | str]:
    """Returns the ranks that each process finds, or its error."""

    def one(rank: int) -> GroupRanks | str:
        try:
            return compare_ranks(bus.store(rank), "0", artifact_manifest(artifacts[rank]))
        except ExecutionError as error:
            assert error.code == "WIR937"
            return error.message

    with ThreadPoolExecutor(bus.size) as pool:
        return list(pool.map(one, range(len(artifacts))))


@pytest.mark.parametrize("size", [1, 2, 300])
def test_equal_artifacts_are_for_all(size: int) -> None:
    bus = Bus(size, 60.0)
    artifacts = [_artifact()] * size
    want = GroupRanks(group="0", size=size, ranks=tuple(range(size)))
    assert _compared(bus, artifacts) == [want] * size
    assert bus.used <= 5 * size


@pytest.mark.parametrize(
    ("other", "line"),
    [
        (_artifact(operation="avg"), 'all_reduce(%x, "avg", "0")'),
        (_artifact(weight=1), "constant w: "),
        (replace(_artifact(), tuning={"k": "{}"}), "tuning of k: "),
    ],
    ids=["program", "constant", "tuning"],
)
def test_each_process_learns_what_the_others_have(other: Artifact, line: str) -> None:
    usual = _artifact()
    first, second, third = _compared(Bus(3), [usual, other, usual])
    assert isinstance(first, GroupRanks)
    assert isinstance(second, GroupRanks)
    assert first == third
    assert (first.ranks, second.ranks) == ((0, 2), (1,))
    assert [rank for rank, _ in second.differences] == [0, 2]
    assert line in first.difference(1)
    assert line in second.difference(0)
    for rank in (0, 2):
        with pytest.raises(ExecutionError, match="WIR936") as caught:
            check_rank(second, rank, 3)
        assert second.difference(rank) in caught.value.message
        assert caught.value.hint == f"load what rank {rank} has saved"


def test_a_process_that_does_not_come_is_named() -> None:
    results = _compared(Bus(3, 0.2), [_artifact()] * 2)
    assert isinstance(results[0], str)
    assert "rank 2 has no artifact in time" in results[0]
    assert all(isinstance(one, str) for one in results)


def test_ranks_are_saved(tmp_path: Path) -> None:
    ranks = GroupRanks(group="0", size=4, ranks=(1, 3), differences=((0, "a line"),))
    bare = bare_artifact(parse_program("wir 0.5\ntarget cpu\nfunc @main() {\n  return\n}\n"))
    save(with_group_ranks(bare, [ranks]), tmp_path / "m.wir")
    artifact = load(tmp_path / "m.wir")
    assert group_ranks(artifact) == (ranks,)
    assert group_ranks(with_group_ranks(artifact, ())) == ()


def test_a_plan_has_the_ranks_of_the_programs_groups() -> None:
    ranks = [GroupRanks(group=name, size=2, ranks=(1,)) for name in ("0", "another")]
    plan = lower(with_group_ranks(_artifact(), ranks))
    assert [step.ranks for step in plan.main.steps if isinstance(step, CheckGroups)] == [(ranks[0],)]


@pytest.mark.parametrize(
    ("ranks", "why"),
    [
        (GroupRanks(group="0", size=1, ranks=(1,)), "for rank 1, and this is rank 0: its artifact was not"),
        (GroupRanks(group="0", size=2, ranks=(0,)), "of 2 processes, and here it has 1"),
    ],
)
def test_the_interpreter_refuses_another_process(ranks: GroupRanks, why: str) -> None:
    """Here is rank 0 of a group of one."""
    artifact = with_group_ranks(_artifact(), [ranks])
    with pytest.raises(ExecutionError, match="WIR936") as caught:
        run(artifact, [], ListMachine())
    assert why in caught.value.message


@pytest.mark.parametrize(
    "text", ["{", "[1]", '[{"group": 1, "size": 1, "ranks": [], "differences": []}]', "3"]
)
def test_invalid_ranks(text: str) -> None:
    artifact = replace(_artifact(), extensions={"group_ranks.json": text})
    with pytest.raises(ArtifactError, match="WIR718"):
        group_ranks(artifact)
