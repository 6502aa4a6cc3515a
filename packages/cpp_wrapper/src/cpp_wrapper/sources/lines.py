"""Lines of C++ with their origins."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from wrapper_ir.plugins.emitted import LineOrigin


class SourceLine(str):
    """A line with its origin, which it keeps until the file is joined."""

    __slots__ = ("origin",)
    origin: LineOrigin

    def __new__(cls, text: str, origin: LineOrigin) -> SourceLine:
        """Creates the line `text`."""
        line = super().__new__(cls, text)
        line.origin = origin
        return line

    def indented(self) -> SourceLine:
        """Returns the line indented for a method of a struct."""
        return SourceLine(f"    {self}", self.origin)


def line_origins(lines: Iterable[str]) -> Iterator[LineOrigin | None]:
    """Yields the origin of each line of the joined file; None for lines that are not code."""
    around = LineOrigin(note="code of a library around its program")
    for line in lines:
        origin = line.origin if isinstance(line, SourceLine) else around
        for text in line.split("\n"):
            yield origin if text.strip() and not text.lstrip().startswith("//") else None
