"""Places pools of different symbolic sizes in one allocation, one after the other, if one is known to be
larger.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from wrapper_ir.expr import Expr, Interval, mul
from wrapper_ir.expr.ranges import prove_le
from wrapper_ir_passes.memory.pool_candidates import PlannableStorage
from wrapper_ir_passes.planner import Pool, held_bytes

_MOST_POOLS = 64
"""Above this number of pools none shares: each is compared with all, and its slots with the other's size."""


@dataclass(slots=True)
class _Host:
    """Pools in one allocation, with the size of the first one, until the last one's end."""

    pools: list[Pool]
    size: Expr
    end: int


def share_pools(
    pools: Sequence[Pool],
    storages: Mapping[str, PlannableStorage],
    units: Mapping[Expr, int],
    ranges: Mapping[str, Interval],
    outside: Sequence[int],
    limit: float,
) -> list[list[Pool]]:
    """Returns the pools that share each allocation, in order of time.

    The first one has its size. Slots of later ones are inside for all values of the symbols (`ranges`). At
    most `limit` bytes are in use, including `outside`. `units` has the bytes of each factor.
    """
    hosts: list[_Host] = []
    in_use = held_bytes(pools, outside)
    kinds = {p.buffers[0].name: storages[p.buffers[0].name] for p in pools}
    mixed = len({s.factor for s in kinds.values()}) > 1 and len(pools) <= _MOST_POOLS
    for pool in sorted(pools, key=lambda pool: pool.begin):
        first = kinds[pool.buffers[0].name]
        for host in hosts if mixed else ():
            big = host.pools[0]
            other = kinds[big.buffers[0].name]
            if host.end > pool.begin or pool.size > big.size or not _alike(first, other):
                continue
            waits = [in_use[t] + big.size for t in range(host.end, pool.begin)]
            during = [in_use[t] + big.size - pool.size for t in range(pool.begin, pool.end)]
            if max((*waits, *during)) <= limit and _inside(pool, host.size, storages, units, ranges):
                in_use[host.end : pool.end] = [*waits, *during]
                host.pools.append(pool)
                host.end = pool.end
                break
        else:
            size = mul(pool.size // units[first.factor], first.factor)
            hosts.append(_Host([pool], size, pool.end))
    return [host.pools for host in hosts]


def _alike(one: PlannableStorage, other: PlannableStorage) -> bool:
    """Returns whether both are in the same memory space and on one stream, with different size factors."""
    a, b = one.op.result.type, other.op.result.type
    same = (a.device, a.space, one.op.stream) == (b.device, b.space, other.op.stream)
    return same and one.factor != other.factor and not a.is_group_memory


def _inside(
    pool: Pool,
    size: Expr,
    storages: Mapping[str, PlannableStorage],
    units: Mapping[Expr, int],
    ranges: Mapping[str, Interval],
) -> bool:
    """Returns whether each slot ends within this many bytes, for all values of the symbols."""
    for b in pool.buffers:
        storage = storages[b.name]
        place = pool.offsets[b.name] // units[storage.factor]
        if not prove_le(mul(place + storage.count, storage.factor), size, ranges):
            return False
    return True
