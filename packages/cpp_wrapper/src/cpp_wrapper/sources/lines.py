"""Lines of C++ that know what they are written for."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from wrapper_ir.plugins.emitted import LineOrigin


class SourceLine(str):
    """A line with its origin, which stays with it until the file is put together."""

    __slots__ = ("origin",)
    origin: LineOrigin

    def __new__(cls, text: str, origin: LineOrigin) -> SourceLine:
        """The line `text`."""
        line = super().__new__(cls, text)
        line.origin = origin
        return line

    def indented(self) -> SourceLine:
        """The line in a block of a function of a struct."""
        return SourceLine(f"    {self}", self.origin)


def line_origins(lines: Iterable[str]) -> Iterator[LineOrigin | None]:
    """The origin of each line of the file that `lines` are joined to; None for what is not code."""
    around = LineOrigin(note="what a library has around its program")
    for line in lines:
        origin = line.origin if isinstance(line, SourceLine) else around
        for text in line.split("\n"):
            yield origin if text.strip() and not text.lstrip().startswith("//") else None
