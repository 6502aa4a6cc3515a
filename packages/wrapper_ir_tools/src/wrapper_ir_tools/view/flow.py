"""Data flow between the lines of a function, through values and through shared memory."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from wrapper_ir import ir
from wrapper_ir.analysis.aliasing import NO_ROOTS, Aliasing
from wrapper_ir.analysis.memo import Analyses
from wrapper_ir.support.quoting import value_name
from wrapper_ir_tools.view.model import Edge, Role, ValueUse

CONSTANT = -1
"""The source of data from a constant."""


def value_uses(ops: Iterable[tuple[int, ir.Op]], aliasing: Aliasing) -> tuple[ValueUse, ...]:
    """The values at the ops of one line, each once, with their roles: results first."""
    roles: dict[ir.Value, Role] = {}
    for position, op in ops:
        effects = aliasing.effects[position]
        roles.update(dict.fromkeys(ir.results(op), Role.DEFINES))
        for value in ir.operands(op):
            reads, writes = value in effects.reads, value in effects.writes
            role = _ROLES[reads, writes]
            if value in effects.ends or value in effects.moves:
                role = Role.ENDS
            roles.setdefault(value, role)
    return tuple(ValueUse(value_name(v.name), role) for v, role in roles.items())


_ROLES = {
    (True, True): Role.READS_AND_WRITES,
    (True, False): Role.READS,
    (False, True): Role.WRITES,
    (False, False): Role.USES,
}


def data_flow(
    function: ir.Function, analyses: Analyses, rows: dict[int, int], params: dict[ir.Value, int]
) -> tuple[Edge, ...]:
    """Yields the data-flow edges of a function.

    The source of an operand is the last earlier line that wrote its storage, otherwise the line that defines
    it. `rows` maps ops to lines, `params` maps parameters. For a loop, the edges are those within one trip.
    """
    return tuple(dict.fromkeys(_Flow(function, analyses, rows, params).edges()))


class _Flow:
    def __init__(
        self, function: ir.Function, analyses: Analyses, rows: dict[int, int], params: dict[ir.Value, int]
    ) -> None:
        self.body, self.rows = function.body, rows
        self.aliasing = analyses.aliasing(function)
        self.defined: dict[ir.Value, int] = dict.fromkeys(analyses.constant_values, CONSTANT) | params
        self.written: dict[ir.Value, int] = {}
        """The line that last wrote each storage."""

    def edges(self) -> Iterator[Edge]:
        """Yields the edges in program order."""
        for position, op in enumerate(self.body):
            row, effects = self.rows[position], self.aliasing.effects[position]
            for value in dict.fromkeys((*effects.reads, *ir.operands(op))):
                is_read = value in effects.reads or value not in effects.writes
                for source in self._sources(value) if is_read else self._definition(value):
                    if source != row:
                        yield Edge(source, row, value_name(value.name))
            self.defined.update(dict.fromkeys(ir.results(op), row))
            for value in effects.writes:
                self.written.update(dict.fromkeys(self.aliasing.roots.get(value, NO_ROOTS), row))

    def _definition(self, value: ir.Value) -> Iterator[int]:
        """The line that defines memory that is only written."""
        if value in self.defined:
            yield self.defined[value]

    def _sources(self, value: ir.Value) -> Iterator[int]:
        roots = self.aliasing.roots.get(value, NO_ROOTS)
        writers = dict.fromkeys(self.written[root] for root in roots if root in self.written)
        yield from writers or self._definition(value)
