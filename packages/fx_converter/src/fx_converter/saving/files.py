"""Saves graph modules as `.wir` files, and loads them."""

from __future__ import annotations

import dataclasses
import json
import os
from collections.abc import Iterator, Mapping
from contextlib import contextmanager

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
from fx_converter.saving.decode import GraphReader, Json
from fx_converter.saving.encode import Json as Encoded
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

_NAME = "fx_graph.json"
_VERSION = 1


@paused_collection()
def save(module: fx.GraphModule, path: str | os.PathLike[str], origin: fx.GraphModule | None = None) -> None:
    """Writes a converted graph module in its present state: with its changes, and the present contents of
    mutable constants.

    The file is the artifact with the graph beside its program. It contains kernels by content, and
    `wrapper_ir.load` reads it like any other. `origin` is the converted module that `module` was created
    from, if `module` has no record of it. Raises SavedGraphError FX201 for targets and attributes that a file
    cannot name, and for a graph with guarded inputs; ArtifactError if the file cannot be written.
    """
    saver = _Saver(origin_of(origin or module))
    if saver.origin.options.guarded != ir.NOT_GUARDED:
        raise SavedGraphError(
            "FX201",
            "the graph does not check its inputs; its present caller does",
            hint="convert without FxOptions.guarded: a file has other callers",
        )
    main = saver.add(module)
    text = json.dumps(
        {
            "version": _VERSION,
            "torch": _release(torch.__version__),
            "kernel_calls": saver.origin.options.kernel_calls,
            "convention": saver.origin.options.convention,
            "main": main,
            "graphs": saver.graphs,
        }
    )
    artifact = saver.artifact()
    storage.save(dataclasses.replace(artifact, extensions={**artifact.extensions, _NAME: text}), path)


class _Saver:
    """Collects graphs and constants."""

    def __init__(self, origin: Origin) -> None:
        self.origin = origin
        self.graphs: list[Mapping[str, Encoded]] = []
        self._modules: dict[int, int] = {}
        self._names = {id(data): value.name for value, data in origin.constants.items()}
        self._types = {value.name: value.type for value in origin.constants}
        self._used_names = {*self._types}
        self._tensors: dict[str, Tensor] = {}

    def add(self, module: fx.GraphModule) -> int:
        """Returns the number of a module's graph; encodes it on the first call."""
        number = self._modules.get(id(module))
        if number is None:
            self.graphs.append(encode_graph(module, self._attribute, self.origin.fakes))
            number = self._modules[id(module)] = len(self.graphs) - 1
        return number

    def _attribute(self, name: str, value: object) -> Encoded:
        if isinstance(value, fx.GraphModule):
            return {"graph": self.add(value)}
        constant = self._names.get(id(value))
        if constant is not None and (not isinstance(value, Tensor) or _is_like(value, self._types[constant])):
            return {"constant": constant}
        if not isinstance(value, Tensor):
            raise SavedGraphError(
                "FX201",
                f"attribute {name!r} is a {type(value).__name__}",
                hint="use tensors and graph modules",
            )
        candidate = f"graph.{name}"
        while candidate in self._used_names:
            candidate += "_"
        self._used_names.add(candidate)
        self._names[id(value)] = candidate
        self._types[candidate] = _type(value)
        self._tensors[candidate] = value
        return {"constant": candidate}

    def artifact(self) -> Artifact:
        """Returns the artifact with tensors that were added to the graph, and with the present contents of
        constants, since callers may write a module's buffers."""
        origin = self.origin.artifact
        check_files(origin.mapped_files())
        data = dict(origin.constants)
        moved = moved_windows(origin.program, self.origin.constants)
        constants: list[ir.Constant] = []
        for constant in origin.program.constants:
            current = self.origin.constants[constant.value]
            if constant.value in moved:
                constant = dataclasses.replace(constant, storage="", offset=0)
            if isinstance(current, Tensor) and _is_like(current, constant.value.type):
                content = _data(current)
                data[constant.data_name] = placed(content, constant, data.get(constant.data_name))
                constant = dataclasses.replace(constant, data_hash=content.sha256())
            constants.append(constant)
        for name, tensor in self._tensors.items():
            data[name] = content = _data(tensor)
            constants.append(
                ir.Constant(value=ir.Value(name, _type(tensor)), data_hash=content.sha256(), mutable=False)
            )
        program = dataclasses.replace(origin.program, constants=tuple(constants))
        return dataclasses.replace(origin, program=program, constants=data)


def _is_like(tensor: Tensor, type: ir.Type) -> bool:
    """Returns whether a constant's tensor still has the constant's layout, so that its bytes can replace the
    constant's."""
    actual = _type(tensor)
    return isinstance(type, ir.TensorType) and (actual.dtype, actual.sizes, actual.strides) == (
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
    """Returns the bytes from the first element to the last one; on the CPU, those of the tensor itself."""
    count = 0 if 0 in tensor.shape else 1 + sum((n - 1) * s for n, s in zip(tensor.shape, tensor.stride()))
    if tensor.untyped_storage().nbytes() < (tensor.storage_offset() + count) * tensor.element_size():
        raise SavedGraphError("FX201", "the storage of a constant was made smaller than the constant")
    flat = tensor.detach().as_strided((count,), (1,)).cpu()  # with its gaps, which a copy of `tensor` closes
    return TensorData(DTYPE_OF[tensor.dtype], memory_of(flat.data_ptr(), count * flat.element_size(), flat))


def _release(version: str) -> str:
    """Returns `2.13` of `2.13.0+cpu`."""
    return ".".join(version.split(".")[:2])


@paused_collection()
def load(
    path: str | os.PathLike[str],
    options: FxOptions | None = None,
    *,
    check_torch: bool = True,
    public_key: str | os.PathLike[str] | bytes | None = None,
) -> fx.GraphModule:
    """Loads a graph module. Kernels are loaded by the installed runtimes.

    Of `options`, only those for the creation of kernels and fake values are used. `check_torch` refuses a
    graph that another release of torch wrote. With a `public_key` the file must be signed with the matching
    key (`wrapper_ir.sign`). Raises ArtifactError for a damaged file, SavedGraphError FX202 for a damaged
    graph, FX203 for one of another version, FX204 if an operator is missing; and PluginError for kernels
    without a runtime. Nothing is registered before the whole graph was checked.
    """
    artifact = storage.load(path, public_key=public_key)
    text = artifact.extensions.get(_NAME)
    if text is None:
        raise SavedGraphError("FX202", f"{os.fspath(path)!r} contains no graph", hint="convert the artifact")
    with _damage_in(path):
        document = json.loads(text)
        _check_version(document, check_torch)
        settings = dataclasses.replace(
            options or FxOptions(), kernel_calls=document["kernel_calls"], convention=document["convention"]
        )
        loader = _Loader(artifact, settings, document)
        graphs, hashes = loader.graphs()
    kernels = KernelTargets(artifact, settings.kernel_calls, settings.find_runtime, hashes)
    mark_operators(Analyses(artifact.program))
    with _damage_in(path):
        return loader.module(graphs, kernels)


@contextmanager
def _damage_in(path: str | os.PathLike[str]) -> Iterator[None]:
    """Converts errors of torch or Python about the contents of a file to errors about the file."""
    try:
        yield
    except Exception as error:
        if isinstance(error, WirError) and not isinstance(error, ParseError | ExpressionError):
            raise
        raise SavedGraphError(
            "FX202", f"the graph in {os.fspath(path)!r} cannot be read: {type(error).__name__}: {error}"
        ) from error


def _check_version(document: Json, check_torch: bool) -> None:
    if document["version"] != _VERSION:
        raise SavedGraphError(
            "FX203", f"the graph has version {document['version']}, this package reads {_VERSION}"
        )
    if check_torch and document["torch"] != _release(torch.__version__):
        raise SavedGraphError(
            "FX203",
            f"the graph was written with torch {document['torch']}, and this is {torch.__version__}",
            hint="convert the artifact again, or load with check_torch=False",
        )


class _Loader:
    """Creates the modules of a file: first all graphs with placeholders for kernels, then, with the kernels,
    the modules. Called modules precede their callers, so the main one is the last."""

    def __init__(self, artifact: Artifact, options: FxOptions, document: Json) -> None:
        self._artifact = artifact
        self._options = options
        self._document = document
        self._fakes = FakeValues(artifact.program, options.fake_mode)

    def graphs(self) -> tuple[list[fx.Graph], tuple[str, ...]]:
        """Returns the graphs, and the content hashes of the kernels that they call."""
        hashes: dict[str, None] = {}

        def kernel(hash: str, form: str) -> Pending:
            hashes[hash] = None
            return Pending(hash, form, "kernel")

        graphs = [
            GraphReader(kernel, self._fakes, graph["attributes"], self._options.operators).read(
                graph["nodes"]
            )
            for graph in self._document["graphs"]
        ]
        return graphs, tuple(hashes)

    def module(self, graphs: list[fx.Graph], kernels: KernelTargets) -> fx.GraphModule:
        """Returns the main module."""
        constants = load_constants(self._artifact, Analyses(self._artifact.program))
        by_name = {value.name: constant for value, constant in constants.items()}
        for node in (node for graph in graphs for node in graph.nodes):
            if isinstance(node.target, Pending):
                kernels.resolve(node, node.target)
        if self._document["main"] != len(graphs) - 1:
            raise SavedGraphError("FX202", "the main graph is not the last one")
        modules: list[fx.GraphModule] = []
        for graph, entry in zip(graphs, self._document["graphs"], strict=True):
            attributes = {n: _attribute(a, modules, by_name) for n, a in entry["attributes"].items()}
            name = str(entry["name"])
            if len(modules) < len(graphs) - 1:
                generator = callee_codegen(self._options.kernel_calls)
                modules.append(make_module(graph, attributes, name, generator))
        origin = Origin(
            artifact=self._artifact, options=self._options, constants=constants, fakes=self._fakes
        )
        return make_main(graphs[-1], attributes, name, origin, kernels)


def _attribute(entry: Json, modules: list[fx.GraphModule], constants: dict[str, object]) -> object:
    if "graph" in entry:
        return modules[entry["graph"]]
    return constants[entry["constant"]]
