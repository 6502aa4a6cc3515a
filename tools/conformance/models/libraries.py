"""Statements about a model as a library without torch: its results equal eager's, in fixed and dynamic sizes.

A model is exported, captured and changed as `docs/native.md` recommends: constants packed for this machine,
memory planned. It is called without torch, by `wrapper_ir_native.load`.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

import torch
from torch import Tensor, nn
from torch.export import Dim, ExportedProgram

import inductor_frontend
from cpp_wrapper import CppOptions
from inductor_frontend import CaptureOptions
from tools.conformance.models.statements import require_equal, tensors_of
from tools.conformance.models.zoo import ModelCase
from tools.conformance.native_library import NativeLibrary, native_library
from wrapper_ir_passes import MEMORY_PASSES, run_on_artifact

FIXED, DYNAMIC = "fixed", "dynamic"
STATEMENTS = (FIXED, DYNAMIC)
_NAMES = ("batch", "length")
"""Dimensions that are dynamic: the first of each input, and the second of matrices."""
_WITHOUT_LOSS = frozenset({"speech"})
"""Families whose loss (CTC) torch.export cannot trace: it depends on the lengths of labels."""
_OPTIONS = CppOptions(runtime="native", opt_level=1, precompile_after=0, persistent_buffers=True)
_MEMORY = MEMORY_PASSES.replace("use-out-variants", "use-out-variants{runtime=native}")

Tensors = Mapping[str, Tensor]


@dataclass(frozen=True, slots=True)
class Equal:
    """A library that is right: its dynamic dimensions, and the largest difference to eager mode.

    A difference is relative to the largest number of the result.
    """

    dimensions: tuple[str, ...] = ()
    difference: float = 0.0


class _Results(nn.Module):
    """A model with tensors as its arguments and results."""

    def __init__(self, model: nn.Module, settings: Mapping[str, Any]) -> None:
        super().__init__()
        self.model, self.settings = model, dict(settings)

    def forward(self, inputs: Tensors) -> tuple[Tensor, ...]:
        return tuple(tensors_of(self.model(**inputs, **self.settings)))


def check_library(case: ModelCase, statement: str, announce: Callable[[str], None]) -> Equal:
    """Builds a model as a library and calls it, twice for each size. Raises its errors.

    `announce` receives the step that fails if the process ends: `export` or `ours`.
    """
    announce("export")
    torch.manual_seed(0)
    model = case.make()
    torch.manual_seed(1)
    arguments = case.inputs()
    if case.family in _WITHOUT_LOSS:
        del arguments["labels"]
    inputs = {name: value for name, value in arguments.items() if isinstance(value, Tensor)}
    module = _Results(model, {n: v for n, v in arguments.items() if n not in inputs}).eval()
    with torch.no_grad():
        exported = _exported(module, inputs, statement)
        sizes = _Sizes.of(exported, inputs) if statement == DYNAMIC else None
        calls = [inputs] if sizes is None else [sizes.example, *sizes.others()]
        announce("ours")
        library = _library(exported, calls[0])
        differences = [difference for call in calls for difference in _differences(library, module, call)]
    return Equal(() if sizes is None else sizes.names, max(differences, default=0.0))


class ExportError(Exception):
    """torch.export refuses the model."""


def _exported(module: nn.Module, inputs: Tensors, statement: str) -> ExportedProgram:
    dynamic = None
    if statement == DYNAMIC:
        inputs = _two_rows(inputs)
        dynamic = ({name: dict.fromkeys(range(_dynamic_dims(t)), Dim.AUTO) for name, t in inputs.items()},)
    try:
        return torch.export.export(module, (dict(inputs),), dynamic_shapes=dynamic, strict=False)
    except Exception as error:
        raise ExportError(f"{type(error).__name__}: {error}") from error


def _dynamic_dims(tensor: Tensor) -> int:
    return tensor.ndim if tensor.ndim <= len(_NAMES) else 1


def _two_rows(inputs: Tensors) -> Tensors:
    """Returns inputs of at least two rows: torch.export takes a size of one for a constant."""
    return {n: _resized(t, {0: 2}) if t.shape[0] == 1 else t for n, t in inputs.items()}


def _resized(tensor: Tensor, sizes: Mapping[int, int]) -> Tensor:
    """Returns a tensor of other sizes, which repeats the values of `tensor`."""
    for dim, size in sizes.items():
        tensor = tensor.index_select(dim, torch.arange(size) % tensor.shape[dim])
    return tensor


@dataclass(frozen=True, slots=True)
class _Sizes:
    """The dynamic dimensions of an exported program: for each input, its sizes in terms of symbols."""

    example: Tensors
    shapes: Mapping[str, tuple[Any, ...]]  # Any: sympy's expressions and numbers
    values: Mapping[Any, int] = field(default_factory=dict)

    @classmethod
    def of(cls, exported: ExportedProgram, inputs: Tensors) -> _Sizes:
        """Reads the sizes of a program that was exported with two rows of `inputs`."""
        example = _two_rows(inputs)
        nodes = {node.name: node for node in exported.graph.nodes}
        values, shapes = dict[Any, int](), dict[str, tuple[Any, ...]]()
        for (name, tensor), given in zip(example.items(), exported.graph_signature.user_inputs, strict=True):
            shape = tuple(nodes[str(given)].meta["val"].shape)
            shapes[name] = tuple(map(_size, shape))
            values |= {
                expr: size
                for expr, size in zip(shapes[name], tensor.shape)
                if getattr(expr, "is_Symbol", False)
            }
        return cls(example, shapes, values)

    @property
    def names(self) -> tuple[str, ...]:
        """The names of dimensions that are dynamic."""
        found = {
            d for shape in self.shapes.values() for d, size in enumerate(shape) if not isinstance(size, int)
        }
        return tuple(_NAMES[dim] for dim in sorted(found))

    def others(self) -> Iterator[Tensors]:
        """Yields inputs of other sizes: every dynamic one larger by one, if there is any."""
        if not self.values:
            return
        larger = {symbol: value + 1 for symbol, value in self.values.items()}
        yield {name: self._with(tensor, self.shapes[name], larger) for name, tensor in self.example.items()}

    def _with(self, tensor: Tensor, shape: tuple[Any, ...], values: Mapping[Any, int]) -> Tensor:
        sizes = {d: int(size.subs(values)) for d, size in enumerate(shape) if not isinstance(size, int)}
        return _resized(tensor, sizes)


def _size(size: int | torch.SymInt) -> Any:  # a number, or sympy's expression
    expr = size.node.expr if isinstance(size, torch.SymInt) else size
    return expr if isinstance(expr, int) or not expr.is_number else int(expr)


def _library(exported: ExportedProgram, inputs: Tensors) -> NativeLibrary:
    options = CaptureOptions(fused_convolutions=True)
    artifact = inductor_frontend.capture(exported, (dict(inputs),), options=options)
    level = torch.backends.cpu.get_cpu_capability().lower().replace("default", "generic")
    return native_library(run_on_artifact(artifact, f"pack-constants{{level={level}}},{_MEMORY}"), _OPTIONS)


def _differences(library: NativeLibrary, module: nn.Module, inputs: Tensors) -> Iterator[float]:
    """Calls twice, since the second call uses the memory of the first. Yields the differences."""
    want = module(inputs)
    for _ in range(2):
        got = library(dict(inputs))
        require_equal(got, want)
        yield from (_difference(a, b) for a, b in zip(got, want))


def _difference(actual: Tensor, expected: Tensor) -> float:
    if not expected.numel():
        return 0.0
    largest = expected.double().abs().nan_to_num(0, 0).max().item()
    difference = (actual.double() - expected.double()).abs().nan_to_num(0, 0).max().item()
    return difference / (largest or 1.0)
