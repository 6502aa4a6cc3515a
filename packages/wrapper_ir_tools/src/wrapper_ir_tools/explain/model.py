"""A program explained, as data: source line, FX node, op, kernel and emitted line, each with links to the others."""

from __future__ import annotations

import enum
from collections.abc import Mapping
from dataclasses import dataclass, field

from wrapper_ir.artifact.choices import Choice


class Lead(enum.Enum):
    """How an op leads to source lines."""

    OWN = "own"
    """The frontend recorded them for this op."""
    VALUE = "value"
    """The op serves another one (it allocates, views, checks or frees what that op computes), and has its lines."""
    FORWARD = "forward"
    """The op handles a tensor that a forward graph saved, and has the lines that computed it."""
    NONE = "none"
    """Nothing leads there; `reason` says why."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ExplainedOp:
    """An op of the program. `index` counts all ops, function by function; `position` is that in the body of its function.

    `sources` are `file:line` texts, `nodes` the FX nodes, `operators` the source operators, `modules` the paths of the model's
    modules. `lead` says how the op comes by `sources`, and `reason` puts that into words where they are not its own.
    """

    index: int
    function: str
    position: int
    kind: str
    text: str
    results: tuple[str, ...] = ()
    kernel: str = ""
    extern: str = ""
    """The operator that it calls."""
    nodes: tuple[str, ...] = ()
    operators: tuple[str, ...] = ()
    modules: tuple[str, ...] = ()
    sources: tuple[str, ...] = ()
    lead: Lead = Lead.NONE
    reason: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class ExplainedKernel:
    """A kernel, the ops (by index) that launch it, and the source lines of these. `source` is its text, `language` what that is
    written in (`cpp`, `triton`); both are empty for an operator."""

    name: str
    kind: str
    ops: tuple[int, ...]
    sources: tuple[str, ...]
    nodes: tuple[str, ...]
    source: str = ""
    language: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class ExplainedLine:
    """A line of emitted text, counted from 1. `op` is the index of the op that it is written for, if it is for one, `kernel` the
    kernel that it loads or launches. `reason` says what the line is for where no source line is known. A blank line or a
    comment has neither."""

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
    """Why the tensor that an op fills has memory of its own: for each argument that it might have been written over, the reason
    against it. `reused` names the argument whose memory it has, where it has one's."""

    op: int
    result: str
    reused: str = ""
    reasons: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class Split:
    """Why something that could have been one graph is several: `what` is `cuda graph` or `Dynamo graph`, `ops` are the ops kept
    out, `sources` the lines."""

    what: str
    why: str
    ops: tuple[int, ...] = ()
    sources: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class Explanation:
    """All of a program. `source_texts` has the text of source lines, as far as the artifact has it. `lacks` says in words what
    could not be told here, and why."""

    name: str
    ops: tuple[ExplainedOp, ...]
    kernels: tuple[ExplainedKernel, ...]
    files: tuple[ExplainedFile, ...] = ()
    choices: tuple[Choice, ...] = ()
    in_place: tuple[InPlace, ...] = ()
    splits: tuple[Split, ...] = ()
    source_texts: Mapping[str, str] = field(default_factory=dict)
    lacks: tuple[str, ...] = ()
