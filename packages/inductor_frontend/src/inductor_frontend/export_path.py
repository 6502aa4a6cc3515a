"""From a model to a functional graph: torch.export, upstream's decompositions, and who each input and output is."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

import torch
from torch import fx
from torch._inductor.decomposition import select_decomp_table
from torch.export import ExportedProgram
from torch.export.graph_signature import (
    ConstantArgument,
    CustomObjArgument,
    InputKind,
    InputSpec,
    OutputKind,
    OutputSpec,
    TokenArgument,
)

from inductor_frontend._compat import bound
from inductor_frontend.build import ConstantRole
from inductor_frontend.convert import literal
from inductor_frontend.errors import CaptureError, upstream_step
from inductor_frontend.exporting import export
from inductor_frontend.mutation import MutationWriter
from inductor_frontend.trees import to_tree
from wrapper_ir.signature import (
    ConstantOutput,
    InputAlias,
    InputOutput,
    OutputBinding,
    ResultOutput,
    Signature,
    StaticInput,
)

__all__ = ["ExportedGraph", "export_model", "prepare"]

# Any in this file: models, functions and their arguments are the user's own.
_EXPORT_HINT = "make the model exportable, or compile it with torch.compile(backend='wrapper_ir')"


@dataclass(frozen=True, slots=True)
class ExportedGraph:
    """A functional graph that writes its mutations back with copies.

    `roles` are the inputs that are constants, `leaves` the input leaf of every other input, both by input name;
    `bindings` say what each output leaf is.
    """

    gm: fx.GraphModule
    roles: Mapping[str, ConstantRole]
    leaves: Mapping[str, int]
    bindings: tuple[OutputBinding, ...]
    statics: tuple[StaticInput, ...]
    program: ExportedProgram

    @property
    def bounds(self) -> dict[str, tuple[int | None, int | None]]:
        """Inclusive ranges that the caller promised for symbolic sizes, by symbol name; None is open."""
        constraints = self.program.range_constraints
        return {str(s): (bound(r.lower), bound(r.upper)) for s, r in constraints.items()}

    def signature(self, inputs: tuple[str, ...], shared: tuple[int | None, ...]) -> Signature:
        """The calling convention, with `main`'s parameters being the graph inputs `inputs`; `shared` gives for each
        result the parameter whose storage it shares."""
        spec = self.program.call_spec
        assert spec.in_spec is not None
        assert spec.out_spec is not None
        params = tuple(self.leaves[name] for name in inputs)
        return Signature(
            inputs=to_tree(spec.in_spec),
            params=params,
            outputs=to_tree(spec.out_spec),
            bindings=self.bindings,
            names=tuple(s.arg.name for s in _user_inputs(self.program)),
            statics=self.statics,
            aliases=tuple(
                InputAlias(result=i, leaf=params[p]) for i, p in enumerate(shared) if p is not None
            ),
        )


class _FunctionModule(torch.nn.Module):
    """A function as a module; the instance attribute keeps the function's own parameter names."""

    def __init__(self, function: Callable[..., Any]) -> None:
        super().__init__()
        self.forward = function if _has_signature(function) else _plain(function)


def _has_signature(function: Callable[..., Any]) -> bool:
    try:
        inspect.signature(function)
    except ValueError:  # a builtin
        return False
    return True


def _plain(function: Callable[..., Any]) -> Callable[..., Any]:
    def forward(*args: Any, **kwargs: Any) -> Any:
        return function(*args, **kwargs)

    return forward


def export_model(
    model: torch.nn.Module | Callable[..., Any] | ExportedProgram,
    args: tuple[Any, ...],
    kwargs: Mapping[str, Any],
    dynamic_shapes: Any,
) -> ExportedProgram:
    """Exports a model unless it is exported; raises CaptureError FE101 with upstream's reason."""
    if isinstance(model, ExportedProgram):
        return model
    module = model if isinstance(model, torch.nn.Module) else _FunctionModule(model)
    return export(module, args, kwargs, dynamic_shapes)


def prepare(exported: ExportedProgram) -> ExportedGraph:
    """Decomposes to upstream's operators and turns the lifted graph into one that we can lower."""
    with upstream_step("FE101", "the exported program cannot be decomposed", _EXPORT_HINT):
        exported = exported.run_decompositions(dict(select_decomp_table()))
    return _Preparation(exported).run()


def _user_inputs(exported: ExportedProgram) -> list[InputSpec]:
    return [s for s in exported.graph_signature.input_specs if s.kind is InputKind.USER_INPUT]


_MUTATIONS = frozenset({OutputKind.BUFFER_MUTATION, OutputKind.USER_INPUT_MUTATION}) | {
    # torch 2.11 can write to parameters only as buffers
    kind
    for kind in OutputKind
    if kind.name == "PARAMETER_MUTATION"
}


class _Preparation:
    def __init__(self, exported: ExportedProgram) -> None:
        self.exported = exported
        self.gm = exported.graph_module
        self.placeholders = {n.name: n for n in self.gm.graph.nodes if n.op == "placeholder"}
        self.roles: dict[str, ConstantRole] = {}
        self.leaves: dict[str, int] = {}
        self.statics: list[StaticInput] = []
        self.targets: dict[str, str] = {}

    def run(self) -> ExportedGraph:
        """Sorts inputs and outputs; leaves only tensors and numbers that the graph computes with."""
        signature = self.exported.graph_signature
        mutated = {s.target for s in signature.output_specs if s.kind in _MUTATIONS}
        leaf = 0
        for spec in signature.input_specs:
            if spec.kind is InputKind.USER_INPUT:
                self._user_input(spec, leaf)
                leaf += 1
            else:
                self._constant_input(spec, spec.target in mutated)
        bindings = self._outputs(signature.output_specs)
        self.gm.graph.lint()
        self.gm.recompile()
        return ExportedGraph(
            self.gm, self.roles, self.leaves, tuple(bindings), tuple(self.statics), self.exported
        )

    # --- inputs

    def _user_input(self, spec: InputSpec, leaf: int) -> None:
        arg = spec.arg
        if isinstance(arg, (CustomObjArgument, TokenArgument)):
            raise CaptureError(
                "FE102", f"input {arg.name} is a {type(arg).__name__}, which has no typed form"
            )
        if isinstance(arg, ConstantArgument):
            self.statics.append(StaticInput(leaf=leaf, value=literal(arg.value)))
            node = self.placeholders[arg.name]
            if not node.users:
                self.gm.graph.erase_node(node)
                return
        self.leaves[arg.name] = leaf

    def _constant_input(self, spec: InputSpec, mutable: bool) -> None:
        name = spec.arg.name
        if spec.kind is InputKind.TOKEN:
            self._make_token(name)
            return
        if spec.kind is InputKind.CUSTOM_OBJ or spec.target is None:
            raise CaptureError("FE102", f"input {name} is a {spec.kind.name}, which has no typed form")
        tensor = self.exported.state_dict.get(spec.target)
        if tensor is None:
            tensor = self.exported.constants[spec.target]
        if not isinstance(tensor, torch.Tensor):
            raise CaptureError("FE102", f"constant {spec.target} is a {type(tensor).__name__}, not a tensor")
        self.targets[spec.target] = name
        if spec.kind is InputKind.CONSTANT_TENSOR and not mutable:
            self._inline(name, tensor)
        else:
            self.roles[name] = ConstantRole(spec.target, tensor.detach(), mutable)

    def _make_token(self, name: str) -> None:
        """Effect tokens order effectful operators inside the graph; the caller has none to give."""
        node = self.placeholders[name]
        with self.gm.graph.inserting_after(node):
            token = self.gm.graph.call_function(torch.ops.prims._make_token.default, ())
        token.meta = dict(node.meta)
        node.replace_all_uses_with(token)
        self.gm.graph.erase_node(node)

    def _sink_tokens(self, tokens: list[fx.Node], output: fx.Node) -> None:
        if tokens:
            with self.gm.graph.inserting_before(output):
                self.gm.graph.call_function(torch.ops.prims._sink_tokens.default, (tokens,))

    def _inline(self, name: str, tensor: torch.Tensor) -> None:
        """Turns a literal tensor into an attribute, so that upstream may fold it into kernels."""
        node = self.placeholders[name]
        attribute = f"_literal_{name}"
        self.gm.register_buffer(attribute, tensor.detach(), persistent=False)
        with self.gm.graph.inserting_after(node):
            replacement = self.gm.graph.get_attr(attribute)
        replacement.meta = dict(node.meta)
        node.replace_all_uses_with(replacement)
        self.gm.graph.erase_node(node)

    # --- outputs

    def _outputs(self, specs: list[OutputSpec]) -> list[OutputBinding]:
        """Writes mutations back in the graph; keeps as outputs what no input or literal already is."""
        output = self.gm.graph.output_node()
        values: Any = output.args[0]  # Any: nodes and literals
        writes = MutationWriter(self.gm.graph, output)
        for spec, value in zip(specs, values, strict=True):
            if spec.kind in _MUTATIONS:
                assert spec.target is not None
                writes.write(self.placeholders[self.targets.get(spec.target, spec.target)], value)
        results: list[fx.Node] = []
        bindings: list[OutputBinding] = []
        tokens: list[fx.Node] = []
        for spec, value in zip(specs, values, strict=True):
            if spec.kind is OutputKind.USER_OUTPUT:
                bindings.append(self._binding(value, writes, results))
            elif spec.kind is OutputKind.TOKEN:
                tokens.append(value)
            elif spec.kind not in _MUTATIONS:
                raise CaptureError(
                    "FE102", f"output {spec.arg} is a {spec.kind.name}, which has no typed form"
                )
        self._sink_tokens(tokens, output)
        output.args = (tuple(results),)
        output.meta["user_visible_output_idxs"] = list(range(len(results)))
        return bindings

    def _binding(self, value: object, writes: MutationWriter, results: list[fx.Node]) -> OutputBinding:
        if not isinstance(value, fx.Node):
            return ConstantOutput(value=literal(value))
        target = writes.target_of(value)
        name = value.name if target is None else target.name
        if name in self.leaves:
            return InputOutput(leaf=self.leaves[name])
        results.append(writes.rebased(value))
        return ResultOutput(index=len(results) - 1)
