"""One compiled graph as it is kept: the artifact, and what Inductor's caller must be told about it."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from types import MappingProxyType

import sympy

from inductor_frontend.cache.entries import read_entry
from inductor_frontend.cache.metrics import Counts, count_lookup
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
    """A graph's artifact; for each parameter of its program the position of the graph's input (of `inputs` many); for
    each result its strides, where they are known; the guards on sizes that compiling it added; the streams around
    it, with which it is not stored; what Inductor counted; and the positions of inputs that may have the conjugate or negative
    bit (`lazy`), which its program takes without."""

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
        """Whether it was read out of an entry."""
        return _FACTS in self.artifact.metadata


def store_graph(store: Store, key: str, graph: CompiledGraph) -> None:
    """Keeps a graph under its key. Raises NoCanonicalForm, StoreError."""
    artifact = described(graph, key, {})
    store.add(_name(key), lambda folder: _save(artifact, folder / _FILE), replace=True).close()


def described(graph: CompiledGraph, key: str, more: Mapping[str, str]) -> Artifact:
    """The artifact of a graph; its metadata hold the other facts about the graph, its key, and `more`. Raises NoCanonicalForm."""
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
    """The graph of a key, its sizes in terms of `symbols`; None where there is none."""
    found = read_entry(store, _name(key), lambda folder: load_graph(folder / _FILE, key, symbols))
    count("graph_misses" if found is None else "graph_hits")
    count_lookup(found is not None)
    if found is not None:
        found.counts.apply()
    return found


def find_new_graph(store: Store, key: str, symbols: SymbolState) -> CompiledGraph | None:
    """As `find_graph`, for a key that was missed before: a second miss is not counted."""
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
    """The graph of a file that holds what `described` gives for `key`. Raises DamagedEntry."""
    try:
        artifact = load(path)
    except WirError as error:
        raise DamagedEntry(error.message) from error
    match json.loads(artifact.metadata.get(_FACTS, "{}")):
        case {
            "key": found,
            "inputs": int(inputs),
            "positions": [*positions],
            "strides": [*strides],
            "guards": [*guards],
            "metrics": dict(metrics),
            "counters": dict(counters),
            "lazy": [*lazy],
        } if found == key:
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
