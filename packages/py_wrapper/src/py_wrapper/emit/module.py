"""State that all functions of an emitted module share: global names, helpers, constants and kernels."""

from __future__ import annotations

from collections import Counter
from collections.abc import Container

import wrapper_ir_runtime as runtime
from py_wrapper.emit.helpers import Helper
from py_wrapper.emit.names import namer
from py_wrapper.native import is_imported, short_overload
from py_wrapper.options import PyOptions
from wrapper_ir import ir
from wrapper_ir.analysis.plain_functions import PLAIN_FUNCTIONS
from wrapper_ir.plugins.emitted import OpOrigins
from wrapper_ir_lowering import FunctionPlan, Plan
from wrapper_ir_runtime.kernel_files import short_name

_OWN = (
    "boxed",
    "forward",
    "example_inputs",
    "inputs",
    "storages",
    "parts",
    "mapped",
    "kernels",
    "run_script",
    "open_parts",
    "explain",
)
_PERSISTENT = ("new_buffers", "buffer_pool")
_RUNTIME = (*runtime.__all__, "find_group")


class ModuleScope:
    """Global names of a module, and the helpers that its functions use."""

    def __init__(self, plan: Plan, options: PyOptions, origins: OpOrigins) -> None:
        self.plan = plan
        self.origins = origins
        """Origins of the plan's ops in the program that was lowered."""
        self.program = program = plan.program
        self.options = options
        self.names = namer((*_OWN, *_PERSISTENT, *_RUNTIME, *(h.value for h in Helper)))
        self.helpers: dict[Helper, None] = {}
        self.runtime_names: dict[str, None] = {}
        self.containers: dict[ir.TreeSpec, tuple[str, str]] = {}
        self.lookups: dict[str, str] = {}
        """Names of objects that are looked up when the module is loaded, by the text of the look-up."""
        self.function_names = {f.name: self.names(f.name) for f in program.functions}
        graphed = [f for f in plan.functions if f.replay is not None and self._uses_graphs]
        self.replay_names = {f.name: self.names(f"replay_{f.name}") for f in graphed}
        """Names of the functions that replay others, by function."""
        self.kernel_names = {k.name: self.names(short_name(k.name)) for k in plan.kernels}
        # before any function is written, so that no local variable hides one
        self.streams = {stream: self.names(f"stream{stream.number}") for stream in plan.streams}
        self.operator_calls = Counter(op.target for f in program.functions for op in f.ops_of(ir.CallExtern))
        """The number of calls of each operator in the program."""
        self.extern_globals: dict[str, str] = {}
        self.extern_names = {e.name: self._extern_name(e.name) for e in plan.operators}
        self.constant_names = {c.value: self.names(c.value.name) for c in program.constants}
        self.bytes_names = {b.name: self.names(f"bytes_of_{b.name}") for b in plan.bytes}
        self.window_names = [self.names(w.result.name) for w in plan.windows]

    @property
    def _uses_graphs(self) -> bool:
        return self.options.cuda_graphs > 0 and self.options.poison is None

    def _extern_name(self, name: str) -> str:
        plain = PLAIN_FUNCTIONS.get(name)
        if plain is not None:
            return f"torch.{plain}"
        if is_imported(name):
            self.helper(Helper.OPERATORS)
        variable = self.extern_globals[name] = self.names(short_overload(name))
        return variable

    def global_name(self, function: FunctionPlan, value: ir.Value) -> str | None:
        """Returns the name of a constant, or of a window of one."""
        number = function.windows.get(value)
        return self.constant_names.get(value) if number is None else self.window_names[number]

    # --- requests of functions

    def helper(self, helper: Helper) -> str:
        """Returns the name of a helper, which the module then defines."""
        self.helpers[helper] = None
        if helper is Helper.WINDOW:
            self.helpers[Helper.REINTERPRET] = None
        return helper.value

    def runtime(self, name: str) -> str:
        """Returns the name of a function of `wrapper_ir_runtime`, which the module then imports."""
        self.runtime_names[name] = None
        return name

    def container(self, spec: ir.TreeSpec) -> tuple[str, str]:
        """Returns the names of the functions that flatten and build a custom container."""
        key = ir.TreeSpec(kind=spec.kind, type_name=spec.type_name, context=spec.context)
        if key not in self.containers:
            stem = spec.type_name.rpartition(":")[2].rpartition(".")[2]
            self.runtime("custom_container")
            self.containers[key] = (self.names(f"flatten_{stem}"), self.names(f"build_{stem}"))
        return self.containers[key]

    def lookup(self, candidate: str, text: str, hidden: Container[str] = ()) -> str:
        """Returns the global name of the result of `text`; a new one is not among `hidden`."""
        if text not in self.lookups:
            name = self.names(candidate)
            while name in hidden:
                name = self.names(candidate)
            self.lookups[text] = name
        return self.lookups[text]
