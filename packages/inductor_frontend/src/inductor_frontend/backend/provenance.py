"""The links between graphs and code in the form in which Inductor traces them, for tlparse's provenance view.

The view shows Dynamo's graph, the graph after Inductor's passes, and emitted code. It links nodes by name; a line of code by a name that
stands in a comment before it, `kernel:number`, and the part before the colon in the line itself.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass

from wrapper_ir_tools.explain import ExplainedFile, ExplainedOp, Explanation

_VERSION = 2.0
"""The version of the form."""
_MAIN = "program."
"""How the name of the file begins that has a program's own function."""
_CALLED = re.compile(r"([A-Za-z_]\w*)\(")
_START = "# AOT ID:"
"""Marks the line that the view counts as the first."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Provenance:
    """`code` is the emitted code with names of launches and calls in comments at the ends of lines, so that lines keep their numbers; ""
    for an emitter that does not say which op a line is for. `mappings` and `stacks` are JSON."""

    code: str
    mappings: str
    stacks: str


def provenance_of(
    explanation: Explanation, dynamo_nodes: Mapping[str, Iterable[str]], graph: str
) -> Provenance:
    """The links of one graph, which is called `graph`. `dynamo_nodes` has, for each node after Inductor's passes, those of Dynamo's graph
    that it comes from."""
    file = next((f for f in explanation.files if f.name.startswith(_MAIN)), None)
    names = {} if file is None else dict(_names(file, explanation.ops))
    code_to_post = {name: list(_computed(op)) for name, op in names.values()}
    post_to_pre = {node: list(before) for node, before in dynamo_nodes.items()}
    mappings = {
        "preToPost": _inverse(post_to_pre),
        "postToPre": post_to_pre,
        "cppCodeToPost": code_to_post,
        "postToCppCode": _inverse(code_to_post),
        "version": _VERSION,
    }
    stacks = {name: [_frame(s, explanation.source_texts) for s in op.sources] for name, op in names.values()}
    return Provenance(
        code="" if file is None else _commented(file, names, f"{_START} ['{graph}']"),
        mappings=json.dumps(mappings),
        stacks=json.dumps(stacks),
    )


def _names(
    file: ExplainedFile, ops: tuple[ExplainedOp, ...]
) -> Iterator[tuple[int, tuple[str, ExplainedOp]]]:
    """For each launch and call of an operator, the number of the line that makes it, and its name in the view."""
    width = len(str(len(ops)))  # such that no name is the begin of another
    named: set[int] = set()
    for line in file.lines:
        op = None if line.op is None else ops[line.op]
        if (
            op is None
            or op.index in named
            or not op.nodes
            or not (op.kernel or op.extern)
            or line.number == 1
        ):
            continue
        called = _CALLED.search(line.text)
        if called is not None:
            named.add(op.index)
            yield line.number, (f"{called[1]}:{op.index:0{width}}", op)


def _computed(op: ExplainedOp) -> tuple[str, ...]:
    """The nodes that an op computes. An operator computes the first of its nodes; the others are around that, as views of operands."""
    return op.nodes if op.kernel else op.nodes[:1]


def _commented(file: ExplainedFile, names: Mapping[int, tuple[str, ExplainedOp]], start: str) -> str:
    mark = "//" if file.name.endswith(".cpp") else "#"
    comments = {number - 1: f"{mark} {name}" for number, (name, _) in names.items()}
    comments[1] = " ".join(filter(None, (start if mark == "#" else f"{mark} {start}", comments.get(1))))
    lines = (f"{line.text}  {comments.get(line.number, '')}".rstrip() for line in file.lines)
    return "\n".join(lines) + "\n"


def _inverse(links: Mapping[str, Iterable[str]]) -> dict[str, list[str]]:
    found: dict[str, list[str]] = {}
    for name, others in links.items():
        for other in others:
            found.setdefault(other, []).append(name)
    return found


def _frame(source: str, texts: Mapping[str, str]) -> str:
    file, _, line = source.rpartition(":")
    text = texts.get(source, "")
    return f'File "{file}", line {line}' + (f"\n    {text}" if text else "")
