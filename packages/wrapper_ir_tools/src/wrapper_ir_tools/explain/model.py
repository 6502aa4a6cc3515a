"""The data model of an explanation: source lines, FX nodes, ops, kernels and emitted lines, linked to each
other.
"""

from __future__ import annotations

import enum
from collections.abc import Mapping
from dataclasses import dataclass, field

from wrapper_ir.artifact.choices import Choice


class Lead(enum.Enum):
    """The relation of an op to its source lines."""

    OWN = "own"
    """The frontend recorded them for this op."""
    VALUE = "value"
    """The op serves another one (allocates, views, checks or frees its result) and has its lines."""
    FORWARD = "forward"
    """The op handles a tensor that a forward graph saved, and has the lines that computed it."""
    NONE = "none"
    """No source line is known; `reason` says why."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ExplainedOp:
    """An op of the program.

    `index` counts all ops, function by function; `position` is relative to the function's body. `sources` are
    `file:line` texts, `nodes` FX nodes, `operators` source operators, `modules` paths of the model's modules.
    `lead` is the relation to `sources`, and `reason` describes it in words unless they are the op's own.
    """

    index: int
    function: str
    position: int
    kind: str
    text: str
    results: tuple[str, ...] = ()
    kernel: str = ""
    extern: str = ""
    """The operator that the op calls."""
    nodes: tuple[str, ...] = ()
    operators: tuple[str, ...] = ()
    modules: tuple[str, ...] = ()
    sources: tuple[str, ...] = ()
    lead: Lead = Lead.NONE
    reason: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class ExplainedKernel:
    """A kernel, the indices of the ops that launch it, and their source lines.

    `source` is its text, `language` its language (`cpp`, `triton`); both are empty for an operator.
    """

    name: str
    kind: str
    ops: tuple[int, ...]
    sources: tuple[str, ...]
    nodes: tuple[str, ...]
    source: str = ""
    language: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class ExplainedLine:
    """A line of emitted text, numbered from 1.

    `op` is the index of the op that it implements, if any; `kernel` the kernel that it loads or launches.
    `reason` is the purpose of the line if no source line is known. A blank line or a comment has neither.
    """

    number: int
    text: str
    op: int | None = None
    kernel: str = ""
    sources: tuple[str, ...] = ()
    reason: str = ""
    is_code: bool = True


@dataclass(frozen=True, slots=True, kw_only=True)
class ExplainedFile:
    """A file that an emitter writes."""

    emitter: str
    name: str
    lines: tuple[ExplainedLine, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class InPlace:
    """The reasons why the tensor that an op fills was not written over an argument, one for each candidate.

    `reused` names the argument whose memory it took over, if any.
    """

    op: int
    result: str
    reused: str = ""
    reasons: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class Split:
    """The reason why a graph was split.

    `what` is `cuda graph` or `Dynamo graph`, `ops` are the ops outside, `sources` their lines.
    """

    what: str
    why: str
    ops: tuple[int, ...] = ()
    sources: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class Explanation:
    """A whole program, explained.

    `source_texts` has the text of source lines that the artifact contains. `lacks` lists in words what could
    not be explained, and why.
    """

    name: str
    ops: tuple[ExplainedOp, ...]
    kernels: tuple[ExplainedKernel, ...]
    files: tuple[ExplainedFile, ...] = ()
    choices: tuple[Choice, ...] = ()
    in_place: tuple[InPlace, ...] = ()
    splits: tuple[Split, ...] = ()
    source_texts: Mapping[str, str] = field(default_factory=dict)
    lacks: tuple[str, ...] = ()
