"""Options of the backend: checks the user's dictionary and converts it to a frozen dataclass."""

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
    CUDA_GRAPHS,
    canonical_name,
    followed,
    inductor_settings,
    is_inductors,
    mode_options,
    report_ignored,
    with_tuning,
)
from inductor_frontend.cache.keys import Choices
from inductor_frontend.cache.statistics import count
from inductor_frontend.errors import BackendError, CaptureError
from inductor_frontend.options import CaptureOptions
from inductor_frontend.settings import OnUnsupported, debug_level, on_unsupported, read_settings
from wrapper_ir.errors import PassError, PluginError
from wrapper_ir.plugins.protocols import CudaGraphEmitter, Emitter, PersistentBufferEmitter, TuningEmitter
from wrapper_ir.plugins.registry import emitter
from wrapper_ir_runtime.cache import Store, open_cache

# Any in this file: the type of an options field, and objects of that type.
_PRINTER = {
    "aot_inductor.debug_intermediate_value_printer": "debug_values",
    "aot_inductor.filtered_kernel_names": "debug_filter",
}
"""Options of Inductor -> options of the backend with the same values and meaning."""
_OWN = (
    "cache",
    "emitter",
    "memory_report",
    "on_unsupported",
    "passes",
    "persistent_buffers",
    "planned_memory",
    "cuda_graphs",
    "tune",
)


@dataclass(frozen=True, slots=True, kw_only=True)
class BackendOptions:
    """Options of the backend, as in `torch.compile(..., options={...})`.

    Other names in the dictionary are fields of `CaptureOptions` and options of Inductor.

    `emitter`: the name of an installed emitter, or an emitter, such as one created with options.
    `persistent_buffers`: whether calls reuse the memory of intermediate results, as the emitter's option of
    that name.
    `planned_memory`: whether intermediate results of a program for a GPU share one pool, which each call
    allocates once (the pass `plan-memory`). Ignored with `passes`, `cuda_graphs` or `persistent_buffers`,
    which manage memory themselves.
    `passes`: a pipeline of wrapper_ir passes in text form, run after lifetimes are derived.
    `cuda_graphs`: the number of CUDA graphs for each replayable section of a program, one for each of its
    sizes (see `wrapper_ir_passes.devices.cuda_graphs.CudaGraphs`); 0 captures none.
    `tune`: whether kernels are tuned at their first launches.
    `memory_report`: a folder that receives a page for each graph, with its memory over time (see
    `write_memory_report`).
    `cache`: False, True, or the root folder of the cache. None: the environment's setting (see `settings`).
    `on_unsupported`: the action for a graph that cannot be captured, verified or emitted: `error`, or
    `inductor`, which warns and runs Inductor's code. The default is the environment's setting, or `inductor`
    (see `settings`).
    `inductor`: options of Inductor, by name, that are set while the function is compiled.
    """

    emitter: str | Emitter[object] = "python"
    persistent_buffers: bool = False
    planned_memory: bool = True
    passes: str = ""
    cuda_graphs: int = 0
    tune: bool = False
    memory_report: Path | None = None
    cache: bool | str | None = None
    on_unsupported: OnUnsupported = "inductor"
    capture: CaptureOptions = field(default_factory=CaptureOptions)
    inductor: Mapping[str, object] = field(default_factory=dict)

    @staticmethod
    def parse(options: Mapping[str, object] | None, mode: str | None = None) -> BackendOptions:
        """Parses torch.compile's dictionary and the options of its `mode`.

        Raises CaptureError FE103 for unknown names and modes, and for wrong values.
        """
        typed = _with_debug_values(_with_cuda_graphs(options or {}))
        values = {**mode_options(mode), **with_tuning(typed)}
        own_names = {f.name for f in fields(CaptureOptions)}.union(_OWN)
        inductors = inductor_settings(
            {n: values.pop(n) for n in list(values) if n not in own_names and is_inductors(n)}
        )
        _require_known(values, own_names)
        if values.get("packed_weights"):
            raise CaptureError(
                "FE103",
                "option 'packed_weights' is for `capture`: packed weights cannot be cached with a graph",
            )
        values = {**followed(), **values}
        own = {name: values.pop(name) for name in _OWN if name in values}
        with inductor_config.patch(inductors):  # defaults of CaptureOptions read Inductor's configuration
            capture = _dataclass_of(CaptureOptions, values, "")
        report_ignored(typed, mode, capture)
        return BackendOptions(
            emitter=_emitter(own.get("emitter", "python")),
            persistent_buffers=_flag("persistent_buffers", own.get("persistent_buffers", False)),
            planned_memory=_flag("planned_memory", own.get("planned_memory", True)),
            passes=_passes(own.get("passes", "")),
            cuda_graphs=_count("cuda_graphs", own.get("cuda_graphs", 0)),
            tune=_flag("tune", own.get("tune", False)),
            memory_report=_folder(own.get("memory_report")),
            cache=_cache(own.get("cache")),
            on_unsupported=_unsupported(own.get("on_unsupported")),
            capture=capture,
            inductor=inductors,
        )

    @property
    def emitter_name(self) -> str:
        """The name of the emitter."""
        return self.emitter if isinstance(self.emitter, str) else self.emitter.name

    def find_emitter(self) -> Emitter[object]:
        """Returns the emitter, configured by the options.

        Raises BackendError FE401 if no emitter of this name is installed or it does not load, and
        CaptureError FE103 if it does not support an option.
        """
        emitter = self.emitter if not isinstance(self.emitter, str) else _installed(self.emitter)
        if self.persistent_buffers:
            if not isinstance(emitter, PersistentBufferEmitter):
                raise _unable("persistent_buffers", emitter, "reuse buffers across calls")
            emitter = emitter.with_persistent_buffers()
        if self.cuda_graphs:
            if not isinstance(emitter, CudaGraphEmitter):
                raise _unable("cuda_graphs", emitter, "capture CUDA graphs")
            emitter = emitter.with_cuda_graphs(self.cuda_graphs)
        if self.tune:
            if not isinstance(emitter, TuningEmitter):
                raise _unable("tune", emitter, "tune kernels at their first launches")
            emitter = emitter.with_tuning()
        return emitter

    @property
    def uses_cuda_graphs(self) -> bool:
        """True if programs for a GPU are split into functions that CUDA graphs capture."""
        return (self.cuda_graphs > 0 and self.capture.debug_pass is None) or "cuda-graphs" in self.passes

    @property
    def pipeline(self) -> str:
        """The passes for a GPU program: passes that create replayable functions, then `host_pipeline`.

        If both are empty, a plan of its memory.
        """
        if not self.uses_cuda_graphs and not self.host_pipeline:
            return "plan-memory" if self.planned_memory and not self.persistent_buffers else ""
        if not self.uses_cuda_graphs or "cuda-graphs" in self.passes:
            return self.host_pipeline
        emitter = self.find_emitter()
        first = emitter.cuda_graph_passes if isinstance(emitter, CudaGraphEmitter) else "cuda-graphs"
        return ",".join(filter(None, (first, self.host_pipeline)))

    @property
    def host_pipeline(self) -> str:
        """The passes for any program: the user's, then the pass that prints values."""
        debug_pass = self.capture.debug_pass
        return ",".join(filter(None, (self.passes, "" if debug_pass is None else debug_pass.spec)))

    def choices(self) -> Choices:
        """Returns the options that are part of a cache key."""
        return Choices(
            capture=self.capture, passes=self.pipeline, emitter=self.emitter, emitter_name=self.emitter_name
        )

    def store(self) -> Store | None:
        """Opens the cache; None if it is disabled."""
        settings = read_settings()
        on = settings.enabled if self.cache is None else self.cache is not False
        folders = settings.cache
        if isinstance(self.cache, str):
            folders = folders.with_root(Path(self.cache))
        return open_cache(folders).store("graphs", count) if on else None


def _with_cuda_graphs(options: Mapping[str, object]) -> dict[str, object]:
    """Replaces Inductor's option for CUDA graphs by the backend's `cuda_graphs`."""
    result = dict(options)
    if "triton.cudagraphs" in result:
        enabled = _flag("triton.cudagraphs", result.pop("triton.cudagraphs"))
        result.setdefault("cuda_graphs", CUDA_GRAPHS if enabled else 0)
    return result


def _with_debug_values(options: Mapping[str, object]) -> dict[str, object]:
    """Replaces Inductor's options for printing values by the backend's, and numeric levels by their names."""
    result = {_PRINTER.get(canonical_name(name), name): value for name, value in options.items()}
    if "debug_values" in result:
        result["debug_values"] = debug_level(result["debug_values"], "option 'debug_values'")
    return result


def _unable(option: str, emitter: Emitter[object], what: str) -> CaptureError:
    return CaptureError(
        "FE103",
        f"option {option!r}: the emitter {emitter.name!r} cannot {what}",
        hint="leave the option out, or choose the emitter 'python' or 'fx'",
    )


def _installed(name: str) -> Emitter[object]:
    try:
        return emitter(name)
    except PluginError as error:
        raise BackendError("FE401", f"no emitter {name!r}: {error}") from error


def _require_known(options: Mapping[str, object], names: Set[str]) -> None:
    """Raises CaptureError FE103 for options whose name is not in `names`."""
    unknown = sorted(str(name) for name in options if name not in names)
    if unknown:
        similar = [match for name in unknown for match in get_close_matches(name, names, n=1)]
        suggestion = f"did you mean {' and '.join(map(repr, similar))}? " if similar else ""
        raise CaptureError("FE103", f"unknown options {unknown}", hint=f"{suggestion}known: {sorted(names)}")


def _unsupported(value: object) -> OnUnsupported:
    return (
        read_settings().on_unsupported if value is None else on_unsupported(value, "option 'on_unsupported'")
    )


def _flag(name: str, value: object) -> bool:
    if isinstance(value, bool):
        return value
    raise CaptureError("FE103", f"option {name!r} is {value!r}", hint="True or False")


def _count(name: str, value: object) -> int:
    if isinstance(value, int) and not isinstance(value, bool) and value >= 0:
        return value
    raise CaptureError("FE103", f"option {name!r} is {value!r}", hint="a number, 0 for none")


def _emitter(value: Any) -> str | Emitter[object]:
    if isinstance(value, str):
        return value
    if callable(getattr(value, "compile", None)) and isinstance(getattr(value, "name", None), str):
        instance: Emitter[object] = value
        return instance
    raise CaptureError(
        "FE103",
        f"option 'emitter' is {value!r}",
        hint="the name of an installed emitter, or an emitter (see wrapper_ir.plugins.protocols.Emitter)",
    )


def _passes(value: object) -> str:
    """Returns the pipeline in canonical text form."""
    if not isinstance(value, str):
        raise CaptureError("FE103", f"option 'passes' is {value!r}", hint="a pipeline in text form")
    if not value.strip():
        return ""
    # Imported here: most compilations name no passes.
    from wrapper_ir_passes import parse_pipeline, print_pipeline

    try:
        return print_pipeline(parse_pipeline(value))
    except PassError as error:
        raise CaptureError(
            "FE103", f"option 'passes' is {value!r}: {error.message}", hint=error.hint
        ) from error


def _cache(value: object) -> bool | str | None:
    match value:
        case None | bool():
            return value
        case str():
            return value or None
        case os.PathLike():
            return str(os.fspath(value))
        case _:
            raise CaptureError("FE103", f"option 'cache' is {value!r}", hint="True, False, or a folder")


def _folder(value: object) -> Path | None:
    if value is None or isinstance(value, str | os.PathLike):
        return Path(value) if value else None
    raise CaptureError("FE103", f"option 'memory_report' is {value!r}", hint="a folder")


def _dataclass_of(cls: type[object], options: Mapping[str, object], prefix: str) -> Any:
    """Creates an options dataclass from a dictionary; checks every value against the type of its field."""
    kinds = typing.get_type_hints(cls)
    if unknown := sorted(str(name) for name in options if name not in kinds):
        raise CaptureError(
            "FE103", f"unknown options {unknown} in {prefix!r}", hint=f"known: {sorted(kinds)}"
        )
    values = {}
    for name, value in options.items():
        kind = kinds[name]
        if is_dataclass(kind) and isinstance(value, Mapping):
            value = _dataclass_of(typing.cast(type, kind), value, f"{prefix}{name}.")  # a dataclass is a type
        if not _fits(value, kind):
            raise CaptureError(
                "FE103",
                f"option '{prefix}{name}' is {value!r}, not of type {getattr(kind, '__name__', kind)}",
            )
        values[name] = value
    return cls(**values)


def _fits(value: object, kind: Any) -> bool:
    if isinstance(kind, types.UnionType):
        return any(_fits(value, one) for one in typing.get_args(kind))
    if typing.get_origin(kind) is typing.Literal:
        return value in typing.get_args(kind)
    plain = typing.get_origin(kind) or kind
    if plain is int and isinstance(value, bool):
        return False
    return isinstance(value, plain)
