"""Cache keys: the hash of all dependencies of a compilation, written as text section by section."""

from __future__ import annotations

import hashlib
import logging
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass

import torch
from torch import fx

from inductor_frontend.cache.canonical import Writer
from inductor_frontend.cache.environment import (
    emitter_version,
    foreign_operators,
    function_lines,
    option_lines,
    program_lines,
)
from inductor_frontend.cache.graphs import FUNCTION, GRAPH, graph_lines
from inductor_frontend.cache.operators import NoCanonicalForm
from inductor_frontend.cache.symbols import SymbolState
from inductor_frontend.cache.tensors import fake_text, input_text
from inductor_frontend.options import CaptureOptions

_LOG = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True, kw_only=True)
class Choices:
    """The user's options that are part of a key.

    The emitter is included by name and options, although stored programs do not depend on it.
    """

    capture: CaptureOptions
    passes: str
    emitter: object
    emitter_name: str

    def lines(self) -> Iterator[str]:
        """Yields the options as lines of a key."""
        yield f"options {Writer().text(self.capture)}"
        yield f"passes {self.passes}"
        version = emitter_version(self.emitter_name)
        yield f"emitter {self.emitter_name} {version} {_emitter_text(self.emitter)}"


def _emitter_text(emitter: object) -> str:
    """Returns the options of an emitter that was passed as an object, as text; raises NoCanonicalForm."""
    if isinstance(emitter, str):
        return ""
    return Writer().text(emitter)


@dataclass(frozen=True, slots=True, kw_only=True)
class GraphFacts:
    """AOTAutograd's facts about a graph, besides the graph itself."""

    inputs: Sequence[object]  # fake tensors, symbolic and plain numbers
    static_inputs: Sequence[int]
    donated: Sequence[int]
    is_inference: bool
    is_backward: bool
    checks: Sequence[str] = ()
    """The model's assertions with messages, which become assertions of the program."""

    def lines(self) -> Iterator[str]:
        """Yields the facts as lines of a key."""
        yield f"inference {self.is_inference} backward {self.is_backward}"
        yield f"static {sorted(self.static_inputs)} donated {sorted(self.donated)}"
        yield from (f"check {check}" for check in self.checks)
        writer = Writer(tensor=fake_text)
        yield from (f"input {writer.text(x)}" for x in self.inputs)


def graph_key(gm: fx.GraphModule, facts: GraphFacts, symbols: SymbolState, choices: Choices) -> str:
    """Returns the key of one graph after autograd. Raises NoCanonicalForm."""
    foreign = foreign_operators()
    if foreign and (calls := foreign & {str(n.target) for n in gm.graph.nodes}):
        raise NoCanonicalForm(f"a foreign rule for {min(calls)}")
    sections = {
        "program": program_lines(),
        "options": [*choices.lines(), *option_lines(choices.capture)],
        "facts": facts.lines(),
        "symbols": symbols.lines(),
        "graph": graph_lines(gm, GRAPH),
    }
    return _digest("graph", sections)


def function_key(gm: fx.GraphModule, inputs: Sequence[object], symbols: SymbolState, choices: Choices) -> str:
    """Returns the key of a whole function of Dynamo, before autograd.

    `inputs` are its real inputs (tensors, numbers). Raises NoCanonicalForm.
    """
    foreign_operators()  # raises for operators of torch, and the graph contains no others
    sections = {
        "program": program_lines(),
        "options": [*choices.lines(), *option_lines(choices.capture), *function_lines()],
        "inputs": list(_input_lines(gm, inputs)),
        "symbols": symbols.lines(),
        "graph": graph_lines(gm, FUNCTION),
    }
    return _digest("function", sections)


def _input_lines(gm: fx.GraphModule, inputs: Sequence[object]) -> Iterator[str]:
    """Yields for each input Dynamo's fake value, facts of the real value, and the number of its storage."""
    writer = Writer(tensor=fake_text)
    storages: dict[object, int] = {}
    placeholders = [n for n in gm.graph.nodes if n.op == "placeholder"]
    if len(placeholders) != len(inputs) or any("example_value" not in n.meta for n in placeholders):
        raise NoCanonicalForm("a graph that is not Dynamo's")
    for node, value in zip(placeholders, inputs):
        static = node.meta.get("tensor_dict", {}).get("_dynamo_static_input_type")
        shared = ""
        if isinstance(value, torch.Tensor) and value.layout is torch.strided:
            shared = f" memory {storages.setdefault(value.untyped_storage()._cdata, len(storages))}"
        yield f"{writer.text(node.meta['example_value'])} {input_text(value)} static {static}{shared}"
    for name, tensor in [*gm.named_parameters(), *gm.named_buffers()]:
        yield f"{name} {fake_text(tensor)} {input_text(tensor)}"


def _digest(kind: str, sections: dict[str, Iterable[str]]) -> str:
    """Returns the hash of all sections. The hash of each section is logged, so that two runs can be
    compared."""
    whole = hashlib.sha256(kind.encode())
    parts = []
    for name, lines in sections.items():
        part = hashlib.sha256("\n".join(lines).encode()).hexdigest()
        whole.update(f"{name} {part}\n".encode())
        parts.append(f"{name} {part[:12]}")
    key = whole.hexdigest()
    _LOG.debug("%s %s: %s", kind, key, ", ".join(parts))
    return key
