"""Policy of the library operators that a program may call; an artifact names them freely.

Most operators compute on their tensor arguments. A few have reach: they read and write files, or call code
that is registered in the process by number or name. `OperatorPolicy` refuses those by default. The table
`REACH` lists them by name and cannot include those of other libraries: `OperatorPolicy.only` allows nothing
except a list.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from wrapper_ir.errors import NotSupportedError

_FILES = "reads or writes files"
_CODE = "calls code of the process that it finds by name or number"
REACH: Mapping[str, str] = {
    "aten::from_file": _FILES,
    "aten::save": _FILES,
    "debugprims::load_tensor": "reads files with pickles, which are code",
    "image::read_file": _FILES,
    "image::write_file": _FILES,
    "torchcodec_ns::*": _FILES,
    "torchaudio::*": _FILES,
    "higher_order::print": "formats text, which shows any attribute of objects that the text names",
    "export::access_subclass_inner_tensor": "takes an attribute of any name",
    "higher_order::*": _CODE,
    "prim::*": _CODE,
    "rpc::*": "calls other processes",
    "_test::*": "exists for torch's own tests",
}
"""Descriptions of operators with reach, by pattern."""
_RUNNERS = ("higher_order::run_and_save_rng_state", "higher_order::run_with_rng_state")
"""Exceptions to `REACH`: they run another operator, which is also checked."""


@dataclass(frozen=True, slots=True, kw_only=True)
class OperatorPolicy:
    """Patterns of operators that a program may call.

    `allow` are operators that are allowed although they have reach. If `only` is not None, operators of both
    lists are allowed, and no others. A pattern is an operator (`aten::from_file`, with all its overloads),
    one overload (`aten::from_file.out`), a namespace (`aten::*`), or `*` for all operators. Raises
    NotSupportedError WIR918 for other text.
    """

    allow: tuple[str, ...] = ()
    only: tuple[str, ...] | None = None

    def __post_init__(self) -> None:
        for pattern in (*self.allow, *(self.only or ())):
            namespace, colons, rest = pattern.partition("::")
            if pattern != "*" and not (namespace and colons and rest):
                raise NotSupportedError(
                    "WIR918",
                    f"{pattern!r} names no operators",
                    hint="write namespace::operator, namespace::operator.overload, namespace::* or *",
                )

    def refusal(self, name: str) -> str:
        """Returns the reason why a program may not call the operator of this name; '' if it may."""
        if _is_among(name, self.allow):
            return ""
        if self.only is not None:
            return "" if _is_among(name, self.only) else "is not among the operators that are allowed"
        if _is_among(name, _RUNNERS):
            return ""
        return next((reach for pattern, reach in REACH.items() if _matches(name, pattern)), "")


DEFAULT_OPERATORS = OperatorPolicy()
"""All operators except those in `REACH`."""
ALL_OPERATORS = OperatorPolicy(allow=("*",))
"""All operators: for programs that this process captured itself."""


def _matches(name: str, pattern: str) -> bool:
    if pattern == "*" or name == pattern or name.partition(".")[0] == pattern:
        return True
    return pattern.endswith("::*") and name.startswith(pattern[:-1])


def _is_among(name: str, patterns: tuple[str, ...]) -> bool:
    return any(_matches(name, pattern) for pattern in patterns)


def inner_operator(overload: str) -> tuple[str, str, str] | None:
    """Splits `aten__rand__default` into namespace, operator and overload; None for other names."""
    namespace, _, rest = overload.partition("__")
    operator, _, inner = rest.rpartition("__")
    return (namespace, operator, inner) if namespace and operator and inner else None


def runs_operator(name: str) -> bool:
    """Returns whether an operator runs another one, which its overload names."""
    return name.partition(".")[0] in _RUNNERS


def called_names(name: str) -> tuple[str, ...]:
    """Returns an operator's name, followed by that of the operator that it runs, if any."""
    outer, _, overload = name.partition(".")
    inner = inner_operator(overload) if outer in _RUNNERS else None
    return (name,) if inner is None else (name, f"{inner[0]}::{inner[1]}.{inner[2]}")


def refused(name: str, reason: str, place: str) -> NotSupportedError:
    """Returns the error for an operator that a program may not call."""
    return NotSupportedError(
        "WIR917",
        f"operator {name} {reason}, and is not allowed: {place}",
        hint=f"OperatorPolicy(allow=({name.partition('.')[0]!r},)) in the engine's options, or "
        f"`wir run --allow-operator {name.partition('.')[0]}`, if you trust the program's author",
    )
