"""Options shared by several commands of `wir`."""

from __future__ import annotations

import re
from collections.abc import Sequence

import click

from wrapper_ir import ir

allow_operator = click.option(
    "--allow-operator",
    "operators",
    multiple=True,
    metavar="NAME",
    help="An operator that may reach files or code of the process, such as aten::from_file; repeatable.",
)
public_key = click.option(
    "--public-key",
    metavar="PEM",
    help="An Ed25519 public key: refuse a file that is not signed with its private key.",
)
as_json = click.option("--json", "as_json", is_flag=True, help="Print JSON, for other programs.")


class _Hint(click.ParamType[tuple[str, int]]):
    name = "SYMBOL=N"

    def convert(
        self, value: object, param: click.Parameter | None, ctx: click.Context | None
    ) -> tuple[str, int]:
        match = re.fullmatch(r"([^=]+)=(-?[0-9]+)", str(value))
        if match is None:
            self.fail(f"expected SYMBOL=N, got {value!r}", param, ctx)
        return match[1], int(match[2])


hint = click.option("--hint", "hints", multiple=True, type=_Hint(), help="Value of a symbol; repeatable.")


def hints_of(program: ir.Program, values: Sequence[tuple[str, int]]) -> dict[str, int]:
    """Returns the values by symbol; raises click.BadParameter for an unknown symbol or a value out of its
    range.
    """
    symbols = {s.name: s for s in program.symbols}
    for name, value in values:
        symbol = symbols.get(name)
        if symbol is None:
            names = ", ".join(symbols) or "none"
            raise _refused(f"the program has no symbol {name!r} (it has: {names})")
        low, high = symbol.lower, symbol.upper
        if (low is not None and value < low) or (high is not None and value > high):
            bounds = f"[{'-inf' if low is None else low}, {'inf' if high is None else high}]"
            raise _refused(f"{name}={value} is outside the range {bounds} of {name}")
    return dict(values)


def _refused(message: str) -> click.BadParameter:
    return click.BadParameter(message, param_hint="'--hint'")
