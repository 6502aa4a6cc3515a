"""Estimates the bytes that each idle storage at the peak would save. Changes nothing."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from itertools import accumulate

from wrapper_ir import ir
from wrapper_ir.analysis.aliasing import NO_ROOTS
from wrapper_ir.analysis.liveness import analyse_liveness
from wrapper_ir.analysis.memo import Analyses
from wrapper_ir.analysis.sizes import Sizes
from wrapper_ir.text import print_op
from wrapper_ir_passes.analysis.contents import contents_of
from wrapper_ir_passes.analysis.memory import live_over

_PLAIN = frozenset({ir.EffectClass.CHECK})


@dataclass(frozen=True, slots=True, kw_only=True)
class Saving:
    """A storage that is live at the peak but unused between two uses, `idle_from` and `idle_to`.

    `saves` is the reduction of live bytes at the peak of main if it were absent in between. `how` lists the
    ways, cheapest first: `split` (its content is not read again: it could be two storages), `recompute` (the
    op `again` can run once more just before `idle_to`, its inputs being unchanged), or `offload` (its bytes
    are copied away and back).
    """

    name: str
    function: str
    bytes: int
    idle_from: int
    idle_to: int
    saves: int
    how: tuple[str, ...]
    again: str = ""


def savings_of(main: ir.Function, analyses: Analyses, sizes: Sizes) -> tuple[Saving, ...]:
    """Estimates the savings of all storages that are idle at the peak of a call of `main`, largest first."""
    savings: list[Saving] = []
    above: list[_Level] = []
    function: ir.Function | None = main
    while function is not None:
        level = _Level(function, analyses, sizes)
        above.append(level)
        savings += level.savings(above)
        function = level.worst_callee()
    return tuple(sorted((s for s in savings if s.saves), key=lambda s: (-s.saves, s.name)))


class _Level:
    """A function that runs at the peak, at its own worst op."""

    def __init__(self, function: ir.Function, analyses: Analyses, sizes: Sizes) -> None:
        self.function, self.analyses, self.sizes = function, analyses, sizes
        self.live = live_over(function, analyses, sizes)
        self.until = list(accumulate(self.live, max))
        """The most that is live at each op or before."""
        self.since = list(accumulate(reversed(self.live), max))[::-1]
        self.worst = max(range(len(self.live)), key=self.live.__getitem__)
        self.aliasing = analyses.get_for(function, analyse_liveness).aliasing
        self.contents = contents_of(function, analyses, sizes)
        self.written: dict[ir.Value, list[int]] = {}
        for position, effects in enumerate(self.aliasing.effects):
            for value in effects.writes:
                for root in self.aliasing.roots.get(value, NO_ROOTS):
                    self.written.setdefault(root, []).append(position)

    def worst_callee(self) -> ir.Function | None:
        """The function called at the worst op; of several, the one that needs the most memory."""
        inside = [self.analyses.functions[n] for n in ir.callees(self.function.body[self.worst])]
        return max(inside, key=lambda f: max(live_over(f, self.analyses, self.sizes)), default=None)

    def savings(self, levels: list[_Level]) -> Iterator[Saving]:
        """Savings of the storages of this function, the last of `levels`."""
        most = _most_in_main(levels)
        for root, uses in self.contents.uses.items():
            before = max((u for u in uses if u < self.worst), default=-1)
            after = min((u for u in uses if u > self.worst), default=-1)
            if before < 0 or after < 0 or self.worst in uses or root in self.aliasing.escaped:
                continue
            size = self.sizes.bytes_of(root)
            idle = max(self.live[before + 1 : after]) - size
            how, again = self._how(root, before, after)
            yield Saving(
                name=root.name,
                function=self.function.name,
                bytes=size,
                idle_from=before,
                idle_to=after,
                saves=min(most, self.live[self.worst] - max(self.until[before], self.since[after], idle)),
                how=how,
                again=again,
            )

    def _how(self, root: ir.Value, before: int, after: int) -> tuple[tuple[str, ...], str]:
        span = next((s for s in self.contents.spans[root] if s[0] <= before and after <= s[1]), None)
        if span is None:
            return ("split",), ""
        op, effects = self.function.body[span[0]], self.aliasing.effects[span[0]]
        writes = [w for w in self.written.get(root, ()) if span[0] < w <= before]
        if (
            not isinstance(op, ir.Launch | ir.CallExtern | ir.Copy)
            or writes
            or not _PLAIN.issuperset(effects.classes)
        ):
            return ("offload",), ""
        sources = {r for v in effects.reads for r in self.aliasing.roots.get(v, NO_ROOTS)}
        if not all(self._is_there(r, span[0], after) for r in sources):
            return ("offload",), ""
        return ("recompute", "offload"), print_op(op, self.analyses.program)

    def _is_there(self, root: ir.Value, first: int, last: int) -> bool:
        """True if the content of a storage at `first` is unchanged at `last`."""
        if any(first <= w < last for w in self.written.get(root, ())):
            return False
        owned = self.aliasing.owned.get(root)
        return owned is None or any(low <= first and last <= high for low, high in self.contents.spans[root])


def _most_in_main(levels: list[_Level]) -> int:
    """The most that savings of the last level reduce the peak of main by; beyond, another op needs more."""
    most = max(levels[-1].live)
    for inner, outer in zip(levels[:0:-1], levels[-2::-1], strict=True):
        op = outer.function.body[outer.worst]
        # the inner level is its callee
        assert isinstance(op, ir.CallingOp)
        functions = [outer.analyses.functions[n] for n in ir.callees(op) if n != inner.function.name]
        others = [max(live_over(f, outer.analyses, outer.sizes)) for f in functions]
        rest = [n for at, n in enumerate(outer.live) if at != outer.worst]
        most = min(most, max(inner.live) - max(others, default=0), max(outer.live) - max(rest, default=0))
    return most
