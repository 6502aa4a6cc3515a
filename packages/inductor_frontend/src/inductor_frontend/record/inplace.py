"""Which buffers of a kernel may be the same bytes: what Inductor asks before it works in place, but for lifetimes.

Inductor's `decide_inplace_update` also asks whether the buffer that is read is needed later, whether it is an input, and
whether in-place kernels are wanted. Those are facts of one program; what is asked here is true of the kernel alone.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import sympy
from torch._inductor.dependencies import MemoryDep, WeakDep
from torch._inductor.scheduler import SchedulerNode
from torch._inductor.virtualized import V

# Any in this file: scheduler nodes and dependencies, whose classes differ between versions.

_Storage = Callable[[str], str]
_Accesses = dict[str, list[tuple[Any, Any]]]


def inplace_pairs(nodes: Sequence[Any], storage: _Storage, *, whole: bool) -> frozenset[tuple[str, str]]:
    """Pairs of a storage that the kernel of these nodes only reads and one that it writes, which may be given the same
    address: the node that writes an element needs that element, and no node reads it afterwards.

    `storage` is one name for all buffers that Inductor has put in one place; pairs are of such names. With `whole`, an element must be written by
    a single point of the kernel's grid: a block of a Triton kernel may load an element in several warps, and one of them
    store it before another has loaded it. No pair crosses the kernels of a combined one, of which none needs another.
    Templates have none: their nodes do not say in which order they read.
    """
    if not all(isinstance(node, SchedulerNode) and not node.is_template() for node in nodes):
        return frozenset()
    reads, writes = _accesses(nodes, storage)
    makers = {name: made[0][0] for name, made in writes.items() if len(made) == 1}
    found = set()
    for written, made in writes.items():
        writer, write = made[0]
        if not all(_plain(dep) and _rewrites(node, dep, writer, write) for node, dep in made):
            continue
        if whole and not _covers(write, nodes):
            continue
        for name in reads.keys() - writes.keys():
            if _read_before(name, writer, reads, makers, storage):
                found.add((name, written))
    return frozenset(found)


def _accesses(nodes: Sequence[Any], storage: _Storage) -> tuple[_Accesses, _Accesses]:
    """Reads and writes of each storage, with the nodes that do them."""
    reads: _Accesses = {}
    writes: _Accesses = {}
    for node in nodes:
        for found, deps in ((reads, node.read_writes.reads), (writes, node.read_writes.writes)):
            for dep in deps:
                if not isinstance(dep, WeakDep):  # which only orders nodes
                    found.setdefault(storage(_real(dep.name)), []).append((node, dep))
    return reads, writes


def _real(name: str) -> str:
    """A buffer's name, where `name` may be that of its content after a mutation."""
    real: str = V.graph.scheduler.mutation_real_name.get(name, name)
    return real


def _plain(dep: Any) -> bool:
    """A store of each element by its own index."""
    if not isinstance(dep, MemoryDep) or dep.mode is not None or dep.is_indirect():
        return False
    return all(var in dep.index.free_symbols for var in dep.var_names)


def _rewrites(node: Any, dep: Any, writer: Any, write: Any) -> bool:
    """Whether a store is the first one, or comes after it to the same element: Inductor has worked in place already."""
    if node is writer:
        return dep is write
    return writer.get_name() in node.ancestors and (dep.index, dep.size) == (write.index, write.size)


def _covers(write: Any, nodes: Sequence[Any]) -> bool:
    """Whether a store's range is that of the whole kernel, so that no load of the element is broadcast."""
    size = sympy.prod(write.size)
    ranges = [sympy.prod([*node.get_ranges()[0], *node.get_ranges()[1]]) for node in nodes]
    return all(V.graph.sizevars.statically_known_leq(each, size) for each in ranges)


def _read_before(
    name: str, writer: Any, reads: _Accesses, makers: Mapping[str, Any], storage: _Storage
) -> bool:
    """Whether the writer needs the element that it overwrites, and all other readers come before it: they compute what it
    needs, over the same range in the same order."""

    def needs(node: Any) -> bool:
        """Element by element: by itself, or by way of another buffer that the kernel makes."""
        same = [storage(_real(dep.name)) for dep in node.read_writes.reads if writer.can_inplace(dep)]
        made = [makers[s] for s in same if s in makers]
        return name in same or any(needs(m) for m in made if m.get_name() in node.ancestors)

    before = all(
        writer.can_inplace(dep) and (node is writer or node.get_name() in writer.ancestors)
        for node, dep in reads[name]
    )
    return before and needs(writer)
