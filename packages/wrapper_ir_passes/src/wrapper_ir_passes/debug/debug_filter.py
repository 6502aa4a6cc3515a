"""Filters of kernels and operators by name."""

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
    """Shell patterns in lower case; an empty list accepts everything.

    `variants` has the names of the kernels that a multi-kernel chooses from, each of which also selects it.
    """

    patterns: tuple[str, ...]
    variants: Mapping[str, tuple[str, ...]]

    @staticmethod
    def of(text: str, program: ir.Program) -> NameFilter:
        """Parses a list separated by commas; warns of patterns that match nothing in the program."""
        patterns = tuple(part.strip().lower() for part in text.split(",") if part.strip())
        variants = {
            k.name: tuple(v.kernel for v in k.variants)
            for k in program.kernels
            if isinstance(k, ir.MultiKernel)
        }
        name_filter = NameFilter(patterns, variants)
        callees = dict.fromkeys(filter(None, map(ir.callee_name, program.ops)))
        names = dict.fromkeys(name for callee in callees for name in (callee, *variants.get(callee, ())))
        for pattern in patterns:
            if not any(fnmatchcase(name.lower(), pattern) for name in names):
                close = get_close_matches(pattern, names, n=3, cutoff=0.4)
                near = f"; close to it: {', '.join(close)}" if close else ""
                warnings.warn(
                    DebugWarning("WIR806", f"no kernel or operator is called {pattern!r}{near}"), stacklevel=5
                )
        return name_filter

    def takes(self, name: str) -> bool:
        """Returns whether values of this kernel or operator are shown."""
        names = (name, *self.variants.get(name, ()))
        return not self.patterns or any(
            fnmatchcase(one.lower(), pattern) for one in names for pattern in self.patterns
        )
