"""`plan-memory` over symmetric memory: one pool, with one id, for storages that no other process still
uses."""

from __future__ import annotations

from wrapper_ir import ir, parse_program
from wrapper_ir_passes import run_pipeline

SUM = "symm_mem::one_shot_all_reduce"
PUT = "my::put"
HEAD = f"""wir 0.5
target cuda:0

extern "{SUM}(Tensor input, str reduce_op, str group_name) -> Tensor" tags(collective) symmetric(input)
extern "{PUT}(Tensor input, str reduce_op, str group_name) -> Tensor" tags(collective) symmetric(input)
"""


def _buffer(number: int, operator: str, space: str) -> str:
    group = space.split('"')[1] if '"' in space else "g"
    return (
        f"  %b{number}.s = alloc_storage 1024 {space}\n  %b{number} = view %b{number}.s : f32[256]\n"
        f'  copy %b{number}, %x\n  %r{number} = call {operator}(%b{number}, "sum", "{group}") : f32[256]\n  free %b{number}.s\n'
    )


def _planned(*buffers: tuple[str, str]) -> list[ir.Op]:
    """Returns the allocations and slots of a program with these buffers: pairs of an operator and a memory
    space."""
    body = "".join(_buffer(n, *b) for n, b in enumerate(buffers))
    results = ", ".join(f"%r{n}" for n in range(len(buffers)))
    program = parse_program(f"{HEAD}func @main(%x: f32[256]) {{\n{body}  return {results}\n}}\n")
    planned = run_pipeline(program, "plan-memory")
    assert run_pipeline(planned, "plan-memory{persistent=true}") == planned
    return [op for op in planned.ops if isinstance(op, ir.AllocStorage | ir.Slot)]


def test_buffers_that_follow_each_other_share_one_id() -> None:
    pool, *slots = _planned(
        (SUM, 'symmetric("g", 4)'), (SUM, 'symmetric("g", 7)'), (SUM, 'symmetric("g", 5)')
    )
    assert isinstance(pool, ir.AllocStorage)
    assert (pool.result.type.space.alloc_id, str(pool.result.type.nbytes)) == (4, "1024")
    assert [
        (type(s), s.result.type.space == pool.result.type.space) for s in slots if isinstance(s, ir.Slot)
    ] == [(ir.Slot, True)] * 3


def test_groups_and_other_memory_lie_apart() -> None:
    plan = _planned((SUM, 'symmetric("g", 1)'), (SUM, 'symmetric("h", 2)'), (SUM, 'symmetric("g", 3)'))
    groups = [op.result.type.space.group for op in plan if isinstance(op, ir.AllocStorage)]
    assert sorted(groups) == ["g", "h"]


def test_what_another_process_may_still_use_keeps_its_id() -> None:
    plan = _planned((PUT, 'symmetric("g", 1)'), (SUM, 'symmetric("g", 2)'), (PUT, 'symmetric("g", 3)'))
    assert all(isinstance(op, ir.AllocStorage) for op in plan)


def test_an_id_that_is_taken_twice_stays() -> None:
    plan = _planned((SUM, 'symmetric("g", 1)'), (SUM, 'symmetric("g", 1)'), (SUM, 'symmetric("g", 2)'))
    assert all(isinstance(op, ir.AllocStorage) for op in plan)
