"""Options of the backend, as typed by the user, checked and made into one frozen value."""

from __future__ import annotations

import os
import types
import typing
from collections.abc import Mapping, Set
from dataclasses import dataclass, field, fields, is_dataclass
from difflib import get_close_matches
from pathlib import Path
from typing import Any

from torch._inductor import config as inductor_config

from inductor_frontend.backend.inductor_options import (
    RECORDINGS,
    canonical_name,
    followed,
    inductor_settings,
    is_inductors,
    mode_options,
    tell_ignored,
    with_tuning,
)
from inductor_frontend.cache.keys import Choices
from inductor_frontend.cache.statistics import count
from inductor_frontend.errors import BackendError, CaptureError
from inductor_frontend.options import CaptureOptions
from inductor_frontend.settings import OnUnsupported, debug_level, on_unsupported, read_settings
from wrapper_ir.errors import PassError, PluginError
from wrapper_ir.plugins.protocols import Emitter, PersistentBufferEmitter, RecordingEmitter, TuningEmitter
from wrapper_ir.plugins.registry import emitter
from wrapper_ir_runtime.cache import Store, open_cache

# Any in this file: options as the user typed them, and the results of emitters.
_PRINTER = {
    "aot_inductor.debug_intermediate_value_printer": "debug_values",
    "aot_inductor.filtered_kernel_names": "debug_filter",
}
"""Options of Inductor -> options of the backend with their values and meaning."""
_OWN = (
    "cache",
    "emitter",
    "memory_report",
    "on_unsupported",
    "passes",
    "persistent_buffers",
    "planned_memory",
    "recordings",
    "tune",
)


@dataclass(frozen=True, slots=True, kw_only=True)
class BackendOptions:
    """Options of the backend, as given in `torch.compile(..., options={...})`; the rest are fields of `CaptureOptions`, and options of
    Inductor.

    `emitter`: the name of an installed emitter, or an emitter (one made with options of its own).
    `persistent_buffers`: whether calls hold the memory of intermediate results from one to the next, as the emitter's
    own option of that name does.
    `planned_memory`: whether intermediate results of a program for a GPU lie in one pool, which each call allocates once (the pass
    `plan-memory`); not where `passes`, `recordings` or `persistent_buffers` are given, which say themselves what memory is.
    `passes`: a pipeline of wrapper_ir passes in text form, run after lifetimes are derived.
    `recordings`: how many CUDA graphs are held for each stretch of a program that a GPU can record, one for each of its sizes
    (see `wrapper_ir_passes.devices.cuda_graphs.CudaGraphs`); 0 records none.
    `tune`: whether kernels are tuned at their first launches.
    `memory_report`: a folder for a page a graph, which shows what the graph holds and when (see `write_memory_report`).
    `cache`: False, True, or the root of the cache; what the environment says where it is None (see `settings`).
    `on_unsupported`: what a graph is for that cannot be captured, verified or emitted: an `error`, or Inductor's own code,
    with a warning (`inductor`); the environment's choice, which is `inductor` unless set (see `settings`).
    `inductor`: options of Inductor, by name, which hold while the function is compiled.
    """

    emitter: str | Emitter[Any] = "python"
    persistent_buffers: bool = False
    planned_memory: bool = True
    passes: str = ""
    recordings: int = 0
    tune: bool = False
    memory_report: Path | None = None
    cache: bool | str | None = None
    on_unsupported: OnUnsupported = "inductor"
    capture: CaptureOptions = field(default_factory=CaptureOptions)
    inductor: Mapping[str, object] = field(default_factory=dict)

    @staticmethod
    def parse(options: Mapping[str, Any] | None, mode: str | None = None) -> BackendOptions:
        """Options from torch.compile's dictionary, and those that its `mode` stands for; raises CaptureError FE103 for unknown
        names, modes and wrong values."""
        typed = _with_debug_values(_with_recordings(options or {}))
        given = {**mode_options(mode), **with_tuning(typed)}
        own_names = {f.name for f in fields(CaptureOptions)}.union(_OWN)
        theirs = inductor_settings(
            {n: given.pop(n) for n in list(given) if n not in own_names and is_inductors(n)}
        )
        _require_known(given, own_names)
        if given.get("packed_weights"):
            raise CaptureError(
                "FE103",
                "option 'packed_weights' is for `capture`: what is packed cannot be cached with a graph",
            )
        given = {**followed(), **given}
        own = {name: given.pop(name) for name in _OWN if name in given}
        with inductor_config.patch(theirs):  # what a capture takes over from the process
            capture = _made(CaptureOptions, given, "")
        tell_ignored(typed, mode, capture)
        return BackendOptions(
            emitter=_emitter(own.get("emitter", "python")),
            persistent_buffers=_flag("persistent_buffers", own.get("persistent_buffers", False)),
            planned_memory=_flag("planned_memory", own.get("planned_memory", True)),
            passes=_passes(own.get("passes", "")),
            recordings=_count("recordings", own.get("recordings", 0)),
            tune=_flag("tune", own.get("tune", False)),
            memory_report=_folder(own.get("memory_report")),
            cache=_cache(own.get("cache")),
            on_unsupported=_unsupported(own.get("on_unsupported")),
            capture=capture,
            inductor=theirs,
        )

    @property
    def emitter_name(self) -> str:
        """The emitter's name."""
        return self.emitter if isinstance(self.emitter, str) else self.emitter.name

    def find_emitter(self) -> Emitter[Any]:
        """The emitter; raises BackendError FE401 where none of this name is installed, or it does not load, and CaptureError
        FE103 where it cannot do what an option asks of it."""
        found = self.emitter if not isinstance(self.emitter, str) else _installed(self.emitter)
        if self.persistent_buffers:
            if not isinstance(found, PersistentBufferEmitter):
                raise _unable("persistent_buffers", found, "hold buffers from call to call")
            found = found.with_persistent_buffers()
        if self.recordings:
            if not isinstance(found, RecordingEmitter):
                raise _unable("recordings", found, "record CUDA graphs")
            found = found.with_recordings(self.recordings)
        if self.tune:
            if not isinstance(found, TuningEmitter):
                raise _unable("tune", found, "tune kernels at their first launches")
            found = found.with_tuning()
        return found

    @property
    def records(self) -> bool:
        """Whether programs for a GPU get functions that it can record."""
        return (self.recordings > 0 and self.capture.debug_pass is None) or "cuda-graphs" in self.passes

    @property
    def pipeline(self) -> str:
        """The passes for a program that a GPU runs: those of any program, after what makes functions to record; where there are
        none of either, a plan of its memory."""
        if not self.records and not self.host_pipeline:
            return "plan-memory" if self.planned_memory and not self.persistent_buffers else ""
        if not self.records or "cuda-graphs" in self.passes:
            return self.host_pipeline
        emitter = self.find_emitter()
        first = emitter.recording_passes if isinstance(emitter, RecordingEmitter) else "cuda-graphs"
        return ",".join(filter(None, (first, self.host_pipeline)))

    @property
    def host_pipeline(self) -> str:
        """The passes for any program: the user's, then what shows values."""
        shown = self.capture.debug_pass
        return ",".join(filter(None, (self.passes, "" if shown is None else shown.spec)))

    def choices(self) -> Choices:
        """What the user chose, as part of a cache key."""
        return Choices(
            capture=self.capture, passes=self.pipeline, emitter=self.emitter, emitter_name=self.emitter_name
        )

    def store(self) -> Store | None:
        """The cache to use; None where it is off."""
        settings = read_settings()
        on = settings.enabled if self.cache is None else self.cache is not False
        folders = settings.cache
        if isinstance(self.cache, str):
            folders = folders.with_root(Path(self.cache))
        return open_cache(folders).store("graphs", count) if on else None


def _with_recordings(options: Mapping[str, Any]) -> dict[str, Any]:
    """The options with the backend's own in place of Inductor's that asks for CUDA graphs."""
    given = dict(options)
    if "triton.cudagraphs" in given:
        found = RECORDINGS if _flag("triton.cudagraphs", given.pop("triton.cudagraphs")) else 0
        given.setdefault("recordings", found)
    return given


def _with_debug_values(options: Mapping[str, Any]) -> dict[str, Any]:
    """The options with the backend's own in place of Inductor's about its printer of values; a level by its word."""
    given = {_PRINTER.get(canonical_name(name), name): value for name, value in options.items()}
    if "debug_values" in given:
        given["debug_values"] = debug_level(given["debug_values"], "option 'debug_values'")
    return given


def _unable(option: str, emitter: Emitter[Any], what: str) -> CaptureError:
    return CaptureError(
        "FE103",
        f"option {option!r}: the emitter {emitter.name!r} cannot {what}",
        hint="leave the option out, or choose the emitter 'python' or 'fx'",
    )


def _installed(name: str) -> Emitter[Any]:
    try:
        return emitter(name)
    except PluginError as error:
        raise BackendError("FE401", f"no emitter {name!r}: {error}") from error


def _require_known(given: Mapping[str, Any], known: Set[str]) -> None:
    """Raises CaptureError FE103 for names that mean nothing."""
    unknown = sorted(str(name) for name in given if name not in known)
    if unknown:
        similar = [match for name in unknown for match in get_close_matches(name, known, n=1)]
        meant = f"did you mean {' and '.join(map(repr, similar))}? " if similar else ""
        raise CaptureError("FE103", f"unknown options {unknown}", hint=f"{meant}known: {sorted(known)}")


def _unsupported(value: Any) -> OnUnsupported:
    return (
        read_settings().on_unsupported if value is None else on_unsupported(value, "option 'on_unsupported'")
    )


def _flag(name: str, value: Any) -> bool:
    if isinstance(value, bool):
        return value
    raise CaptureError("FE103", f"option {name!r} is {value!r}", hint="True or False")


def _count(name: str, value: Any) -> int:
    if isinstance(value, int) and not isinstance(value, bool) and value >= 0:
        return value
    raise CaptureError("FE103", f"option {name!r} is {value!r}", hint="a number, 0 for none")


def _emitter(value: Any) -> str | Emitter[Any]:
    if isinstance(value, str):
        return value
    if callable(getattr(value, "compile", None)) and isinstance(getattr(value, "name", None), str):
        found: Emitter[Any] = value
        return found
    raise CaptureError(
        "FE103",
        f"option 'emitter' is {value!r}",
        hint="the name of an installed emitter, or an emitter (see wrapper_ir.plugins.protocols.Emitter)",
    )


def _passes(value: Any) -> str:
    """The pipeline in its canonical spelling."""
    if not isinstance(value, str):
        raise CaptureError("FE103", f"option 'passes' is {value!r}", hint="a pipeline in text form")
    if not value.strip():
        return ""
    # Imported here: passes are for those who ask for some.
    from wrapper_ir_passes import parse_pipeline, print_pipeline

    try:
        return print_pipeline(parse_pipeline(value))
    except PassError as error:
        raise CaptureError(
            "FE103", f"option 'passes' is {value!r}: {error.message}", hint=error.hint
        ) from error


def _cache(value: Any) -> bool | str | None:
    if value is None or isinstance(value, bool):
        return value
    if isinstance(value, str):
        return value or None
    if isinstance(value, os.PathLike):
        return str(os.fspath(value))
    raise CaptureError("FE103", f"option 'cache' is {value!r}", hint="True, False, or a folder")


def _folder(value: Any) -> Path | None:
    if value is None or isinstance(value, str | os.PathLike):
        return Path(value) if value else None
    raise CaptureError("FE103", f"option 'memory_report' is {value!r}", hint="a folder")


def _made(cls: type[Any], given: Mapping[str, Any], prefix: str) -> Any:
    """An options object from a dictionary, every value held against the type of its field."""
    kinds = typing.get_type_hints(cls)
    if unknown := sorted(str(name) for name in given if name not in kinds):
        raise CaptureError(
            "FE103", f"unknown options {unknown} in {prefix!r}", hint=f"known: {sorted(kinds)}"
        )
    values = {}
    for name, value in given.items():
        kind = kinds[name]
        if is_dataclass(kind) and isinstance(value, Mapping):
            value = _made(typing.cast(type, kind), value, f"{prefix}{name}.")  # a dataclass is a type
        if not _fits(value, kind):
            raise CaptureError(
                "FE103",
                f"option '{prefix}{name}' is {value!r}, not of type {getattr(kind, '__name__', kind)}",
            )
        values[name] = value
    return cls(**values)


def _fits(value: Any, kind: Any) -> bool:
    if isinstance(kind, types.UnionType):
        return any(_fits(value, one) for one in typing.get_args(kind))
    if typing.get_origin(kind) is typing.Literal:
        return value in typing.get_args(kind)
    plain = typing.get_origin(kind) or kind
    if plain is int and isinstance(value, bool):
        return False
    return isinstance(value, plain)
