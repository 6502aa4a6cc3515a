"""The cache entry of a compiled graph: the artifact, and the facts that Inductor's caller needs."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from types import MappingProxyType

import sympy

from inductor_frontend.cache.entries import read_entry
from inductor_frontend.cache.metrics import Counts, count_lookup
from inductor_frontend.cache.operators import NoCanonicalForm
from inductor_frontend.cache.sizes import Size, encode_size
from inductor_frontend.cache.statistics import count
from inductor_frontend.cache.symbols import SymbolState
from inductor_frontend.scope.outer_streams import OuterStreams
from wrapper_ir.artifact import Artifact
from wrapper_ir.artifact.file import load, save
from wrapper_ir.errors import ArtifactError, WirError
from wrapper_ir_runtime.cache import DamagedEntry, Store

_FACTS = "inductor_frontend.compiled"
_FILE = "graph.wir"


@dataclass(frozen=True, slots=True, kw_only=True)
class CompiledGraph:
    """A compiled graph.

    `artifact`: its program. `inputs`: the number of the graph's inputs. `positions`: the graph input of each
    program parameter. `strides`: the strides of each result, None if unknown. `guards`: the guards on sizes
    that the compilation added. `outer`: the caller's streams; a graph with any is not stored. `counts`:
    Inductor's counters of the compilation. `lazy`: the positions of inputs that may have the conjugate or
    negative bit, which the program receives resolved.
    """

    artifact: Artifact
    inputs: int
    positions: tuple[int, ...]
    strides: tuple[tuple[Size, ...] | None, ...]
    guards: tuple[sympy.Basic, ...]
    outer: OuterStreams = field(default_factory=OuterStreams)
    counts: Counts = field(default_factory=Counts)
    lazy: tuple[int, ...] = ()

    @property
    def is_from_cache(self) -> bool:
        """True if the graph was loaded from an entry."""
        return _FACTS in self.artifact.metadata


def store_graph(store: Store, key: str, graph: CompiledGraph) -> None:
    """Stores a graph under its key. Raises NoCanonicalForm, StoreError."""
    artifact = described(graph, key, {})
    store.add(_name(key), lambda folder: _save(artifact, folder / _FILE), replace=True).close()


def described(graph: CompiledGraph, key: str, more: Mapping[str, str]) -> Artifact:
    """Returns the artifact of a graph; its metadata contains the graph's facts, its key, and `more`.

    Raises NoCanonicalForm, also for a graph that a file cannot contain.
    """
    if any(c.mutable for c in graph.artifact.program.constants):
        raise NoCanonicalForm("a constant that the program writes")
    if graph.outer != OuterStreams():
        raise NoCanonicalForm("streams")
    facts = {
        "key": key,
        "inputs": graph.inputs,
        "positions": list(graph.positions),
        "strides": [None if s is None else [encode_size(x) for x in s] for s in graph.strides],
        "guards": [encode_size(g) for g in graph.guards],
        "metrics": dict(graph.counts.metrics),
        "counters": dict(graph.counts.counters),
        "lazy": list(graph.lazy),
    }
    metadata = {**graph.artifact.metadata, _FACTS: json.dumps(facts), **more}
    return replace(graph.artifact, metadata=MappingProxyType(metadata))


def find_graph(store: Store, key: str, symbols: SymbolState) -> CompiledGraph | None:
    """Loads the graph of a key, its sizes in terms of `symbols`; None if it is missing."""
    graph = read_entry(store, _name(key), lambda folder: load_graph(folder / _FILE, key, symbols))
    count("graph_misses" if graph is None else "graph_hits")
    count_lookup(graph is not None)
    if graph is not None:
        graph.counts.apply()
    return graph


def find_new_graph(store: Store, key: str, symbols: SymbolState) -> CompiledGraph | None:
    """Loads the graph of a key that was missed before, as `find_graph`; a second miss is not counted."""
    folder = store.folder_of(_name(key))
    return find_graph(store, key, symbols) if folder is not None and folder.is_dir() else None


def _name(key: str) -> str:
    return f"graph {key}"


def _save(artifact: Artifact, path: Path) -> None:
    try:
        save(artifact, path)
    except ArtifactError as error:
        raise OSError(0, error.message) from error


def load_graph(path: Path, key: str, symbols: SymbolState) -> CompiledGraph:
    """Loads a file with an artifact of `described` for `key`. Raises DamagedEntry."""
    try:
        artifact = load(path)
    except WirError as error:
        raise DamagedEntry(error.message) from error
    match json.loads(artifact.metadata.get(_FACTS, "{}")):
        case {
            "key": name,
            "inputs": int(inputs),
            "positions": [*positions],
            "strides": [*strides],
            "guards": [*guards],
            "metrics": dict(metrics),
            "counters": dict(counters),
            "lazy": [*lazy],
        } if name == key:
            return CompiledGraph(
                artifact=artifact,
                inputs=inputs,
                positions=tuple(positions),
                strides=tuple(None if s is None else tuple(map(symbols.read, s)) for s in strides),
                guards=symbols.read_guards(guards),
                counts=Counts(metrics=metrics, counters=counters),
                lazy=tuple(lazy),
            )
    raise DamagedEntry("its facts are not those of this key")
