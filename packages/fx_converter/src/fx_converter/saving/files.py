"""Graph modules to `.wir` files and back."""

from __future__ import annotations

import dataclasses
import json
import os
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import torch
from torch import Tensor, fx

import wrapper_ir.artifact.file as storage
from fx_converter.constants import load_constants
from fx_converter.converter import make_main, make_module
from fx_converter.effects import mark_operators
from fx_converter.errors import SavedGraphError
from fx_converter.forward import callee_codegen
from fx_converter.graph.metadata import FakeValues
from fx_converter.kernels import KernelTargets, Pending
from fx_converter.options import FxOptions
from fx_converter.origin import Origin, origin_of
from fx_converter.saving.decode import GraphReader
from fx_converter.saving.encode import encode_graph
from fx_converter.saving.windows import moved_windows, placed
from wrapper_ir import ir
from wrapper_ir.analysis.memo import Analyses
from wrapper_ir.artifact import Artifact, TensorData, memory_of
from wrapper_ir.errors import ExpressionError, ParseError, WirError
from wrapper_ir.expr import Int
from wrapper_ir.support.collection import paused_collection
from wrapper_ir.support.files import check_files
from wrapper_ir_torch import DTYPE_OF

# Any in this file: JSON, and attributes of modules.
_NAME = "fx_graph.json"
_VERSION = 1


@paused_collection()
def save(module: fx.GraphModule, path: str | os.PathLike[str], origin: fx.GraphModule | None = None) -> None:
    """Writes a converted graph module, as it is now: with its changes, and what its mutable constants hold.

    The file is the artifact with the graph beside its program: kernels are there by content, and `wrapper_ir.load` reads
    it as any other. `origin` is the converted module that `module` was made from, where `module` has forgotten that.
    Raises SavedGraphError FX201 for what a file cannot name, and for a graph with guarded inputs, and ArtifactError where the file cannot be written.
    """
    made = _Saver(origin_of(origin or module))
    if made.origin.options.guarded != ir.NOT_GUARDED:
        raise SavedGraphError(
            "FX201",
            "the graph does not check its inputs, which its caller here does",
            hint="convert without FxOptions.guarded: a file is called by others",
        )
    main = made.add(module)
    text = json.dumps(
        {
            "version": _VERSION,
            "torch": _release(torch.__version__),
            "kernel_calls": made.origin.options.kernel_calls,
            "convention": made.origin.options.convention,
            "main": main,
            "graphs": made.graphs,
        }
    )
    artifact = made.artifact()
    storage.save(dataclasses.replace(artifact, extensions={**artifact.extensions, _NAME: text}), path)


class _Saver:
    """Collects graphs and constants."""

    def __init__(self, origin: Origin) -> None:
        self.origin = origin
        self.graphs: list[dict[str, Any]] = []
        self._modules: dict[int, int] = {}
        self._names = {id(held): value.name for value, held in origin.constants.items()}
        self._types = {value.name: value.type for value in origin.constants}
        self._taken = {*self._types}
        self._tensors: dict[str, Tensor] = {}

    def add(self, module: fx.GraphModule) -> int:
        """The number of a module's graph."""
        known = self._modules.get(id(module))
        if known is not None:
            return known
        made = encode_graph(module, self._attribute, self.origin.fakes)
        self.graphs.append(made)
        number = self._modules[id(module)] = len(self.graphs) - 1
        return number

    def _attribute(self, name: str, held: Any) -> dict[str, Any]:
        if isinstance(held, fx.GraphModule):
            return {"graph": self.add(held)}
        known = self._names.get(id(held))
        if known is not None and (not isinstance(held, Tensor) or _is_like(held, self._types[known])):
            return {"constant": known}
        if not isinstance(held, Tensor):
            raise SavedGraphError(
                "FX201",
                f"attribute {name!r} is a {type(held).__name__}",
                hint="use tensors and graph modules",
            )
        wish = f"graph.{name}"
        while wish in self._taken:
            wish += "_"
        self._taken.add(wish)
        self._names[id(held)] = wish
        self._types[wish] = _type(held)
        self._tensors[wish] = held
        return {"constant": wish}

    def artifact(self) -> Artifact:
        """The artifact, with tensors that the graph got later, and with what the constants hold at present: whoever has a
        module may write its buffers."""
        origin = self.origin.artifact
        check_files(origin.mapped_files())
        data = dict(origin.constants)
        moved = moved_windows(origin.program, self.origin.constants)
        constants: list[ir.Constant] = []
        for constant in origin.program.constants:
            held = self.origin.constants[constant.value]
            if constant.value in moved:
                constant = dataclasses.replace(constant, storage="", offset=0)
            if isinstance(held, Tensor) and _is_like(held, constant.value.type):
                found = _data(held)
                data[constant.data_name] = placed(found, constant, data.get(constant.data_name))
                constant = dataclasses.replace(constant, data_hash=found.sha256())
            constants.append(constant)
        for name, tensor in self._tensors.items():
            data[name] = found = _data(tensor)
            constants.append(
                ir.Constant(value=ir.Value(name, _type(tensor)), data_hash=found.sha256(), mutable=False)
            )
        program = dataclasses.replace(origin.program, constants=tuple(constants))
        return dataclasses.replace(origin, program=program, constants=data)


def _is_like(tensor: Tensor, type: ir.Type) -> bool:
    """Whether a constant's tensor still has the constant's layout, so that its bytes can stand for it."""
    found = _type(tensor)
    return isinstance(type, ir.TensorType) and (found.dtype, found.sizes, found.strides) == (
        type.dtype,
        type.sizes,
        type.strides,
    )


def _type(tensor: Tensor) -> ir.TensorType:
    return ir.TensorType(
        dtype=DTYPE_OF[tensor.dtype],
        sizes=tuple(Int(n) for n in tensor.shape),
        strides=tuple(Int(n) for n in tensor.stride()),
        device=ir.Device(tensor.device.type, tensor.device.index),
    )


def _data(tensor: Tensor) -> TensorData:
    """The bytes from the first element to the last one; those of the tensor itself where it is on the CPU."""
    count = 0 if 0 in tensor.shape else 1 + sum((n - 1) * s for n, s in zip(tensor.shape, tensor.stride()))
    if tensor.untyped_storage().nbytes() < (tensor.storage_offset() + count) * tensor.element_size():
        raise SavedGraphError("FX201", "the storage of a constant was made smaller than the constant")
    flat = (
        tensor.detach().as_strided((count,), (1,)).cpu()
    )  # as they lie: a copy of the tensor itself closes gaps
    return TensorData(DTYPE_OF[tensor.dtype], memory_of(flat.data_ptr(), count * flat.element_size(), flat))


def _release(version: str) -> str:
    """`2.13` of `2.13.0+cpu`."""
    return ".".join(version.split(".")[:2])


@paused_collection()
def load(
    path: str | os.PathLike[str],
    options: FxOptions | None = None,
    *,
    check_torch: bool = True,
    public_key: str | os.PathLike[str] | bytes | None = None,
) -> fx.GraphModule:
    """Reads a graph module; kernels are loaded through the runtimes that are installed here.

    Of `options`, only how kernels and fake values are made is used. `check_torch` refuses a graph that another release of
    torch wrote. With a `public_key` the file must be signed with the key to it (`wrapper_ir.sign`). Raises ArtifactError for a
    damaged file, SavedGraphError FX202 for a damaged graph, FX203 for one of
    another version, FX204 where an operator is missing; and PluginError for kernels without a runtime. Nothing is
    registered before the whole graph was understood.
    """
    artifact = storage.load(path, public_key=public_key)
    text = artifact.extensions.get(_NAME)
    if text is None:
        raise SavedGraphError("FX202", f"{os.fspath(path)!r} holds no graph", hint="convert the artifact")
    with _damage_in(path):
        said = json.loads(text)
        _check_version(said, check_torch)
        chosen = dataclasses.replace(
            options or FxOptions(), kernel_calls=said["kernel_calls"], convention=said["convention"]
        )
        loader = _Loader(artifact, chosen, said)
        graphs, wanted = loader.graphs()
    kernels = KernelTargets(artifact, chosen.kernel_calls, chosen.find_runtime, wanted)
    mark_operators(Analyses(artifact.program))
    with _damage_in(path):
        return loader.module(graphs, kernels)


@contextmanager
def _damage_in(path: str | os.PathLike[str]) -> Iterator[None]:
    """Whatever torch or Python say of what stands in a file is said of the file."""
    try:
        yield
    except Exception as error:
        if isinstance(error, WirError) and not isinstance(error, ParseError | ExpressionError):
            raise
        raise SavedGraphError(
            "FX202", f"the graph in {os.fspath(path)!r} cannot be read: {type(error).__name__}: {error}"
        ) from error


def _check_version(said: dict[str, Any], check_torch: bool) -> None:
    if said["version"] != _VERSION:
        raise SavedGraphError(
            "FX203", f"the graph has version {said['version']}, this package reads {_VERSION}"
        )
    if check_torch and said["torch"] != _release(torch.__version__):
        raise SavedGraphError(
            "FX203",
            f"the graph was written with torch {said['torch']}, and this is {torch.__version__}",
            hint="convert the artifact again, or load with check_torch=False",
        )


class _Loader:
    """Makes the modules of a file: first all graphs with names for kernels, then, with the kernels, the modules. Those that
    are called come before those that call them, so that the main one is the last."""

    def __init__(self, artifact: Artifact, options: FxOptions, said: dict[str, Any]) -> None:
        self._artifact = artifact
        self._options = options
        self._said = said
        self._fakes = FakeValues(artifact.program, options.fake_mode)

    def graphs(self) -> tuple[list[fx.Graph], tuple[str, ...]]:
        """The graphs, and the content hashes of the kernels that they call."""
        wanted: dict[str, None] = {}

        def kernel(hash: str, form: str) -> Pending:
            wanted[hash] = None
            return Pending(hash, form, "kernel")

        graphs = [
            GraphReader(kernel, self._fakes, graph["attributes"], self._options.operators).read(
                graph["nodes"]
            )
            for graph in self._said["graphs"]
        ]
        return graphs, tuple(wanted)

    def module(self, graphs: list[fx.Graph], kernels: KernelTargets) -> fx.GraphModule:
        """The main module."""
        constants = load_constants(self._artifact, Analyses(self._artifact.program))
        by_name = {value.name: held for value, held in constants.items()}
        for node in (node for graph in graphs for node in graph.nodes):
            if isinstance(node.target, Pending):
                kernels.resolve(node, node.target)
        if self._said["main"] != len(graphs) - 1:
            raise SavedGraphError("FX202", "the main graph is not the last one")
        made: list[fx.GraphModule] = []
        for graph, said in zip(graphs, self._said["graphs"], strict=True):
            attributes = {n: _attribute(a, made, by_name) for n, a in said["attributes"].items()}
            name = str(said["name"])
            if len(made) < len(graphs) - 1:
                called = callee_codegen(self._options.kernel_calls)
                made.append(make_module(graph, attributes, name, called))
        origin = Origin(
            artifact=self._artifact, options=self._options, constants=constants, fakes=self._fakes
        )
        return make_main(graphs[-1], attributes, name, origin, kernels)


def _attribute(said: dict[str, Any], made: list[fx.GraphModule], constants: dict[str, Any]) -> Any:
    if "graph" in said:
        return made[said["graph"]]
    return constants[said["constant"]]
