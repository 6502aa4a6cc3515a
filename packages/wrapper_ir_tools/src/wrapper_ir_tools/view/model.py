"""The data model of a page about a program."""

from __future__ import annotations

import enum
from dataclasses import dataclass


class Role(enum.Enum):
    """The role of a value at an op."""

    DEFINES = "defines"
    READS = "reads"
    WRITES = "writes"
    READS_AND_WRITES = "reads and writes"
    ENDS = "ends"
    USES = "uses"
    """Refers to the value, or needs its layout, without access to its elements."""


@dataclass(frozen=True, slots=True)
class ValueUse:
    """A value at an op; `name` is its name in the text form, without `%`."""

    name: str
    role: Role


@dataclass(frozen=True, slots=True, kw_only=True)
class Row:
    """A line of a function's text and its ops, from `first` up to, but excluding, `stop`.

    `prov` is an index into `ProgramView.provenance`, -1 for none. `serves` has the source locations of the op
    that this one serves (it allocates, views, checks or frees that op's result), and `reason` describes the
    relation, or explains why there are none. `kernel` is the kernel or operator that runs, `args` its
    arguments as text; `grid` and `extents` are those of `Launch`. `calls` are functions.
    """

    text: str
    first: int = -1
    stop: int = -1
    op: str = ""
    prov: int = -1
    serves: tuple[str, ...] = ()
    reason: str = ""
    values: tuple[ValueUse, ...] = ()
    kernel: str = ""
    args: tuple[str, ...] = ()
    grid: tuple[str, ...] = ()
    extents: tuple[str, ...] = ()
    calls: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Edge:
    """Data that flows from one row to a later one through a value. `source` is -1 for a constant."""

    source: int
    target: int
    value: str


@dataclass(frozen=True, slots=True)
class Group:
    """Adjacent rows of one module, from `start` up to, but excluding, `stop`. Outer groups precede nested
    ones.
    """

    start: int
    stop: int
    name: str
    depth: int


@dataclass(frozen=True, slots=True, kw_only=True)
class StorageView:
    """A storage that a function holds from the op at `begin` up to, but excluding, `end`.

    See `HeldStorage`.
    """

    name: str
    kind: str
    bytes: int
    begin: int
    end: int
    address: int
    pool: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class MemoryView:
    """Bytes that a function holds during each op, the peak, and the storages."""

    held: tuple[int, ...]
    peak_op: int
    storages: tuple[StorageView, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class FunctionView:
    """A function: all lines of its text, their data flow and groups, and its memory if known."""

    name: str
    rows: tuple[Row, ...]
    edges: tuple[Edge, ...] = ()
    groups: tuple[Group, ...] = ()
    memory: MemoryView | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class KernelView:
    """A kernel: its declaration as text without source, its parameters, and its source."""

    name: str
    kind: str
    declaration: str
    params: tuple[str, ...]
    source: str = ""


@dataclass(frozen=True, slots=True)
class SourceSegment:
    """Adjacent lines of a file; `first` is the number of the first one, from 1."""

    first: int
    lines: tuple[str, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class SourceFile:
    """A source file of ops, under the program's name for it: its lines near those ops, or why it has none.

    `recorded` has the lines whose text was saved at capture, by number. `changed` lists those that differ in
    the file now.
    """

    name: str
    path: str = ""
    segments: tuple[SourceSegment, ...] = ()
    missing: str = ""
    recorded: tuple[tuple[int, str], ...] = ()
    changed: tuple[int, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class OpTime:
    """The time of one op in a run: seconds per run, and other facts of the profile as text by name."""

    function: str
    op: int
    seconds: float
    facts: tuple[tuple[str, str], ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class SavedValue:
    """A value that a run saved: the kernel of the launch, the argument, and a summary.

    Without a kernel it is an argument or a result of the program, as `phase` says (`inputs`, `outputs`). `op`
    is -1 if the file does not name the launch.
    """

    file: str
    kernel: str
    value: str
    summary: str
    phase: str = ""
    function: str = ""
    op: int = -1


@dataclass(frozen=True, slots=True, kw_only=True)
class ProgramView:
    """A program with all data of its page."""

    title: str
    facts: tuple[tuple[str, str], ...]
    declarations: str
    functions: tuple[FunctionView, ...]
    kernels: tuple[KernelView, ...] = ()
    operators: tuple[tuple[str, str], ...] = ()
    """Declared operators: name, and declaration."""
    constants: tuple[tuple[str, str], ...] = ()
    """Constants: name of the value, and declaration."""
    provenance: tuple[dict[str, object], ...] = ()
    """Distinct provenances: the non-empty fields of `Provenance`."""
    sources: tuple[SourceFile, ...] = ()
    times: tuple[OpTime, ...] = ()
    values: tuple[SavedValue, ...] = ()
    notes: tuple[str, ...] = ()
    """Parts that the page lacks, and why."""
