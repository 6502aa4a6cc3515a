"""Look-up tables over one program, built once and shared by all analyses."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

from wrapper_ir.errors import SchemaError
from wrapper_ir.kernels import KernelDef
from wrapper_ir.program import Constant, Function, Program, SymbolDef
from wrapper_ir.schemas import ExternDef, OpSchema, SchemaArg, parse_schema
from wrapper_ir.values import Value

__all__ = ["ExternInfo", "FunctionSummary", "KernelAccess", "ProgramIndex", "ResultOrigin"]


@dataclass(frozen=True, slots=True)
class ResultOrigin:
    """Where the storage of one returned value comes from, as its caller sees it.

    `params` are positions of parameters (owned ones not among them: what was moved in comes back as the
    caller's), `constants` constants, `own` storages that the function hands over. `certain`: it is exactly one.
    """

    params: tuple[int, ...] = ()
    constants: tuple[Value, ...] = ()
    own: tuple[Value, ...] = ()
    certain: bool = True


@dataclass(frozen=True, slots=True)
class FunctionSummary:
    """What a call of a function may do: read and write these parameters (by position) and constants, effects
    beyond memory (names of `EffectClass` members), and the origin of each returned tensor (None for others)."""

    read_params: frozenset[int] = frozenset()
    written_params: frozenset[int] = frozenset()
    read_constants: tuple[Value, ...] = ()
    written_constants: tuple[Value, ...] = ()
    classes: tuple[str, ...] = ()
    results: tuple[ResultOrigin | None, ...] = ()


@dataclass(frozen=True, slots=True)
class KernelAccess:
    """Positions of a kernel's parameters that are read and written."""

    reads: tuple[int, ...]
    writes: tuple[int, ...]


@dataclass(frozen=True, slots=True)
class ExternInfo:
    """A declared operator with its schema parsed, and what calls ask of it again and again."""

    extern: ExternDef
    schema: OpSchema
    named: dict[str, SchemaArg]
    positional: int
    """How many arguments may be given by position."""
    required: tuple[str, ...]
    """Names of arguments without default."""
    outs: frozenset[str]
    """Names of keyword-only arguments that are written."""

    @staticmethod
    def of(extern: ExternDef) -> ExternInfo:
        """Parses the schema; raises SchemaError."""
        schema = parse_schema(extern.schema)
        return ExternInfo(
            extern=extern,
            schema=schema,
            named={a.name: a for a in schema.args},
            positional=sum(not a.keyword_only for a in schema.args),
            required=tuple(a.name for a in schema.args if a.default is None),
            outs=frozenset(a.name for a in schema.args if a.keyword_only and a.written),
        )


@dataclass(frozen=True)
class ProgramIndex:
    """Tables by name. With duplicate names the first definition wins; the verifier reports the second."""

    program: Program

    @cached_property
    def kernels(self) -> dict[str, KernelDef]:
        """Kernel definitions by name."""
        return {k.name: k for k in reversed(self.program.kernels)}

    @cached_property
    def kernel_access(self) -> dict[str, KernelAccess]:
        """Which parameters each kernel reads and writes."""
        return {
            name: KernelAccess(
                tuple(i for i, p in enumerate(k.params) if p.access.reads),
                tuple(i for i, p in enumerate(k.params) if p.access.writes),
            )
            for name, k in self.kernels.items()
        }

    @cached_property
    def externs(self) -> dict[str, ExternDef]:
        """Declared operators by name; those whose schema has no name are left out."""
        return {e.name: e for e in reversed(self.program.externs) if "(" in e.schema}

    @cached_property
    def extern_info(self) -> dict[str, ExternInfo]:
        """Declared operators with parsed schemas; those that cannot be parsed are left out."""
        found = {}
        for name, extern in self.externs.items():
            try:
                found[name] = ExternInfo.of(extern)
            except SchemaError:
                continue
        return found

    @cached_property
    def functions(self) -> dict[str, Function]:
        """Functions by name."""
        return {f.name: f for f in reversed(self.program.functions)}

    @cached_property
    def constants(self) -> dict[str, Constant]:
        """Constants by value name."""
        return {c.value.name: c for c in reversed(self.program.constants)}

    @cached_property
    def summaries(self) -> dict[str, FunctionSummary]:
        """Memo of function summaries; filled by `wrapper_ir.effects`."""
        return {}

    @cached_property
    def symbols(self) -> dict[str, SymbolDef]:
        """Declared symbols by name."""
        return {s.name: s for s in reversed(self.program.symbols)}
