"""Prepares an exported program: a functional graph that can be lowered, and its signature."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

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


@dataclass(frozen=True, slots=True, kw_only=True)
class FunctionalModel:
    """A functional graph whose mutations are copies at its end, with the data of its signature.

    `roles`: the inputs that are constants, by name. `flat`: the leaves of the other inputs. `bindings`: for
    each output leaf its value, in terms of the graph's outputs. `roots`: the outputs that are not views of
    other outputs. `hints`: for outputs that are views of an argument in the model, its leaf. `written`: the
    names of the inputs that the graph writes before lowering; Inductor removes copies of an input to itself.
    """

    gm: fx.GraphModule
    roles: Mapping[str, ConstantRole]
    flat: FlatInputs
    merged: Merged
    bindings: tuple[ir.OutputBinding, ...]
    statics: tuple[ir.StaticInput, ...]
    roots: frozenset[int]
    hints: Mapping[int, int]
    writes: frozenset[str]
    write_backs: tuple[ir.WriteBack, ...]
    parameters: tuple[ir.Parameter, ...]
    program: ExportedProgram

    @property
    def inputs(self) -> tuple[fx.Node, ...]:
        """The graph's inputs, in order."""
        return tuple(self.gm.graph.find_nodes(op="placeholder"))

    @property
    def windows(self) -> frozenset[str]:
        """Names of the inputs that cover the memory of several arguments, and may start anywhere in it."""
        return frozenset(w.name for w in self.merged.windows)

    def signature(
        self, inputs: tuple[str, ...], summary: ir.FunctionSummary, random: Sequence[ir.Device] = ()
    ) -> ir.Signature:
        """Returns the calling convention of a program.

        `inputs` names the graph inputs that are parameters of `main`. `summary` describes its effects.
        `random` are the devices on which it draws random numbers.
        """
        spec = self.program.call_spec
        assert spec.in_spec is not None
        assert spec.out_spec is not None
        params = tuple(self.flat.leaves[name] for name in inputs)
        windows = [w for w in self.merged.windows if w.name in inputs]
        check_classes(spec.in_spec, creates=False)
        check_classes(spec.out_spec, creates=True)
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
                self.writes & {inputs[p] for p in summary.written_params}, self.flat, self.merged
            ),
            write_backs=self.write_backs,
            random=tuple(ir.RandomState(device=device) for device in random),
        )

    def _origins(self, params: Sequence[int], summary: ir.FunctionSummary) -> dict[int, int]:
        """Maps results to the input leaf that they certainly share memory with.

        If several leaves have the same memory, it is the leaf that the result is a view of in the model.
        """
        origins = {
            i: params[o.params[0]] for i, o in enumerate(summary.results) if o and o.certain and o.params
        }
        groups = [set(s.leaves) for s in self.merged.same]
        groups += [{p.leaf for p in w.places} for w in self.merged.windows]
        for result, leaf in origins.items():
            hint = self.hints.get(result, leaf)
            if any({hint, leaf} <= group for group in groups):
                origins[result] = hint
        return origins


def functional_model(exported: Exported) -> FunctionalModel:
    """Functionalizes an exported program and separates its signature from the graph.

    The graph is decomposed to torch's operators; its inputs are only the tensors and numbers that it computes
    with.
    """
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
        """Arguments without a type in the IR, which may only be returned -> their leaves."""
        self.hints: dict[int, int] = {}
        self.literals: set[str] = set()
        """Names of literal tensors: torch may fold them into kernels."""
        values = [n.meta.get("val") for n in self.gm.graph.nodes]
        self.fake_mode: FakeTensorMode = detect_fake_mode(values) or FakeTensorMode(
            allow_non_fake_inputs=True, shape_env=ShapeEnv()
        )
        complete_ranges(self.fake_mode.shape_env)

    def run(self) -> FunctionalModel:
        """Runs all steps in order."""
        names = self._sort_inputs()
        objects = Objects(self.gm.graph)
        by_number, computed = self._identities(objects)
        moved = self._moved(objects)
        output = self.gm.graph.output_node()
        settled = {number: objects.settled(node, output) for number, node in computed.items()}
        updates = [objects.settled(node, output) for _, node, _ in moved]
        nodes = list(
            dict.fromkeys((*settled.values(), *updates))
        )  # unique: a tensor returned twice is one node
        output.args = (tuple(nodes),)
        for placeholder in self.opaque:
            self.gm.graph.erase_node(placeholder)
        with_sized_pieces(self.gm)
        with torch_step("FE101", "the exported program cannot be made functional", EXPORT_HINT):
            merged = merge(graph_function(self.gm), self.inputs, self.fake_mode)
            functional = functionalise(merged.function, [i.value for i in merged.inputs], self.fake_mode)
        flat = FlatInputs(merged.inputs, names)
        flat.name_placeholders(functional.gm.graph)
        numbers = {i.name: i.value for i in merged.inputs if isinstance(i.value, int | float)}
        for node in functional.gm.graph.find_nodes(op="placeholder"):
            if node.name in numbers:  # the trace records no value for constant numbers
                node.meta["val"] = numbers[node.name]
        outputs = Outputs(functional.gm.graph)
        by_node = dict(zip(nodes, _bindings(functional, merged, outputs), strict=True))
        by_number |= {number: by_node[node] for number, node in settled.items()}
        leaves = {self.graph.placeholders[i.name]: i.leaf for i in self.inputs if i.leaf is not None}
        self.hints = {
            binding.index: leaves[root]
            for number, node in computed.items()
            if isinstance(binding := by_number[number], ir.ResultOutput)
            and (root := objects.root(node)) in leaves
        }
        backs = [_write_back(*m, by_node[node]) for m, node in zip(moved, updates, strict=True)]
        outputs.close()
        return self._finish(functional.gm, flat, merged, outputs, (by_number, backs))

    def _finish(
        self,
        gm: fx.GraphModule,
        flat: FlatInputs,
        merged: Merged,
        outputs: Outputs,
        bound: tuple[dict[int, ir.OutputBinding], list[ir.WriteBack]],
    ) -> FunctionalModel:
        roles = self._roles(flat, outputs)
        inline(gm, {n: resolved(r.data) for n, r in roles.items() if n in self.literals and not r.mutable})
        gm.graph.lint()
        gm.recompile()
        bindings, backs = bound
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
            writes=frozenset(outputs.written),
            write_backs=tuple(backs),
            parameters=self.parameters,
            program=self.exported,
        )

    # --- inputs

    def _sort_inputs(self) -> list[str]:
        """Sorts the inputs into constants, arguments and baked-in values. Returns the names of the arguments'
        leaves."""
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
        if reason := self._untyped(node):
            tree = self.exported.call_spec.in_spec
            assert tree is not None
            if set(node.users) - {node.graph.output_node()}:
                raise untyped(argument_names(tree)[leaf], reason)
            self.opaque[node] = leaf
            return
        self.inputs.append(FlatInput(name=arg.name, value=node.meta["val"], leaf=leaf))

    def _untyped(self, node: fx.Node) -> str:
        value = node.meta["val"]
        return lacks_type(value) if isinstance(value, torch.Tensor) and not is_wrapper(value) else ""

    def _constant_input(self, spec: InputSpec) -> None:
        name = spec.arg.name
        if spec.kind is InputKind.CUSTOM_OBJ or spec.target is None:
            constant = self.exported.constants.get(spec.target or "")
            kind = spec.kind.name if constant is None else type(constant).__qualname__
            raise CaptureError(
                "FE102",
                f"the model has {name}, a {kind}, which has no typed form",
                hint="draw random numbers without a generator, after torch.manual_seed; "
                "keep other objects outside of the captured function, "
                "or use torch.compile(model, backend='wrapper_ir')",
            )
        tensor = self.exported.state_dict.get(spec.target)
        if tensor is None:
            tensor = self.exported.constants[spec.target]
        if not isinstance(tensor, torch.Tensor):
            raise CaptureError("FE102", f"constant {spec.target} is a {type(tensor).__name__}, not a tensor")
        if spec.kind is InputKind.CONSTANT_TENSOR:
            self.literals.add(name)
        value = self.graph.placeholders[name].meta["val"]
        if (reason := self._untyped(self.graph.placeholders[name])) and not tensor.is_mkldnn:
            raise untyped(f"constant {spec.target}", reason)
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
        """Returns the constants by name. Constants that the program writes or returns are mutable state."""
        state = outputs.written | {root_of(n).name for n in outputs.results}
        shared = {memory(flat.roles[name].data) for name in state if name in flat.roles}
        return {n: replace(r, mutable=n in state or memory(r.data) in shared) for n, r in flat.roles.items()}

    # --- outputs

    def _identities(self, objects: Objects) -> tuple[dict[int, ir.OutputBinding], dict[int, fx.Node]]:
        """Returns the bindings of output leaves that are literals or arguments, and the nodes of all
        others."""
        leaves = {self.graph.placeholders[i.name]: i.leaf for i in self.inputs if i.leaf is not None}
        leaves |= self.opaque
        bindings: dict[int, ir.OutputBinding] = {}
        computed: dict[int, fx.Node] = {}
        for number, value in enumerate(self.graph.outputs):
            if not isinstance(value, fx.Node):
                bindings[number] = ir.ConstantOutput(value=literal(value))
            elif (first := objects.first(value)) in leaves:
                bindings[number] = ir.InputOutput(leaf=leaves[first])
            else:
                computed[number] = value
        return bindings, computed

    def _moved(self, objects: Objects) -> list[tuple[int, fx.Node, ir.WriteBackKind]]:
        """Returns the arguments whose view of their memory, or whose memory, changes in the call."""
        moves = []
        for item in self.inputs:
            node = self.graph.placeholders[item.name]
            if not objects.is_moved(node):
                continue
            if item.leaf is None or is_wrapper(item.value):
                raise CaptureError(
                    "FE105",
                    f"{item.name} gets other sizes or strides, and is not a plain argument",
                    hint="create a new tensor, or a view of it",
                )
            if item.leaf in self.repeated:
                raise CaptureError(
                    "FE105",
                    f"{item.name} gets other sizes or strides, and is one tensor with another argument",
                    hint="capture it with distinct tensors: "
                    "a program cannot distinguish arguments that are one tensor",
                )
            kind = ir.WriteBackKind.REPLACE if objects.is_replaced(node) else ir.WriteBackKind.METADATA
            moves.append((item.leaf, objects.last(node), kind))
        return moves


def _bindings(functional: FunctionalGraph, merged: Merged, outputs: Outputs) -> list[ir.OutputBinding]:
    """Returns the binding of each output of the flat function."""
    values: list[object] = [*functional.outputs]
    windows = {w.name for w in merged.windows}
    bindings: list[ir.OutputBinding] = []
    for layout, same in zip(functional.layouts, functional.identical, strict=True):
        count = 1 if layout is None else layout.arg_count
        parts, values = values[:count], values[count:]
        source = None if same is None else merged.inputs[same]
        if source is not None and source.leaf is not None and source.name not in windows:
            bindings.append(ir.InputOutput(leaf=source.leaf))
        else:
            bindings.append(outputs.binding(parts[0], layout, parts[1:]))
    return bindings


def _write_back(leaf: int, node: fx.Node, kind: ir.WriteBackKind, binding: ir.OutputBinding) -> ir.WriteBack:
    assert isinstance(binding, ir.ResultOutput), f"{node} is a plain tensor"
    return ir.WriteBack(result=binding.index, leaf=leaf, kind=kind)


def _written(names: frozenset[str], flat: FlatInputs, merged: Merged) -> tuple[int, ...]:
    """Returns the leaves whose elements change if these inputs are written, and the leaves that wrap them."""
    leaves: set[int] = set()
    for name in names:
        leaf = flat.leaves.get(name)
        if leaf is not None:
            leaves |= {leaf, flat.wrappers.get(leaf, leaf)}
            leaves.update(p.leaf for w in merged.windows if w.name == name for p in w.places)
            leaves.update(i for s in merged.same if leaf in s.leaves for i in s.leaves)
    return tuple(sorted(leaves))
