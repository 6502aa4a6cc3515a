"""Lines of code and calls of `isinstance` under folders and files: without comments, docstrings and blank
lines.

Usage: `python -m tools.code_lines PATH ...`. One line a path, and their sum.
"""

from __future__ import annotations

import ast
import io
import sys
import tokenize
from pathlib import Path

_LAYOUT = frozenset(
    (tokenize.COMMENT, tokenize.NL, tokenize.NEWLINE, tokenize.INDENT, tokenize.DEDENT, tokenize.ENDMARKER)
)


def code_lines(source: str) -> int:
    """Counts lines with a token of code; standalone strings are documentation."""
    strings: set[int] = set()
    for node in ast.walk(ast.parse(source)):
        match node:
            case ast.Expr(value=ast.Constant(value=str()), lineno=first, end_lineno=int(last)):
                strings.update(range(first, last + 1))
            case _:
                pass
    lines: set[int] = set()
    for token in tokenize.generate_tokens(io.StringIO(source).readline):
        if token.type not in _LAYOUT:
            lines.update(range(token.start[0], token.end[0] + 1))
    return len(lines - strings)


def count(path: Path) -> tuple[int, int]:
    """(lines of code, calls of `isinstance`) of a file, or of all Python files under a folder."""
    lines = checks = 0
    for file in sorted(path.rglob("*.py")) if path.is_dir() else [path]:
        source = file.read_text(encoding="utf-8")
        lines += code_lines(source)
        for node in ast.walk(ast.parse(source)):
            match node:
                case ast.Call(func=ast.Name(id="isinstance")):
                    checks += 1
                case _:
                    pass
    return lines, checks


def main() -> None:
    """Run the command line."""
    rows = [(name, *count(Path(name))) for name in sys.argv[1:]]
    rows.append(("all", sum(row[1] for row in rows), sum(row[2] for row in rows)))
    for name, lines, checks in rows:
        print(f"{lines:6} {checks:4} {name}")


if __name__ == "__main__":
    main()
