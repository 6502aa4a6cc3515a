"""Groups the lines of a function by module."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from wrapper_ir_tools.view.model import Group

Path = tuple[str, ...]


def module_path(modules: Sequence[str]) -> Path:
    """The innermost common module of all of these, as a tuple of its parts.

    For `encoder.layer.0` and `encoder.layer.1`, that is `("encoder", "layer")`.
    """
    paths = [tuple(m.split(".")) for m in modules if m]
    if not paths:
        return ()
    # the first and last in order share only what all share
    return _common(min(paths), max(paths))


def _common(a: Path, b: Path) -> Path:
    length = 0
    while length < min(len(a), len(b)) and a[length] == b[length]:
        length += 1
    return a[:length]


def module_groups(paths: Sequence[Path | None], begin: int = 0) -> tuple[Group, ...]:
    """Groups adjacent rows by module; the first row is number `begin`.

    A row without a module (None) belongs to the group of the row before it. A module with one row has no
    group. Modules with the same rows form one group: `encoder.layer`.
    """
    known_paths: list[Path] = []
    for path in paths:
        known_paths.append(path if path is not None else known_paths[-1] if known_paths else ())
    return tuple(_groups(known_paths, begin, 0, len(known_paths), 0, 0))


def _groups(
    paths: Sequence[Path], begin: int, start: int, stop: int, parts: int, depth: int
) -> Iterator[Group]:
    """Groups the rows from `start` up to, but excluding, `stop`; their paths share the first `parts`
    parts."""
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
