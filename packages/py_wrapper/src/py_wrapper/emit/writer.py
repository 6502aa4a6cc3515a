"""Lines of Python with indentation and origins; long calls are broken."""

from __future__ import annotations

import textwrap
from collections.abc import Iterator, Sequence
from contextlib import contextmanager

from wrapper_ir.plugins.emitted import LineOrigin
from wrapper_ir.support.quoting import python_comment

WIDTH = 110


def tuple_text(items: Sequence[str]) -> str:
    """Returns a tuple display: `(a, b)`, `(a,)`, `()`."""
    return f"({', '.join(items)}{',' if len(items) == 1 else ''})"


def targets(names: Sequence[str]) -> str:
    """Returns the left side of an assignment: `a, b = `, `(a,) = `, or '' without names."""
    if not names:
        return ""
    return f"({names[0]},) = " if len(names) == 1 else f"{', '.join(names)} = "


class Writer:
    """Collects lines. `origin` is the origin of the next lines; None for lines that are not code."""

    def __init__(self) -> None:
        self.origin: LineOrigin | None = None
        self._lines: list[str] = []
        self._origins: list[LineOrigin | None] = []
        self._depth = 0
        self._open: list[tuple[int, str]] = []
        """The first line of each block that `open_block` began, and the line of its `finally` clause."""

    def line(self, text: str = "") -> None:
        """Writes one line; '' is an empty one. Two empty lines never follow each other inside a block."""
        self._lines.append("    " * self._depth + text if text else "")
        self._origins.append(self.origin if text and text[0] != "#" else None)

    def gap(self) -> None:
        """Writes an empty line unless the previous line is empty or begins a block."""
        if self._lines and self._lines[-1] and not self._lines[-1].endswith(":"):
            self.line()

    def paragraph(self, text: str) -> None:
        """Writes lines at the top level, after two empty ones."""
        self.line()
        self.line()
        for line in text.strip("\n").splitlines():
            self.line(line)

    def comment(self, text: str) -> None:
        """Writes a comment, wrapped to the line width."""
        width = WIDTH - 4 * self._depth - 2
        for line in textwrap.wrap(
            python_comment(text), width, break_long_words=False, break_on_hyphens=False
        ):
            self.line(f"# {line}")

    def tuple(self, head: str, items: Sequence[str]) -> None:
        """Writes `head` and a tuple of the items, wrapped as by `items`.

        A single item gets a trailing comma.
        """
        if len(items) == 1 and len(head) + len(items[0]) + 3 + 4 * self._depth <= WIDTH:
            self.line(f"{head}({items[0]},)")
        else:
            self.items(f"{head}(", items, ")")

    def delete(self, names: Sequence[str]) -> None:
        """Writes `del a, b`, joined to a `del` just before it."""
        previous = self._lines[-1] if self._lines else ""
        start = "    " * self._depth + "del "
        available = WIDTH - len(previous) - 2
        if previous.startswith(start) and len(", ".join(names)) <= available:
            self._lines[-1] = f"{previous}, {', '.join(names)}"
            return
        brackets = len(names) > 8 or len(", ".join(names)) > WIDTH - len(start)
        self.items("del (" if brackets else "del ", names, ")" if brackets else "")

    def items(self, head: str, items: Sequence[str], tail: str) -> None:
        """Writes `head`, comma-separated items and `tail`, wrapped if too long. `head` ends in a bracket,
        which `tail` closes."""
        text = f"{head}{', '.join(items)}{tail}"
        if len(text) + 4 * self._depth <= WIDTH or not items:
            self.line(text)
            return
        self.line(head)
        self._depth += 1
        row = ""
        for item in items:
            if row and len(row) + len(item) + 4 * self._depth > WIDTH - 2:
                self.line(row.rstrip())
                row = ""
            row += f"{item}, "
        self.line(row.rstrip())
        self._depth -= 1
        self.line(tail)

    def unpack(self, names: Sequence[str], text: str) -> None:
        """Writes `a, b = text`, in brackets if it is long."""
        if len(names) > 8:
            self.items("(", names, f") = {text}")
        else:
            self.line(f"{targets(names)}{text}")

    def open_block(self, head: str, last: str = "") -> None:
        """Begins an indented block, which `close_block` ends. `last` is the line of its `finally` clause."""
        self.line(head)
        self._open.append((len(self._lines), last))
        self._depth += 1

    def close_block(self) -> None:
        """Ends the innermost open block."""
        start, last = self._open.pop()
        body = self._lines[start:]
        if all(not line or line.lstrip().startswith("#") for line in body):
            self.line("pass")
        self._depth -= 1
        if last:
            with self.block("finally:"):
                self.line(last)

    @contextmanager
    def block(self, head: str) -> Iterator[None]:
        """Writes an indented block under `head`."""
        self.line(head)
        with self.block_body():
            yield

    @contextmanager
    def block_body(self) -> Iterator[None]:
        """Indents the body of a block whose head is written."""
        self._depth += 1
        yield
        self._depth -= 1

    def text(self) -> str:
        """Returns all lines."""
        return "\n".join(self._lines) + "\n"

    def origins(self) -> list[LineOrigin | None]:
        """Returns the origins of all lines."""
        origins: list[LineOrigin | None] = []
        for line, origin in zip(self._lines, self._origins, strict=True):
            origins += [origin] * (line.count("\n") + 1)
        return origins
