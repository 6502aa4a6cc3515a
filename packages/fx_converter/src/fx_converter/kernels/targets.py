"""Call targets of a program's kernels, in the form that the options choose."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Literal, Protocol

from torch import fx
from torch._higher_order_ops.triton_kernel_wrap import triton_kernel_wrapper_mutation

from fx_converter._compat import has_effect, parse_schema
from fx_converter.errors import SavedGraphError
from fx_converter.kernels.direct import LoadedTarget
from fx_converter.kernels.identity import kernel_hash
from fx_converter.kernels.registered import NAMESPACE, operator_name, registered_operator, schema_text
from fx_converter.kernels.triton_form import TritonForm, triton_form
from fx_converter.nodes import Argument, Target
from wrapper_ir import ir
from wrapper_ir.artifact import Artifact
from wrapper_ir.expr import Expr
from wrapper_ir.plugins.protocols import LoadedKernel
from wrapper_ir_runtime import FindRuntime
from wrapper_ir_runtime.kernels import load_kernels

KernelCalls = Literal["direct", "hop"]
"""The form of kernels' calls; `fx_converter.FxOptions` describes each."""


class _Graph(Protocol):
    def call(
        self, target: Target, *args: Argument, val: object = None, name: str | None = None, **kwargs: Argument
    ) -> fx.Node:
        """Adds a call."""

    def sizes(self, exprs: Sequence[Expr], numbers: Mapping[str, Argument]) -> list[Argument]:
        """Returns sizes over existing nodes and numbers."""


class KernelTargets:
    """The call targets of the kernels that a program launches, or of those with these content hashes. They
    are loaded from the artifact's binaries if possible.

    `settle`, the last step of creating a module, registers kernels with torch; a failure before it registers
    nothing. Raises PluginError for kernels without a runtime, the errors of kernel runtimes, and
    SavedGraphError FX202 for a hash that no kernel of the program has.
    """

    def __init__(
        self,
        artifact: Artifact,
        calls: KernelCalls,
        find_runtime: FindRuntime,
        hashes: Sequence[str] | None = None,
    ) -> None:
        self._program = program = artifact.program
        by_name = {k.name: k for k in program.kernels}
        all_hashes = {k.name: kernel_hash(k, by_name) for k in program.kernels}
        if hashes is None:
            names = {op.kernel for op in program.ops_of(ir.Launch)}
        else:
            names = {name for name, hash in all_hashes.items() if hash in hashes}
        self._hashes = {name: hash for name, hash in all_hashes.items() if name in names}
        self._kernels = {hash: by_name[name] for name, hash in self._hashes.items()}
        missing = set(hashes or ()) - set(self._kernels)
        if missing:
            raise SavedGraphError("FX202", f"the file has no kernel {sorted(missing)[0]}")
        self._forms: dict[str, TritonForm] = {}
        if _as_triton(program, calls):
            forms = {hash: triton_form(kernel, by_name) for hash, kernel in self._kernels.items()}
            self._forms = {hash: form for hash, form in forms.items() if form is not None}
        for form in self._forms.values():
            form.function()
        names = {name for name, hash in self._hashes.items() if hash not in self._forms}
        self._loaded = load_kernels(
            ir.needed(program.kernels, names), program.target, find_runtime, artifact.binaries
        )
        self._direct = calls == "direct"
        self._launchers = {
            hash: _loaded(kernel, hash, self._loaded[kernel.name])
            for hash, kernel in self._kernels.items()
            if hash not in self._forms
        }
        self._waiting: list[tuple[fx.Node, str]] = []
        """Nodes whose kernels `settle` registers with torch."""

    def hash_of(self, kernel: ir.KernelDef) -> str:
        """Returns the content hash of a launched kernel."""
        return self._hashes[kernel.name]

    def call(
        self, kernel: ir.KernelDef, args: list[Argument], grid: list[Argument], scope: _Graph
    ) -> fx.Node:
        """Adds the node that launches a kernel."""
        hash = self.hash_of(kernel)
        if self._direct:
            return scope.call(self._launchers[hash], *args, *grid)
        form = self._forms.get(hash)
        if form is None:
            name = operator_name(kernel, hash, self._program.target)
            node = scope.call(Pending(hash, "hop", f"{name}.default"), *args, *grid)
        else:
            node = _call_triton(form, args, grid, scope)
        self._waiting.append((node, hash))
        return node

    def resolve(self, node: fx.Node, pending: Pending) -> None:
        """Sets the target of a node of a file to the kernel that it names. Raises SavedGraphError FX202 for a
        form that the kernel does not have here."""
        hash = pending.hash
        forms = ("triton",) if hash in self._forms else ("direct", "hop")
        if pending.form not in forms:
            raise SavedGraphError("FX202", f"node {node.name} calls a kernel in the form {pending.form!r}")
        if pending.form == "direct":
            node.target = self._launchers[hash]
        else:
            self._waiting.append((node, hash))

    def settle(self) -> None:
        """Registers the kernels of all nodes with torch if needed, and sets the nodes' targets. Recompiles
        modules of these graphs."""
        hashes = dict.fromkeys(hash for _, hash in self._waiting)
        entered = {hash: self._enter(hash) for hash in hashes}
        for node, hash in self._waiting:
            node.target, numbers = entered[hash]
            node.kwargs = {**numbers, **node.kwargs}
        modules = dict.fromkeys(node.graph.owning_module for node, _ in self._waiting)
        self._waiting.clear()
        for module in modules:
            if module is not None:
                module.recompile()

    def _enter(self, hash: str) -> tuple[Target, dict[str, int]]:
        """Returns the operator of a kernel, and the integers that identify it in this process."""
        form = self._forms.get(hash)
        if form is not None:
            return triton_kernel_wrapper_mutation, form.ids()
        kernel = self._kernels[hash]
        launch = self._loaded[kernel.name]
        return registered_operator(kernel, hash, self._program.target, launch), {}


def _loaded(kernel: ir.KernelDef, hash: str, launch: LoadedKernel) -> LoadedTarget:
    """Returns the launcher as a call target. A kernel that writes nothing also has effects, because its other
    effects are unknown."""
    schema = parse_schema(schema_text(kernel, f"{NAMESPACE}::launch"))
    return has_effect(LoadedTarget(launch, kernel.name, hash, schema))


class Pending:
    """Placeholder of a kernel until the whole graph is known."""

    def __init__(self, hash: str, form: str, name: str) -> None:
        self.hash, self.form = hash, form
        self.__name__ = name

    def __call__(self) -> None:
        raise AssertionError("kernels replace placeholders before a graph runs")


def _call_triton(form: TritonForm, args: list[Argument], grid: list[Argument], scope: _Graph) -> fx.Node:
    """Adds a call in torch's form, without the integers that identify the kernel."""
    operands = form.given(args)
    return scope.call(
        triton_kernel_wrapper_mutation,
        grid=[form.grid(operands | form.numbers(grid), scope)],
        tma_descriptor_metadata=form.blocks(),
        kwargs={name: arg for name, arg in operands.items() if name in form.kernel.order},
    )


def _as_triton(program: ir.Program, calls: KernelCalls) -> bool:
    """Returns whether Triton kernels are called in torch's form: on devices. On the CPU an interpreter, an
    ordinary kernel runtime, runs them."""
    return calls == "hop" and program.target.device.type != "cpu"
