"""Finds buffers of a kernel that may share memory: Inductor's conditions for in-place kernels, except
lifetimes.

Inductor's `decide_inplace_update` also checks whether the buffer that is read is needed later, whether it is
an input, and whether in-place kernels are enabled. Those depend on the program; the conditions here depend on
the kernel alone.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import TypeGuard

import sympy
from torch._inductor.dependencies import Dep, MemoryDep, WeakDep
from torch._inductor.scheduler import BaseSchedulerNode, SchedulerNode
from torch._inductor.virtualized import V

_Storage = Callable[[str], str]
_Accesses = dict[str, list[tuple[SchedulerNode, Dep]]]


def inplace_pairs(
    nodes: Sequence[BaseSchedulerNode], storage: _Storage, *, whole: bool
) -> frozenset[tuple[str, str]]:
    """Returns pairs of a storage that the kernel of these nodes only reads and one that it writes, which may
    share memory.

    The node that writes an element needs that element, and no node reads it afterwards. `storage` maps a
    buffer to the name of its storage, as Inductor assigned it; pairs contain such names.

    With `whole`, a single point of the kernel's grid must write an element: a block of a Triton kernel may
    load an element in several warps, and one of them may store it before another has loaded it. No pair
    crosses the kernels of a combined one, since none of them needs another. Templates have no pairs: their
    nodes do not define the order of reads.
    """
    loops = [node for node in nodes if isinstance(node, SchedulerNode) and not node.is_template()]
    if len(loops) < len(nodes):
        return frozenset()
    reads, writes = _accesses(loops, storage)
    producers = {name: stores[0][0] for name, stores in writes.items() if len(stores) == 1}
    pairs = set()
    for target, stores in writes.items():
        writer, write = stores[0]
        if not _plain(write) or not all(_rewrites(node, dep, writer, write) for node, dep in stores):
            continue
        if whole and not _covers(write, loops):
            continue
        for name in reads.keys() - writes.keys():
            if _read_before(name, writer, reads, producers, storage):
                pairs.add((name, target))
    return frozenset(pairs)


def _accesses(nodes: Sequence[SchedulerNode], storage: _Storage) -> tuple[_Accesses, _Accesses]:
    """Returns reads and writes of each storage, with the nodes that execute them."""
    reads: _Accesses = {}
    writes: _Accesses = {}
    for node in nodes:
        for accesses, deps in ((reads, node.read_writes.reads), (writes, node.read_writes.writes)):
            for dep in deps:
                if not isinstance(dep, WeakDep):  # which only orders nodes
                    accesses.setdefault(storage(_real(dep.name)), []).append((node, dep))
    return reads, writes


def _real(name: str) -> str:
    """Returns the buffer's name if `name` refers to its content after a mutation."""
    real: str = V.graph.scheduler.mutation_real_name.get(name, name)
    return real


def _plain(dep: Dep) -> TypeGuard[MemoryDep]:
    """Returns whether a store writes each element once, by its own index."""
    if not isinstance(dep, MemoryDep) or dep.mode is not None or dep.is_indirect():
        return False
    return all(var in dep.index.free_symbols for var in dep.var_names)


def _rewrites(node: SchedulerNode, dep: Dep, writer: SchedulerNode, write: MemoryDep) -> bool:
    """Returns whether a store is the first one, or follows it on the same element: Inductor already works in
    place there."""
    if node is writer:
        return dep is write
    if not _plain(dep) or writer.get_name() not in node.ancestors:
        return False
    return (dep.index, dep.size) == (write.index, write.size)


def _covers(write: MemoryDep, nodes: Sequence[SchedulerNode]) -> bool:
    """Returns whether a store has the range of the whole kernel, so that no load of the element is
    broadcast."""
    size = sympy.prod(write.size)
    ranges = [sympy.prod([*node.get_ranges()[0], *node.get_ranges()[1]]) for node in nodes]
    return all(V.graph.sizevars.statically_known_leq(each, size) for each in ranges)


def _read_before(
    name: str,
    writer: SchedulerNode,
    reads: _Accesses,
    producers: Mapping[str, SchedulerNode],
    storage: _Storage,
) -> bool:
    """Returns whether the writer needs the element that it overwrites, and all other readers precede it.

    Those readers compute operands of the writer, over the same range in the same order.
    """

    def needs(node: SchedulerNode) -> bool:
        """Returns whether a node reads the buffer element by element: directly, or through another buffer of
        the kernel."""
        same = [storage(_real(dep.name)) for dep in node.read_writes.reads if writer.can_inplace(dep)]
        inputs = [producers[s] for s in same if s in producers]
        return name in same or any(needs(m) for m in inputs if m.get_name() in node.ancestors)

    before = all(
        writer.can_inplace(dep) and (node is writer or node.get_name() in writer.ancestors)
        for node, dep in reads[name]
    )
    return before and needs(writer)
