"""From an exported program to a functional graph that can be lowered, and the signature around it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import torch
from torch import fx
from torch._guards import detect_fake_mode
from torch._subclasses.fake_tensor import FakeTensorMode
from torch.export import ExportedProgram
from torch.export.graph_signature import (
    ConstantArgument,
    CustomObjArgument,
    InputKind,
    InputSpec,
    TokenArgument,
)
from torch.fx.experimental.symbolic_shapes import ShapeEnv

from inductor_frontend.constants import ConstantRole
from inductor_frontend.convert import literal
from inductor_frontend.errors import CaptureError, torch_step
from inductor_frontend.export.exported import EXPORT_HINT, Exported
from inductor_frontend.export.subclasses import is_wrapper
from inductor_frontend.export.tensor_kinds import argument_names, lacks_type, untyped
from inductor_frontend.export.trees import check_classes, to_tree
from inductor_frontend.functionalize.flat_inputs import FlatInputs
from inductor_frontend.functionalize.functional import FunctionalGraph, functionalise, graph_function
from inductor_frontend.functionalize.objects import Objects
from inductor_frontend.functionalize.outputs import Outputs, as_views
from inductor_frontend.functionalize.overlaps import FlatInput, Merged, merge
from inductor_frontend.functionalize.pieces import with_sized_pieces
from inductor_frontend.functionalize.placeholders import bake_in, inline
from inductor_frontend.functionalize.tensor_names import KINDS, identity, memory, names_by_tensor
from inductor_frontend.functionalize.training_graph import TrainingGraph, training_graph
from inductor_frontend.functionalize.views import root_of
from inductor_frontend.lazy_bits import resolved
from inductor_frontend.torch_patches._compat import complete_ranges
from wrapper_ir import ir

# Any in this file: fake tensors, symbolic numbers, nodes among literals.


@dataclass(frozen=True, slots=True, kw_only=True)
class FunctionalModel:
    """A functional graph that writes its mutations back with copies, and what its signature is made of.

    `roles` are the inputs that are constants, `flat` the input leaves of the others, by name; `bindings` say what each
    output leaf is, in terms of the graph's outputs. `roots` are the outputs that are not views of others, `hints` the
    leaves that outputs are views of, as far as the model says. `written` are the names of the inputs that the graph writes:
    Inductor removes what writes an input's own values to it.
    """

    gm: fx.GraphModule
    roles: Mapping[str, ConstantRole]
    flat: FlatInputs
    merged: Merged
    bindings: tuple[ir.OutputBinding, ...]
    statics: tuple[ir.StaticInput, ...]
    roots: frozenset[int]
    hints: Mapping[int, int]
    written: frozenset[str]
    write_backs: tuple[ir.WriteBack, ...]
    parameters: tuple[ir.Parameter, ...]
    program: ExportedProgram

    @property
    def inputs(self) -> tuple[fx.Node, ...]:
        """The graph's inputs, in order."""
        return tuple(self.gm.graph.find_nodes(op="placeholder"))

    @property
    def windows(self) -> frozenset[str]:
        """The inputs that stand for the memory of several arguments, and may begin anywhere in it, by name."""
        return frozenset(w.name for w in self.merged.windows)

    def signature(
        self, inputs: tuple[str, ...], summary: ir.FunctionSummary, random: Sequence[ir.Device] = ()
    ) -> ir.Signature:
        """The calling convention of a program whose `main` takes the graph inputs `inputs` and does what `summary` says;
        it draws random numbers on these devices."""
        spec = self.program.call_spec
        assert spec.in_spec is not None
        assert spec.out_spec is not None
        params = tuple(self.flat.leaves[name] for name in inputs)
        windows = [w for w in self.merged.windows if w.name in inputs]
        check_classes(spec.in_spec, built=False)
        check_classes(spec.out_spec, built=True)
        return ir.Signature(
            inputs=to_tree(spec.in_spec),
            params=params,
            outputs=to_tree(spec.out_spec),
            bindings=as_views(self.bindings, summary, self._origins(params, summary), self.roots),
            names=self.flat.names,
            parameters=self.parameters,
            statics=self.statics,
            unwraps=tuple(self.flat.unwraps),
            same=tuple(ir.SameTensor(leaves=s.leaves) for s in self.merged.same),
            shared=tuple(ir.SharedStorage(param=inputs.index(w.name), places=w.places) for w in windows),
            written=_written(
                self.written & {inputs[p] for p in summary.written_params}, self.flat, self.merged
            ),
            write_backs=self.write_backs,
            random=tuple(ir.RandomState(device=device) for device in random),
        )

    def _origins(self, params: Sequence[int], summary: ir.FunctionSummary) -> dict[int, int]:
        """The input leaf that each result surely shares memory with. Of several leaves over one memory, it is the one
        that the model made the view of."""
        found = {
            i: params[o.params[0]] for i, o in enumerate(summary.results) if o and o.certain and o.params
        }
        groups = [set(s.leaves) for s in self.merged.same]
        groups += [{p.leaf for p in w.places} for w in self.merged.windows]
        for result, leaf in found.items():
            hint = self.hints.get(result, leaf)
            if any({hint, leaf} <= group for group in groups):
                found[result] = hint
        return found


def functional_model(exported: Exported) -> FunctionalModel:
    """Decomposes to torch's operators, takes what surrounds the program out of the graph, and leaves only tensors
    and numbers that the graph computes with."""
    graph = training_graph(exported.program)
    return _Preparation(exported, graph).run()


class _Preparation:
    def __init__(self, exported: Exported, graph: TrainingGraph) -> None:
        self.exported = exported.program
        self.parameters = exported.parameters
        self.repeated = exported.repeated
        self.real = exported.real
        self.names_of = names_by_tensor(exported)
        self.graph = graph
        self.gm = graph.gm
        self.statics: list[ir.StaticInput] = []
        self.inputs: list[FlatInput] = []
        self.opaque: dict[fx.Node, int] = {}
        """Arguments that the IR has no type for, which are returned at most, and their leaves."""
        self.hints: dict[int, int] = {}
        self.literals: set[str] = set()
        """Names of literal tensors: torch may fold them into kernels."""
        values = [n.meta.get("val") for n in self.gm.graph.nodes]
        self.fake_mode: FakeTensorMode = detect_fake_mode(values) or FakeTensorMode(
            allow_non_fake_inputs=True, shape_env=ShapeEnv()
        )
        complete_ranges(self.fake_mode.shape_env)

    def run(self) -> FunctionalModel:
        """Everything, in order."""
        names = self._sort_inputs()
        objects = Objects(self.gm.graph)
        known, computed = self._identities(objects)
        moved = self._moved(objects)
        output = self.gm.graph.output_node()
        settled = {number: objects.settled(node, output) for number, node in computed.items()}
        wanted = [objects.settled(node, output) for _, node, _ in moved]
        nodes = list(dict.fromkeys((*settled.values(), *wanted)))  # each once: a tensor returned twice is one
        output.args = (tuple(nodes),)
        for placeholder in self.opaque:
            self.gm.graph.erase_node(placeholder)
        with_sized_pieces(self.gm)
        with torch_step("FE101", "the exported program cannot be made functional", EXPORT_HINT):
            merged = merge(graph_function(self.gm), self.inputs, self.fake_mode)
            functional = functionalise(merged.function, [i.value for i in merged.inputs], self.fake_mode)
        flat = FlatInputs(merged.inputs, names)
        flat.name_placeholders(functional.gm.graph)
        fixed = {i.name: i.value for i in merged.inputs if isinstance(i.value, int | float)}
        for node in functional.gm.graph.find_nodes(op="placeholder"):
            if node.name in fixed:  # traced without a value
                node.meta["val"] = fixed[node.name]
        outputs = Outputs(functional.gm.graph)
        found = dict(zip(nodes, _bindings(functional, merged, outputs), strict=True))
        known |= {number: found[node] for number, node in settled.items()}
        leaves = {self.graph.placeholders[i.name]: i.leaf for i in self.inputs if i.leaf is not None}
        self.hints = {
            binding.index: leaves[root]
            for number, node in computed.items()
            if isinstance(binding := known[number], ir.ResultOutput)
            and (root := objects.root(node)) in leaves
        }
        backs = [_write_back(*m, found[node]) for m, node in zip(moved, wanted, strict=True)]
        outputs.close()
        return self._finish(functional.gm, flat, merged, outputs, (known, backs))

    def _finish(
        self,
        gm: fx.GraphModule,
        flat: FlatInputs,
        merged: Merged,
        outputs: Outputs,
        found: tuple[dict[int, ir.OutputBinding], list[ir.WriteBack]],
    ) -> FunctionalModel:
        roles = self._roles(flat, outputs)
        inline(
            gm,
            {n: resolved(r.data) for n, r in roles.items() if n in self.literals and not r.mutable},
        )
        gm.graph.lint()
        gm.recompile()
        bindings, backs = found
        return FunctionalModel(
            gm=gm,
            roles={
                n.name: roles[n.name] for n in gm.graph.nodes if n.op == "placeholder" and n.name in roles
            },
            flat=flat,
            merged=merged,
            bindings=tuple(bindings[k] for k in sorted(bindings)),
            statics=tuple(self.statics),
            roots=outputs.roots,
            hints=self.hints,
            written=frozenset(outputs.written),
            write_backs=tuple(backs),
            parameters=self.parameters,
            program=self.exported,
        )

    # --- inputs

    def _sort_inputs(self) -> list[str]:
        """Constants, arguments and baked-in values; the names of the arguments' leaves."""
        names: list[str] = []
        for spec in self.graph.inputs:
            if spec.kind is InputKind.USER_INPUT:
                self._user_input(spec, len(names))
                names.append(spec.arg.name)
            else:
                self._constant_input(spec)
        return names

    def _user_input(self, spec: InputSpec, leaf: int) -> None:
        arg = spec.arg
        if isinstance(arg, (CustomObjArgument, TokenArgument)):
            raise CaptureError(
                "FE102", f"input {arg.name} is a {type(arg).__name__}, which has no typed form"
            )
        node = self.graph.placeholders[arg.name]
        if isinstance(arg, ConstantArgument):
            self.statics.append(ir.StaticInput(leaf=leaf, value=literal(arg.value)))
            bake_in(node, arg.value)
            return
        if found := self._untyped(node):
            tree = self.exported.call_spec.in_spec
            assert tree is not None
            if set(node.users) - {node.graph.output_node()}:
                raise untyped(argument_names(tree)[leaf], found)
            self.opaque[node] = leaf
            return
        self.inputs.append(FlatInput(name=arg.name, value=node.meta["val"], leaf=leaf))

    def _untyped(self, node: fx.Node) -> str:
        value = node.meta["val"]
        return lacks_type(value) if isinstance(value, torch.Tensor) and not is_wrapper(value) else ""

    def _constant_input(self, spec: InputSpec) -> None:
        name = spec.arg.name
        if spec.kind is InputKind.CUSTOM_OBJ or spec.target is None:
            held = self.exported.constants.get(spec.target or "")
            kind = spec.kind.name if held is None else type(held).__qualname__
            raise CaptureError(
                "FE102",
                f"the model holds {name}, a {kind}, which has no typed form",
                hint="draw random numbers without a generator, after torch.manual_seed; keep other objects outside of "
                "what is captured, or use torch.compile(model, backend='wrapper_ir')",
            )
        tensor = self.exported.state_dict.get(spec.target)
        if tensor is None:
            tensor = self.exported.constants[spec.target]
        if not isinstance(tensor, torch.Tensor):
            raise CaptureError("FE102", f"constant {spec.target} is a {type(tensor).__name__}, not a tensor")
        if spec.kind is InputKind.CONSTANT_TENSOR:
            self.literals.add(name)
        value = self.graph.placeholders[name].meta["val"]
        if (found := self._untyped(self.graph.placeholders[name])) and not tensor.is_mkldnn:
            raise untyped(f"constant {spec.target}", found)
        tensor = self.real.get(spec.target, tensor)
        data = tensor if is_wrapper(tensor) else tensor.detach()
        role = ConstantRole(
            spec.target,
            data,
            mutable=False,
            device=value.device,
            kind=KINDS.get(spec.kind, ir.ConstantKind.OTHER),
            names=self.names_of.get(identity(tensor), (spec.target,)),
        )
        self.inputs.append(FlatInput(name=name, value=value, role=role))

    def _roles(self, flat: FlatInputs, outputs: Outputs) -> dict[str, ConstantRole]:
        """The constants by name. State is what the program writes, and what a caller gets into its hands."""
        state = outputs.written | {root_of(n).name for n in outputs.results}
        shared = {memory(flat.roles[name].data) for name in state if name in flat.roles}
        return {n: replace(r, mutable=n in state or memory(r.data) in shared) for n, r in flat.roles.items()}

    # --- outputs

    def _identities(self, objects: Objects) -> tuple[dict[int, ir.OutputBinding], dict[int, fx.Node]]:
        """The output leaves that are literals or arguments themselves, and those that must be computed."""
        leaves = {self.graph.placeholders[i.name]: i.leaf for i in self.inputs if i.leaf is not None}
        leaves |= self.opaque
        known: dict[int, ir.OutputBinding] = {}
        computed: dict[int, fx.Node] = {}
        for number, value in enumerate(self.graph.outputs):
            first = objects.first(value) if isinstance(value, fx.Node) else None
            if first is None:
                known[number] = ir.ConstantOutput(value=literal(value))
            elif first in leaves:
                known[number] = ir.InputOutput(leaf=leaves[first])
            else:
                computed[number] = value
        return known, computed

    def _moved(self, objects: Objects) -> list[tuple[int, fx.Node, ir.WriteBackKind]]:
        """Arguments that show something else of their memory afterwards, or other memory."""
        found = []
        for item in self.inputs:
            node = self.graph.placeholders[item.name]
            if not objects.is_moved(node):
                continue
            if item.leaf is None or is_wrapper(item.value):
                raise CaptureError(
                    "FE105",
                    f"{item.name} gets other sizes or strides, and is not a plain argument",
                    hint="make a new tensor, or a view of it",
                )
            if item.leaf in self.repeated:
                raise CaptureError(
                    "FE105",
                    f"{item.name} gets other sizes or strides, and is one tensor with another argument",
                    hint="capture it with tensors of their own: a program for one tensor cannot be told from these",
                )
            kind = ir.WriteBackKind.REPLACE if objects.is_replaced(node) else ir.WriteBackKind.METADATA
            found.append((item.leaf, objects.last(node), kind))
        return found


def _bindings(functional: FunctionalGraph, merged: Merged, outputs: Outputs) -> list[ir.OutputBinding]:
    """What each output of the flat function is."""
    values: list[Any] = [*functional.outputs]
    windows = {w.name for w in merged.windows}
    found: list[ir.OutputBinding] = []
    for layout, same in zip(functional.layouts, functional.identical, strict=True):
        count = 1 if layout is None else layout.arg_count
        taken, values = values[:count], values[count:]
        source = None if same is None else merged.inputs[same]
        if source is not None and source.leaf is not None and source.name not in windows:
            found.append(ir.InputOutput(leaf=source.leaf))
        else:
            found.append(outputs.binding(taken[0], layout, taken[1:]))
    return found


def _write_back(leaf: int, node: fx.Node, kind: ir.WriteBackKind, binding: ir.OutputBinding) -> ir.WriteBack:
    assert isinstance(binding, ir.ResultOutput), f"{node} is a plain tensor"
    return ir.WriteBack(result=binding.index, leaf=leaf, kind=kind)


def _written(names: frozenset[str], flat: FlatInputs, merged: Merged) -> tuple[int, ...]:
    """The leaves whose elements change where these inputs are written, and the tensors that wrap them."""
    found: set[int] = set()
    for name in names:
        leaf = flat.leaves.get(name)
        if leaf is not None:
            found |= {leaf, flat.wrappers.get(leaf, leaf)}
            found.update(p.leaf for w in merged.windows if w.name == name for p in w.places)
            found.update(i for s in merged.same if leaf in s.leaves for i in s.leaves)
    return tuple(sorted(found))
