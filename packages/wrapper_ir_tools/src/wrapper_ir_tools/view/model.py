"""What a page about a program shows, as data."""

from __future__ import annotations

import enum
from dataclasses import dataclass


class Role(enum.Enum):
    """What an op does with a value."""

    DEFINES = "defines"
    READS = "reads"
    WRITES = "writes"
    READS_AND_WRITES = "reads and writes"
    ENDS = "ends"
    USES = "uses"
    """Names it, or needs its layout, and does not touch its elements."""


@dataclass(frozen=True, slots=True)
class ValueUse:
    """A value at an op; `name` as the text form writes it, without `%`."""

    name: str
    role: Role


@dataclass(frozen=True, slots=True, kw_only=True)
class Row:
    """A line of a function's text, and what is known of its ops: those from `first` up to before `stop`.

    `prov` is an index into `ProgramView.provenance`, -1 for none. `serves` are the places of the op that this one serves (it
    allocates, views, checks or frees what that one computes), and `reason` says how; or `reason` says why there are none. `kernel` is the kernel or operator that runs, `args` its
    arguments as text; `grid` and `extents` as in `Launch`. `calls` are functions.
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
    """Neighbouring rows of one module, from `start` up to before `stop`; groups nest, and stand before what is in them."""

    start: int
    stop: int
    name: str
    depth: int


@dataclass(frozen=True, slots=True, kw_only=True)
class StorageView:
    """A storage that a function holds from the op at `begin` up to before the one at `end`, as `HeldStorage`."""

    name: str
    kind: str
    bytes: int
    begin: int
    end: int
    address: int
    pool: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class MemoryView:
    """Bytes that a function holds while each op runs, the worst op, and what they are."""

    held: tuple[int, ...]
    peak_op: int
    storages: tuple[StorageView, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class FunctionView:
    """A function: all lines of its text, what flows between them, how they fold; its memory where that is known."""

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
    """Neighbouring lines of a file; `first` is the number of the first one, from 1."""

    first: int
    lines: tuple[str, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class SourceFile:
    """A file that ops come from, under the name that the program has for it: its lines near those places, or why there are
    none.

    `recorded` are the lines whose text was kept when the program was captured, by number; `changed` those of them which the
    file has otherwise now.
    """

    name: str
    path: str = ""
    segments: tuple[SourceSegment, ...] = ()
    missing: str = ""
    recorded: tuple[tuple[int, str], ...] = ()
    changed: tuple[int, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class OpTime:
    """The time of one op in a run: seconds a run, and what else the profile says of it, as text by name."""

    function: str
    op: int
    seconds: float
    facts: tuple[tuple[str, str], ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class SavedValue:
    """A value that a run saved: of which kernel's launch, which argument, and what it is in words. Without a kernel it is an
    argument or a result of the program, as `phase` says (`inputs`, `outputs`). `op` is -1 where the file does not say of which
    launch."""

    file: str
    kernel: str
    value: str
    summary: str
    phase: str = ""
    function: str = ""
    op: int = -1


@dataclass(frozen=True, slots=True, kw_only=True)
class ProgramView:
    """A program with all that a page says about it."""

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
    """Distinct provenances: the fields of `Provenance` that are not empty."""
    sources: tuple[SourceFile, ...] = ()
    times: tuple[OpTime, ...] = ()
    values: tuple[SavedValue, ...] = ()
    notes: tuple[str, ...] = ()
    """What the page lacks, and why."""
