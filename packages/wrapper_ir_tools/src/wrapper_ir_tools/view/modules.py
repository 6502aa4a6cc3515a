"""How the lines of a function fold by module."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from wrapper_ir_tools.view.model import Group

Path = tuple[str, ...]


def module_path(modules: Sequence[str]) -> Path:
    """The innermost module that holds all of these, as its parts: `("encoder", "layer")` for `encoder.layer.0` and
    `encoder.layer.1`."""
    paths = [tuple(m.split(".")) for m in modules if m]
    if not paths:
        return ()
    return _common(min(paths), max(paths))  # what the first and last in order share, all share


def _common(a: Path, b: Path) -> Path:
    length = 0
    while length < min(len(a), len(b)) and a[length] == b[length]:
        length += 1
    return a[:length]


def module_groups(paths: Sequence[Path | None], begin: int = 0) -> tuple[Group, ...]:
    """Groups of neighbouring rows below one module; the first row is number `begin`.

    A row without a module (None) belongs to where the row before it belongs. A module of one row has no group, and modules
    that hold the same rows are one group: `encoder.layer`.
    """
    known: list[Path] = []
    for path in paths:
        known.append(path if path is not None else known[-1] if known else ())
    return tuple(_groups(known, begin, 0, len(known), 0, 0))


def _groups(
    paths: Sequence[Path], begin: int, start: int, stop: int, parts: int, depth: int
) -> Iterator[Group]:
    """Groups of the rows from `start` up to before `stop`, whose paths are alike in their first `parts` parts."""
    while start < stop:
        if len(paths[start]) <= parts:
            start += 1
            continue
        name, end = paths[start][: parts + 1], start + 1
        while end < stop and paths[end][: parts + 1] == name:
            end += 1
        if end - start > 1:
            shared = paths[start]
            for path in paths[start + 1 : end]:
                shared = _common(shared, path)
            yield Group(begin + start, begin + end, ".".join(shared[parts:]), depth)
            yield from _groups(paths, begin, start, end, len(shared), depth + 1)
        start = end
