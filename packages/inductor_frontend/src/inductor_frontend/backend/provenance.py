"""Links between graphs and code in the form in which Inductor traces them, for tlparse's provenance view.

The view shows Dynamo's graph, the graph after Inductor's passes, and emitted code. It links nodes by name. It
finds a line of code by the name `kernel:number` in a comment before it, and by the part before the colon in
the line itself.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass

from wrapper_ir_tools.explain import ExplainedFile, ExplainedOp, Explanation

_VERSION = 2.0
"""The version of the format."""
_MAIN = "program."
"""The prefix of the name of the file that contains a program's main function."""
_CALLED = re.compile(r"([A-Za-z_]\w*)\(")
_START = "# AOT ID:"
"""Marks the line that the view counts as the first."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Provenance:
    """The provenance of one graph.

    `code`: the emitted code, with the names of launches and calls in comments at the ends of lines, so that
    line numbers stay the same; "" if the emitter does not report the op of each line. `mappings` and `stacks`
    are JSON.
    """

    code: str
    mappings: str
    stacks: str


def provenance_of(
    explanation: Explanation, dynamo_nodes: Mapping[str, Iterable[str]], graph: str
) -> Provenance:
    """Returns the links of the graph with the name `graph`.

    `dynamo_nodes` maps each node after Inductor's passes to its origins in Dynamo's graph.
    """
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
    """Yields for each launch and operator call the number of its line, its name in the view, and the op."""
    width = len(str(len(ops)))  # so that no name is a prefix of another
    labelled: set[int] = set()
    for line in file.lines:
        op = None if line.op is None else ops[line.op]
        if (
            op is None
            or op.index in labelled
            or not op.nodes
            or not (op.kernel or op.extern)
            or line.number == 1
        ):
            continue
        callee = _CALLED.search(line.text)
        if callee is not None:
            labelled.add(op.index)
            yield line.number, (f"{callee[1]}:{op.index:0{width}}", op)


def _computed(op: ExplainedOp) -> tuple[str, ...]:
    """Returns the nodes that an op computes.

    An operator call computes its first node; the others belong to its operands, such as views.
    """
    return op.nodes if op.kernel else op.nodes[:1]


def _commented(file: ExplainedFile, names: Mapping[int, tuple[str, ExplainedOp]], start: str) -> str:
    mark = "//" if file.name.endswith(".cpp") else "#"
    comments = {number - 1: f"{mark} {name}" for number, (name, _) in names.items()}
    comments[1] = " ".join(filter(None, (start if mark == "#" else f"{mark} {start}", comments.get(1))))
    lines = (f"{line.text}  {comments.get(line.number, '')}".rstrip() for line in file.lines)
    return "\n".join(lines) + "\n"


def _inverse(links: Mapping[str, Iterable[str]]) -> dict[str, list[str]]:
    inverse: dict[str, list[str]] = {}
    for name, others in links.items():
        for other in others:
            inverse.setdefault(other, []).append(name)
    return inverse


def _frame(source: str, texts: Mapping[str, str]) -> str:
    file, _, line = source.rpartition(":")
    text = texts.get(source, "")
    return f'File "{file}", line {line}' + (f"\n    {text}" if text else "")
