"""Commands over the cache on disk: show, trim, clear."""

from __future__ import annotations

import dataclasses
import json
import re

import click

from wrapper_ir.errors import StoreError
from wrapper_ir_runtime.cache import Cache, StoreStatistics, Trimmed, open_cache, parse_size, read_settings
from wrapper_ir_tools.cli.options import as_json
from wrapper_ir_tools.cli.output import echo

_SECONDS = {"s": 1, "m": 60, "h": 3600, "d": 24 * 3600, "w": 7 * 24 * 3600}


class _Size(click.ParamType[int]):
    name = "SIZE"

    def convert(self, value: object, param: click.Parameter | None, ctx: click.Context | None) -> int:
        try:
            return parse_size(str(value))
        except StoreError as error:
            self.fail(f"{error.message}: {error.hint}", param, ctx)


class _Age(click.ParamType[float]):
    name = "AGE"

    def convert(self, value: object, param: click.Parameter | None, ctx: click.Context | None) -> float:
        match = re.fullmatch(r"([0-9]+)([smhdw])", str(value))
        if match is None:
            self.fail(f"{value!r} is not an age: write 12h, 30d or 4w", param, ctx)
        return float(match[1]) * _SECONDS[match[2]]


@click.group("cache")
def cache_group() -> None:
    """Show, trim or clear the cache on disk, which WRAPPER_IR_CACHE_DIR names."""


@cache_group.command()
@as_json
def show(as_json: bool) -> None:
    """Print the contents of the cache and the hits, by namespace. Counts include all processes so far."""
    cache = open_cache(read_settings())
    usage = cache.usage()
    totals = {name: cache.totals(name) for name in usage}
    if as_json:
        namespaces = {
            name: {"entries": entries, "bytes": size, **dataclasses.asdict(totals[name])}
            for name, (entries, size) in usage.items()
        }
        report = {
            "folder": _folder(cache),
            "limit_bytes": cache.settings.limit_bytes,
            "namespaces": namespaces,
        }
        echo(json.dumps(report, indent=2))
        return
    total = sum(size for _, size in usage.values())
    echo(f"{_folder(cache)}: {_shown(total)} of {_shown(cache.settings.limit_bytes)}")
    rows: list[tuple[str, ...]] = [("", "entries", "size", "hits", "misses", "evicted", "damaged")]
    rows += [_row(name, entries, size, totals[name]) for name, (entries, size) in usage.items()]
    widths = [max(len(row[i]) for row in rows) for i in range(len(rows[0]))]
    for row in rows if usage else []:
        numbers = (cell.rjust(width) for cell, width in zip(row[1:], widths[1:], strict=True))
        echo("  ".join((row[0].ljust(widths[0]), *numbers)))


@cache_group.command("trim")
@click.option(
    "--to", type=_Size(), metavar="SIZE", help="Down to this size, such as 500M: the longest unused go."
)
@click.option("--older-than", type=_Age(), metavar="AGE", help="What was unused for this time, such as 30d.")
@click.argument("namespace", required=False)
def trim_command(to: int | None, older_than: float | None, namespace: str | None) -> None:
    """Remove the longest unused entries of NAMESPACE, or of all. Entries in use are never removed."""
    if to is None and older_than is None:
        raise click.UsageError("say how much: --to SIZE, --older-than AGE, or both")
    cache = _cache_with(namespace)
    _report(cache.trim(namespace=namespace, to=to, older_than=older_than))


@cache_group.command()
@click.argument("namespace", required=False)
def clear(namespace: str | None) -> None:
    """Remove all entries of NAMESPACE, or of all. Entries in use are never removed."""
    _report(_cache_with(namespace).clear(namespace))


def _cache_with(namespace: str | None) -> Cache:
    """Opens the cache; raises click.BadParameter if the namespace does not exist."""
    cache = open_cache(read_settings())
    namespaces = list(cache.usage())
    if namespace is not None and namespace not in namespaces:
        raise click.BadParameter(
            f"the cache {_folder(cache)} has no namespace {namespace!r} (it has: "
            f"{', '.join(namespaces) or 'none'})",
            param_hint="'NAMESPACE'",
        )
    return cache


def _folder(cache: Cache) -> str:
    return str(cache.places.root)


def _report(outcome: Trimmed) -> None:
    entries = sum(outcome.entries.values())
    rest = f"; {outcome.in_use} in use stay" if outcome.in_use else ""
    echo(f"removed {entries} entries ({_shown(outcome.bytes)}), {_shown(outcome.left)} left{rest}")


def _row(name: str, entries: int, size: int, counts: StoreStatistics) -> tuple[str, ...]:
    numbers = (counts.hits, counts.misses, counts.evicted, counts.damaged)
    return (name, str(entries), _shown(size), *map(str, numbers))


def _shown(size: int) -> str:
    """Formats a size with a unit: `1.5 MiB`."""
    value, unit = float(size), "B"
    for larger in ("KiB", "MiB", "GiB", "TiB"):
        if value < 1024:
            break
        value, unit = value / 1024, larger
    return f"{size} B" if unit == "B" else f"{value:.1f} {unit}"


COMMANDS = (cache_group,)
