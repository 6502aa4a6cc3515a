"""What all functions of an emitted module share: global names, helpers, constants and kernels."""

from __future__ import annotations

from collections.abc import Mapping

from py_wrapper.emit.helpers import Helper
from py_wrapper.emit.names import namer
from py_wrapper.native import short_overload
from py_wrapper.options import PyOptions
from wrapper_ir import runtime
from wrapper_ir.analyses import Analyses
from wrapper_ir.analysis.inputs import input_checks
from wrapper_ir.analysis.plain_functions import PLAIN_FUNCTIONS
from wrapper_ir.analysis.references import called_operators, launched_kernels
from wrapper_ir.artifact import Artifact
from wrapper_ir.expr import Expr, Int, evaluate
from wrapper_ir.layout import extent_bytes
from wrapper_ir.ops import (
    Op,
    RecordEvent,
    ResizeStorage,
    Return,
    SetStorage,
    View,
    ViewMode,
    WaitEvent,
)
from wrapper_ir.program import Constant, Function
from wrapper_ir.runtime.kernel_files import short_name
from wrapper_ir.schemas import parse_schema
from wrapper_ir.signature import TreeSpec
from wrapper_ir.structure import operands, results
from wrapper_ir.types import CPU, Device, StorageType, TensorType
from wrapper_ir.values import Value

__all__ = ["ModuleScope", "stream_device"]

_OWN = (
    "boxed",
    "forward",
    "example_inputs",
    "inputs",
    "parts",
    "mapped",
    "kernels",
    "run_script",
    "open_parts",
    "explain",
)
_KEPT = ("new_buffers", "spare")
_RUNTIME = (*runtime.__all__, "find_group")


class ModuleScope:
    """Names of everything global, and a record of what the functions turned out to need."""

    def __init__(self, artifact: Artifact, options: PyOptions, analyses: Analyses) -> None:
        self.program = program = artifact.program
        self.options = options
        self.checks = input_checks(program, artifact.signature, options.guarded)
        self.analyses = analyses
        self.names = namer((*_OWN, *_KEPT, *_RUNTIME, *(h.value for h in Helper)))
        self.helpers: dict[Helper, None] = {}
        self._defaults: dict[str, dict[str, str]] = {}
        self.runtime_names: dict[str, None] = {}
        self.containers: dict[TreeSpec, tuple[str, str]] = {}
        self.lookups: dict[str, str] = {}
        """Names of what is looked up once, when the module is loaded, by the text that does it."""
        self.function_names = {f.name: self.names(f.name) for f in program.functions}
        launched = analyses.get(launched_kernels)
        self.kernel_names = {
            k.name: self.names(short_name(k.name)) for k in program.kernels if k.name in launched
        }
        self._stream_names = self._name_streams()
        self.streams: dict[tuple[Device, int], str] = {}
        """Names of streams that are made when the module is loaded."""
        self.extern_globals: dict[str, str] = {}
        called = analyses.get(called_operators)
        self.extern_names = {e.name: self._extern_name(e.name) for e in program.externs if e.name in called}
        self.constant_names = {c.value: self.names(c.value.name) for c in program.constants}
        self.storages = self._storages()
        self.hoisted: dict[tuple[str, Value], str] = {}
        """Global names of views of constants, by function and value."""
        self.hoisted_views: dict[tuple[str, TensorType, Expr], tuple[str, View]] = {}
        for function in program.functions:
            self._hoist_views(function)

    def _storages(self) -> dict[str, tuple[str, int, Constant]]:
        """Bytes that constants share, by name: their global name, how many are needed, and one of the constants."""
        found: dict[str, tuple[str, int, Constant]] = {}
        for constant in self.program.constants:
            type = constant.value.type
            if not constant.storage or not isinstance(type, TensorType):
                continue
            end = constant.offset + int(evaluate(extent_bytes(type), {}))
            known = found.get(constant.storage)
            name, need, first = known or (self.names(f"bytes_of_{constant.storage}"), 0, constant)
            found[constant.storage] = (name, max(need, end), first)
        return found

    def reads_files(self) -> bool:
        """Whether calls read constants where they lie in a file."""
        return any(
            not c.mutable and isinstance(c.value.type, TensorType) and c.value.type.device.type == "cpu"
            for c in self.program.constants
        )

    def _extern_name(self, name: str) -> str:
        plain = PLAIN_FUNCTIONS.get(name)
        if plain is not None:
            return f"torch.{plain}"
        found = self.extern_globals[name] = self.names(short_overload(name))
        return found

    # --- views of constants, made once when the module is loaded

    def _hoist_views(self, function: Function) -> None:
        restless = {op.target for op in function.body if isinstance(op, ResizeStorage | SetStorage)}
        handed = self._handed_on(function)
        for op in function.body:
            type = op.result.type if isinstance(op, View) else None
            if not isinstance(op, View) or not isinstance(type, TensorType) or not _is_static(op, type):
                continue
            source = self.constant_names.get(op.source) or self.hoisted.get((function.name, op.source))
            if source is None or op.source in restless or op.result in restless or op.result in handed:
                continue
            key = (source, type, op.offset)
            if key not in self.hoisted_views:
                self.hoisted_views[key] = (self.names(op.result.name), op)
            self.hoisted[function.name, op.result] = self.hoisted_views[key][0]

    def _handed_on(self, function: Function) -> set[Value]:
        """Views that are returned, or that a result may be: what is done to such a tensor object must not be there in the
        next call."""
        views: set[Value] = set()
        found: set[Value] = set()
        for op in function.body:
            if isinstance(op, View):
                if op.source in self.constant_names or op.source in views:
                    views.add(op.result)
            elif isinstance(op, Return):
                found.update(v for v in op.values if isinstance(v, Value))
            elif views and not views.isdisjoint(operands(op)):
                effects = self.analyses.effects(op)
                found.update(source for _, source in (*effects.aliases, *effects.may_alias))
        return found

    def global_name(self, function: Function, value: Value) -> str | None:
        """The name of a constant, or of a view of one."""
        return self.constant_names.get(value) or self.hoisted.get((function.name, value))

    # --- what functions ask for

    def defaults(self, target: str) -> Mapping[str, str]:
        """The numbers that an operator takes where an argument is left out, as text, by argument."""
        known = self._defaults.get(target)
        if known is None:
            extern = self.analyses.externs.get(target)
            args = parse_schema(extern.schema).args if extern is not None else ()
            known = {a.name: a.default for a in args if a.default is not None and a.default[:1].isdigit()}
            self._defaults[target] = known
        return known

    def helper(self, helper: Helper) -> str:
        """The name of a helper, which the module then defines."""
        self.helpers[helper] = None
        return helper.value

    def stream(self, device: Device, number: int) -> str:
        """The name of a stream besides the current one, which the module then makes."""
        return self.streams.setdefault((device, number), self._stream_names[device, number])

    def _name_streams(self) -> dict[tuple[Device, int], str]:
        """Names for all of them before any function is written, so that no variable of a function hides one."""
        found: dict[tuple[Device, int], str] = {}
        for function in self.program.functions:
            for op in function.body:
                number: int = getattr(op, "stream", 0)  # ops that queue work have one
                if number and (key := (stream_device(op), number)) not in found:
                    found[key] = self.names(f"stream{number}")
        return found

    def runtime(self, name: str) -> str:
        """The name of a function of `wrapper_ir.runtime`, which the module then imports."""
        self.runtime_names[name] = None
        return name

    def container(self, spec: TreeSpec) -> tuple[str, str]:
        """Names of the functions that take apart and build a custom container."""
        key = TreeSpec(kind=spec.kind, type_name=spec.type_name, context=spec.context)
        if key not in self.containers:
            stem = spec.type_name.rpartition(":")[2].rpartition(".")[2]
            self.runtime("custom_container")
            self.containers[key] = (self.names(f"flatten_{stem}"), self.names(f"build_{stem}"))
        return self.containers[key]

    def lookup(self, wish: str, text: str) -> str:
        """The global name of what `text` makes."""
        if text not in self.lookups:
            self.lookups[text] = self.names(wish)
        return self.lookups[text]


def stream_device(op: Op) -> Device:
    """Where an op runs: with its tensors, as far as they are not on the host; events have a device."""
    if isinstance(op, RecordEvent | WaitEvent):
        return op.device
    values = (*results(op), *operands(op))
    devices = [v.type.device for v in values if isinstance(v.type, TensorType | StorageType)]
    return next((d for d in devices if d.type != CPU.type), CPU)


def _is_static(op: View, type: TensorType) -> bool:
    return op.mode is ViewMode.ALIAS and all(
        isinstance(e, Int) for e in (*type.sizes, *type.strides, op.offset)
    )
