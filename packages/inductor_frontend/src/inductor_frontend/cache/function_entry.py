"""The cache entry of a compiled function: the keys of its graphs, and facts of autograd's wrappers."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import sympy
from torch._functorch._aot_autograd.schemas import ViewAndMutationMeta

from inductor_frontend.cache.autograd_json import decode_metadata, encode_metadata
from inductor_frontend.cache.entries import read_entry
from inductor_frontend.cache.graph_entry import CompiledGraph, find_graph
from inductor_frontend.cache.sizes import Json, encode_size
from inductor_frontend.cache.statistics import count
from inductor_frontend.cache.symbols import SymbolState
from wrapper_ir_runtime.cache import DamagedEntry, Store

_FILE = "function.json"


@dataclass(frozen=True, slots=True, kw_only=True)
class RuntimeFacts:
    """The facts that AOTAutograd needs to call the compiled graphs of a function.

    `metadata`: AOTAutograd's description of inputs, outputs and saved tensors. `detached`: the positions of
    inputs that autograd detaches. `saved`: the number of forward results that are saved for the backward
    graph; `saved_sizes`: the number of sizes among them. `guards`: the guards on sizes that compiling the
    function added.
    """

    metadata: ViewAndMutationMeta
    detached: tuple[int, ...]
    saved: int | None
    saved_sizes: int
    guards: tuple[sympy.Basic, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class Backward:
    """A backward graph. If `overwrites`, it may reuse the memory of saved tensors, so that it can run only
    once."""

    graph: CompiledGraph
    overwrites: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class CompiledFunction:
    """A compiled function that was loaded from the cache."""

    forward: CompiledGraph
    backward: Backward | None
    facts: RuntimeFacts


def encode_facts(facts: RuntimeFacts) -> dict[str, Json]:
    """Encodes the facts as JSON; raises NoCanonicalForm."""
    return {
        "metadata": encode_metadata(facts.metadata),
        "detached": list(facts.detached),
        "saved": facts.saved,
        "saved_sizes": facts.saved_sizes,
        "guards": [encode_size(g) for g in facts.guards],
    }


def store_function(
    store: Store, key: str, facts: Mapping[str, Json], forward: str, backward: tuple[str, bool] | None
) -> None:
    """Stores a function: its encoded facts, the keys of its graphs, and whether the backward graph
    overwrites."""
    body = {
        "key": key,
        "facts": dict(facts),
        "forward": forward,
        "backward": None if backward is None else list(backward),
    }
    text = json.dumps(body, sort_keys=True)
    store.add(
        _name(key), lambda folder: (folder / _FILE).write_text(text, encoding="utf-8"), replace=True
    ).close()


def find_function(store: Store, key: str, symbols: SymbolState) -> CompiledFunction | None:
    """Loads the function of a key; None if it or one of its graphs is missing."""
    function = read_entry(store, _name(key), lambda folder: _read(store, key, _json(folder / _FILE), symbols))
    count("function_misses" if function is None else "function_hits")
    return function


def _name(key: str) -> str:
    return f"function {key}"


def _json(path: Path) -> object:
    return json.loads(path.read_text(encoding="utf-8"))


def _read(store: Store, key: str, body: object, symbols: SymbolState) -> CompiledFunction | None:
    match body:
        case {"key": str(name), "facts": dict(facts), "forward": str(forward), "backward": backward}:
            if name != key:
                raise DamagedEntry("it is not of this key")
        case _:
            raise DamagedEntry("it is not of this key")
    first = find_graph(store, forward, symbols)
    second: Backward | None = None
    if backward is not None:
        graph = find_graph(store, backward[0], symbols) if first is not None else None
        second = None if graph is None else Backward(graph=graph, overwrites=bool(backward[1]))
    if first is None or (backward is not None and second is None):
        return None
    return CompiledFunction(forward=first, backward=second, facts=read_facts(facts, symbols))


def read_facts(data: Mapping[str, Any], symbols: SymbolState) -> RuntimeFacts:
    """Decodes a result of `encode_facts`. Raises DamagedEntry."""
    try:
        metadata = decode_metadata(data["metadata"])
        guards = symbols.read_guards(data["guards"])
        facts = RuntimeFacts(
            metadata=metadata,
            detached=tuple(data["detached"]),
            saved=data["saved"],
            saved_sizes=data["saved_sizes"],
            guards=guards,
        )
    except (KeyError, TypeError, ValueError) as error:
        raise DamagedEntry(f"its facts cannot be read: {error!r}") from error
    if not isinstance(metadata, ViewAndMutationMeta):
        raise DamagedEntry("its facts are of another kind")
    return facts
