"""Compares the artifacts of the processes of a group, so that each knows which others have the same one.

No collective is involved: a process waits for a key of the group's store, with a time-out.
"""

from __future__ import annotations

import json
from collections.abc import Sequence

from wrapper_ir.artifact.group_ranks import GroupRanks
from wrapper_ir_runtime.agreement import GroupStore, first_difference
from wrapper_ir_runtime.failures import fail_comparison

_PREFIX = "wrapper_ir/ranks"


def compare_ranks(store: GroupStore, group: str, lines: Sequence[str]) -> GroupRanks:
    """Returns which processes of a group have the same lines, and the first differing line of each other
    process.

    Every process of the group must call it. Raises ExecutionError WIR937 in each of them if one does not call
    it in time.

    A process writes a counter and a key, and reads one key. Rank 0 reads and writes one for each process.
    """
    turn = f"{_PREFIX}/{store.add(f'{_PREFIX}/count/{store.rank}', 1)}"
    if store.rank == 0:
        answers = _compared(store, turn, tuple(lines))
        for rank in range(1, store.size):
            store.set(f"{turn}/answer/{rank}", json.dumps(answers[rank]).encode())
        answer = answers[0]
    else:
        store.set(f"{turn}/{store.rank}", "\n".join(lines).encode("utf-8", "surrogatepass"))
        try:
            answer = json.loads(store.get(f"{turn}/answer/{store.rank}"))
        except TimeoutError:
            answer = "rank 0 did not answer in time"
    if isinstance(answer, str):
        fail_comparison(group, store.rank, answer)
    ranks, differences = answer
    return GroupRanks(
        group=group,
        size=store.size,
        ranks=tuple(ranks),
        differences=tuple((rank, line) for rank, line in differences),
    )


_Answer = str | tuple[list[int], list[tuple[int, str]]]
"""Ranks that have a process's lines, and the difference of each other one; a text if the comparison failed.
"""


def _compared(store: GroupStore, turn: str, own: tuple[str, ...]) -> list[_Answer]:
    """Returns the answer for each process."""
    programs: dict[tuple[str, ...], list[int]] = {own: [0]}
    for rank in range(1, store.size):
        try:
            text = store.get(f"{turn}/{rank}").decode("utf-8", "surrogatepass")
        except TimeoutError:
            return [f"rank {rank} has no artifact in time: it compiles, hangs, or has ended"] * store.size
        programs.setdefault(tuple(text.split("\n")), []).append(rank)
    answers: dict[int, _Answer] = {}
    for mine, ranks in programs.items():
        differences = [
            (rank, line)
            for theirs, others in programs.items()
            if theirs is not mine
            for rank, line in _differences(mine, theirs, others)
        ]
        answers |= dict.fromkeys(ranks, (ranks, sorted(differences)))
    return [answers[rank] for rank in range(store.size)]


def _differences(
    mine: tuple[str, ...], theirs: tuple[str, ...], ranks: Sequence[int]
) -> list[tuple[int, str]]:
    difference = first_difference(mine, theirs)
    a, b = (line or "nothing" for line in difference or ("", ""))
    return [(rank, f"it has `{a}`, rank {rank} has `{b}`") for rank in ranks]
