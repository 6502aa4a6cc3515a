"""A run as samples: the values of each op, kept on the host, with keys that match two runs."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from wrapper_ir import ir
from wrapper_ir.analysis.memo import Analyses
from wrapper_ir.text import print_op
from wrapper_ir_tools.debugger.computed_values import computing_position
from wrapper_ir_tools.debugger.contents import Content, content_of
from wrapper_ir_tools.debugger.events import Event, events
from wrapper_ir_tools.debugger.subject import Subject

Key = tuple[str, str, int]
"""A function, the name of a value or symbol, and the number of its earlier computations in this run."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Sample:
    """One value after the op that computed it.

    `function` and `position` are set if the run is a program's.
    """

    key: Key
    content: Content
    function: ir.Function | None = None
    position: int = -1
    nodes: tuple[str, ...] = ()
    """Source graph nodes of the value, its own node first."""

    @property
    def name(self) -> str:
        """The value as printed."""
        return self.key[1]

    @property
    def op_text(self) -> str:
        """The op as printed; empty without a program."""
        return "" if self.function is None else print_op(self.function.body[self.position])


def samples(subject: Subject) -> Iterator[Sample]:
    """Yields all samples of a run, in the order of its ops."""
    counts: Counter[tuple[str, str]] = Counter()
    for event in events(subject.run(), subject.analyses):
        yield from _samples_of(event, counts, subject)


def _samples_of(event: Event[Any], counts: Counter[tuple[str, str]], subject: Subject) -> Iterator[Sample]:
    function = event.function
    nodes = subject.analyses.get_for(function, source_nodes)
    own = event.op.prov.nodes
    entries = [
        (f"%{v.name}", content_of(v, data, subject.machine), nodes.get(v, own))
        for v, data in event.values.items()
    ]
    entries += [(name, Content(number), own) for name, number in event.symbols.items()]
    for name, content, origins in entries:
        count = counts[function.name, name]
        counts[function.name, name] += 1
        yield Sample(
            key=(function.name, name, count),
            content=content,
            function=function,
            position=computing_position(function, event.position),
            nodes=origins,
        )


def source_nodes(function: ir.Function, analyses: Analyses) -> Mapping[ir.Value, tuple[str, ...]]:
    """Maps each value to the source nodes of its defining op. A kernel has the nodes of all its
    computations."""
    return {v: op.prov.nodes for op in function.body if op.prov.nodes for v in ir.results(op)}
