"""Which kernels and operators a filter of names takes."""

from __future__ import annotations

import warnings
from collections.abc import Mapping
from dataclasses import dataclass
from difflib import get_close_matches
from fnmatch import fnmatchcase

from wrapper_ir import ir
from wrapper_ir.errors import DebugWarning


@dataclass(frozen=True, slots=True)
class NameFilter:
    """Shell patterns in lower case; without any, everything is taken. `variants`: the names of the kernels that a multi-kernel
    chooses from, any of which names it, too."""

    patterns: tuple[str, ...]
    variants: Mapping[str, tuple[str, ...]]

    @staticmethod
    def of(text: str, program: ir.Program) -> NameFilter:
        """From a list between commas; warns of patterns that take nothing in the program."""
        patterns = tuple(part.strip().lower() for part in text.split(",") if part.strip())
        variants = {
            k.name: tuple(v.kernel for v in k.variants)
            for k in program.kernels
            if isinstance(k, ir.MultiKernel)
        }
        found = NameFilter(patterns, variants)
        names = dict.fromkeys(
            name for called in _called(program) for name in (called, *variants.get(called, ()))
        )
        for pattern in patterns:
            if not any(fnmatchcase(name.lower(), pattern) for name in names):
                close = get_close_matches(pattern, names, n=3, cutoff=0.4)
                near = f"; close to it: {', '.join(close)}" if close else ""
                warnings.warn(
                    DebugWarning("WIR806", f"no kernel or operator is called {pattern!r}{near}"), stacklevel=5
                )
        return found

    def takes(self, name: str) -> bool:
        """Whether what has this name is shown."""
        names = (name, *self.variants.get(name, ()))
        return not self.patterns or any(
            fnmatchcase(one.lower(), pattern) for one in names for pattern in self.patterns
        )


def _called(program: ir.Program) -> tuple[str, ...]:
    found: dict[str, None] = {}
    for function in program.functions:
        for op in function.body:
            if isinstance(op, ir.Launch):
                found[op.kernel] = None
            elif isinstance(op, ir.OperatorCall):
                found[op.target] = None
    return tuple(found)
