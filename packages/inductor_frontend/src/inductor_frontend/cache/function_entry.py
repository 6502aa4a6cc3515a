"""A whole compiled function as it is kept: the keys of its graphs, and what autograd does around them at run time."""

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
    """What AOTAutograd needs to know to call the compiled graphs of a function.

    `metadata` is AOTAutograd's own record of inputs, outputs and saved tensors; `detached` the inputs that autograd
    detaches; `saved` how many results of the forward graph are saved for the backward one, `saved_sizes` how many of
    them are sizes; `guards` what compiling the function learned about sizes.
    """

    metadata: ViewAndMutationMeta
    detached: tuple[int, ...]
    saved: int | None
    saved_sizes: int
    guards: tuple[sympy.Basic, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class Backward:
    """A backward graph; `overwrites`: it may reuse the memory of what forward saved, so that it runs only once."""

    graph: CompiledGraph
    overwrites: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class CompiledFunction:
    """A function out of the cache."""

    forward: CompiledGraph
    backward: Backward | None
    facts: RuntimeFacts


def encode_facts(facts: RuntimeFacts) -> dict[str, Json]:
    """The facts as JSON; raises NoCanonicalForm."""
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
    """Keeps a function: its facts as recorded, its graphs by their keys (and whether the backward one overwrites)."""
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
    """The function of a key; None where it or one of its graphs is not there."""
    found = read_entry(store, _name(key), lambda folder: _read(store, key, _json(folder / _FILE), symbols))
    count("function_misses" if found is None else "function_hits")
    return found


def _name(key: str) -> str:
    return f"function {key}"


def _json(path: Path) -> Any:
    return json.loads(path.read_text(encoding="utf-8"))


def _read(store: Store, key: str, body: Any, symbols: SymbolState) -> CompiledFunction | None:
    match body:
        case {"key": found, "facts": dict(facts), "forward": str(forward), "backward": backward} if (
            found == key
        ):
            pass
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


def read_facts(record: Mapping[str, Any], symbols: SymbolState) -> RuntimeFacts:
    """The facts of a record of `encode_facts`. Raises DamagedEntry."""
    try:
        metadata = decode_metadata(record["metadata"])
        guards = symbols.read_guards(record["guards"])
        facts = RuntimeFacts(
            metadata=metadata,
            detached=tuple(record["detached"]),
            saved=record["saved"],
            saved_sizes=record["saved_sizes"],
            guards=guards,
        )
    except (KeyError, TypeError, ValueError) as error:
        raise DamagedEntry(f"its facts cannot be read: {error!r}") from error
    if not isinstance(metadata, ViewAndMutationMeta):
        raise DamagedEntry("its facts are of another kind")
    return facts
