"""How a program's kernels are called, in the form that the options choose."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any, Protocol

from torch import fx

from fx_converter.errors import SavedGraphError
from fx_converter.kernels.direct import LoadedTarget
from fx_converter.kernels.identity import kernel_hash
from fx_converter.kernels.registered import registered_operator
from fx_converter.kernels.triton_form import TritonForm, triton_form, triton_kernel_wrapper_mutation
from fx_converter.options import FxOptions
from wrapper_ir.artifact import Artifact
from wrapper_ir.expr import Expr
from wrapper_ir.kernels import KernelDef, needed
from wrapper_ir.ops import Launch
from wrapper_ir.program import Program
from wrapper_ir.runtime.kernels import load_kernels

__all__ = ["KernelTargets"]


Target = Callable[..., Any]  # Any: tensors and numbers


class _Graph(Protocol):
    # Any: arguments and fake values of nodes
    def call(self, target: Callable[..., Any], *args: Any, val: Any = None, **kwargs: Any) -> fx.Node:
        """A call."""
        ...

    def sizes(self, exprs: Sequence[Expr], numbers: Mapping[str, Any]) -> list[Any]:
        """Sizes over numbers that are there already."""
        ...


class KernelTargets:
    """The call targets of the kernels that a program launches, or of those with these content hashes; loads them, taking
    what the artifact has compiled.

    Raises PluginError for kernels without a runtime, what kernel runtimes raise, and SavedGraphError FX202 for a hash
    that no kernel of the program has.
    """

    def __init__(self, artifact: Artifact, options: FxOptions, hashes: Sequence[str] | None = None) -> None:
        self._program = program = artifact.program
        by_name = {k.name: k for k in program.kernels}
        all_hashes = {k.name: kernel_hash(k, by_name) for k in program.kernels}
        if hashes is None:
            names = {op.kernel for f in program.functions for op in f.body if isinstance(op, Launch)}
        else:
            names = {name for name, hash in all_hashes.items() if hash in hashes}
        self._hashes = {name: hash for name, hash in all_hashes.items() if name in names}
        self._kernels = {hash: by_name[name] for name, hash in self._hashes.items()}
        missing = set(hashes or ()) - set(self._kernels)
        if missing:
            raise SavedGraphError("FX202", f"the file has no kernel {sorted(missing)[0]}")
        self._forms: dict[str, TritonForm] = {}
        if _as_triton(program, options):
            forms = {hash: triton_form(kernel, by_name) for hash, kernel in self._kernels.items()}
            self._forms = {hash: form for hash, form in forms.items() if form is not None}
        for form in self._forms.values():
            form.function()  # before any is entered into torch's tables
        names = {name for name, hash in self._hashes.items() if hash not in self._forms}
        self._loaded = load_kernels(
            needed(program.kernels, names), program.target, options.find_runtime, artifact.binaries
        )
        self._form = options.kernel_calls
        self._targets: dict[tuple[str, str], Target] = {}

    def hash_of(self, kernel: KernelDef) -> str:
        """The content hash of a launched kernel."""
        return self._hashes[kernel.name]

    def by_hash(self, hash: str, form: str) -> Target:
        """The call target of the kernel with this content."""
        found = self._targets.get((hash, form))
        if hash in self._forms:
            return triton_kernel_wrapper_mutation
        if found is None:
            kernel = self._kernels[hash]
            launch = self._loaded[kernel.name]
            if form == "direct":
                found = LoadedTarget(launch, kernel.name, hash)
            else:
                found = registered_operator(kernel, hash, self._program.target, launch)
            self._targets[hash, form] = found
        return found

    # Any: nodes and numbers
    def call(self, kernel: KernelDef, args: list[Any], grid: list[Any], scope: _Graph) -> fx.Node:
        """The node that launches a kernel."""
        hash = self.hash_of(kernel)
        form = self._forms.get(hash)
        if form is None:
            return scope.call(self.by_hash(hash, self._form), *args, *grid)
        given = form.given(args)
        taken = {name: arg for name, arg in given.items() if name in form.kernel.order}
        return scope.call(
            triton_kernel_wrapper_mutation,
            **form.ids(),
            grid=[form.grid(given | form.numbers(grid), scope)],
            tma_descriptor_metadata=form.blocks(),
            kwargs=taken,
        )

    def ids(self, hash: str) -> dict[str, int]:
        """The integers that stand for a Triton kernel in this process; none for other kernels."""
        form = self._forms.get(hash)
        return {} if form is None else form.ids()


def _as_triton(program: Program, options: FxOptions) -> bool:
    """Whether Triton kernels are called as torch calls them: on devices. On the CPU an interpreter runs them, which is a
    kernel runtime like others."""
    return options.kernel_calls == "hop" and program.target.device.type != "cpu"
