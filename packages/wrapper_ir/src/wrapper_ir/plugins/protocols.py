"""Protocols of the four kinds of plug-ins: frontends, emitters, kernel runtimes and machines.

Entry points register implementations (`wrapper_ir.plugins.registry`).
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any, Protocol, TypeVar, runtime_checkable

from wrapper_ir import ir
from wrapper_ir.analysis.input_facts import TensorFacts
from wrapper_ir.analysis.overlap import Geometry
from wrapper_ir.artifact import Artifact, TensorData
from wrapper_ir.artifact.group_ranks import GroupRanks
from wrapper_ir.operators.policy import OperatorPolicy

# Any in this file: an emitter's type of code, and values whose types depend on the plug-in.
T = TypeVar("T")
T_co = TypeVar("T_co", covariant=True)

LoadedKernel = Callable[..., None]
"""A kernel ready to launch.

Its arguments are those of the definition's parameters (tensors for pointers and descriptors, Python numbers
for scalars), followed by the numbers of the launch's grid.
"""


class CompiledProgram(Protocol):
    """Compiled program with the model's calling convention."""

    @property
    def boxed(self) -> Callable[[list[Any]], tuple[Any, ...]]:  # Any: tensors and numbers
        """The call with `main`'s flat arguments as a list, which it clears, and `main`'s flat results."""

    def __call__(self, *args: Any, **kwargs: Any) -> Any:  # Any: the model's own signature
        """Calls the model."""


class Frontend(Protocol):
    """Captures models as artifacts. Entry-point group `wrapper_ir.frontends`."""

    @property
    def name(self) -> str:
        """Name of the entry point."""

    # Any: models, arguments and options depend on the frontend.
    def capture(
        self, model: Any, args: tuple[Any, ...], kwargs: Mapping[str, Any] | None = None, **options: Any
    ) -> Artifact:
        """Captures `model` with these example arguments; `options` are keywords of the frontend."""


class Emitter(Protocol[T_co]):
    """Emits artifacts as code for one target. Entry-point group `wrapper_ir.emitters`."""

    @property
    def name(self) -> str:
        """Name of the entry point."""

    def emit(self, artifact: Artifact) -> T_co:
        """Returns the code in the target's type (source text, a graph module, a library)."""

    def write(self, artifact: Artifact, folder: Path) -> tuple[Path, ...]:
        """Writes the code and its dependencies to `folder`; returns the files, the main one first."""

    def compile(self, artifact: Artifact, guarded: ir.Guarded = ir.NOT_GUARDED) -> CompiledProgram:
        """Returns a callable with the model's signature, which does not check `guarded` facts."""


@runtime_checkable
class OperatorEmitter(Protocol):
    """Optional emitter capability: restrict the operators that a program may call (`wir run`)."""

    def with_operators(self, policy: OperatorPolicy) -> Emitter[Any]:
        """Returns the emitter for programs that may call the operators that `policy` allows."""


@runtime_checkable
class BuildingEmitter(Protocol):
    """Optional emitter capability: build a file that runs without this package (`wir build`)."""

    def build_file(self, artifact: Artifact, path: Path, settings: Mapping[str, str]) -> Path:
        """Builds `path` and returns it. `settings` are the emitter's own; it refuses unknown ones."""


@runtime_checkable
class PersistentBufferEmitter(Protocol):
    """Optional emitter capability: reuse intermediate buffers across calls (`persistent_buffers`)."""

    def with_persistent_buffers(self) -> Emitter[Any]:
        """Returns the emitter for callables that allocate and free only results."""


@runtime_checkable
class CudaGraphEmitter(Protocol):
    """Optional emitter capability: capture replayable functions as CUDA graphs (`cuda_graphs`)."""

    @property
    def cuda_graph_passes(self) -> str:
        """Passes that outline the replayable parts of a program into functions."""

    def with_cuda_graphs(self, limit: int) -> Emitter[Any]:
        """Returns the emitter for callables that keep at most `limit` graphs of each function."""


@runtime_checkable
class TuningEmitter(Protocol):
    """Optional emitter capability: tune kernels at their first launches (`tune` of `torch.compile`)."""

    def with_tuning(self) -> Emitter[Any]:
        """Returns the emitter for callables whose kernels are tuned at their first launches."""


@runtime_checkable
class RelocatingEmitter(Protocol):
    """Optional emitter capability: run callables from files in a given folder
    (`inductor_frontend.dump_compilation`)."""

    def relocate(self, program: CompiledProgram, artifact: Artifact, folder: Path) -> tuple[Path, ...]:
        """Writes the code of a callable to `folder` and runs it from there, so that breakpoints work.

        This emitter compiled the callable from `artifact`. Returns the files, the main one first.
        """


class KernelRuntime(Protocol):
    """Loads kernels of one kind. Entry-point group `wrapper_ir.kernel_runtimes`."""

    @property
    def kind(self) -> str:
        """Kind of kernels, which is the name of the entry point."""

    def load(self, kernel: ir.KernelDef, target: ir.Target) -> LoadedKernel:
        """Compiles one kernel, or finds it in a cache, and loads it."""

    def load_all(self, kernels: Sequence[ir.KernelDef], target: ir.Target) -> dict[str, LoadedKernel]:
        """Loads many kernels, in parallel if that is faster; returns them by name."""


@runtime_checkable
class PreparingRuntime(Protocol):
    """Optional runtime capability: load kernels in the background while a frontend compiles."""

    def prepare(self, device_type: str) -> None:
        """Starts to prepare loading for devices of this type (`cuda`) in the background, and returns at once.

        Errors are not raised here, but by loading.
        """

    def compile_early(self, kernels: Sequence[ir.KernelDef], target: ir.Target) -> None:
        """Starts to compile kernels that will be loaded for `target` in the background, and returns at once.

        Errors are not raised here, but by loading.
        """


@runtime_checkable
class AddressComparer(Protocol):
    """Optional runtime capability: compare addresses of tensors in native code."""

    # Any: the library's tensors
    def address_check(
        self, positions: Sequence[int], addresses: Sequence[int]
    ) -> Callable[[list[Any]], bool] | None:
        """Returns a predicate of lists: tensors at `positions` have these `addresses`; None: unsupported."""


@runtime_checkable
class StorageChecker(Protocol):
    """Optional runtime capability: check the storages of tensors in native code."""

    def storage_check(self) -> Callable[..., bool] | None:
        """Returns a predicate of tensors: their storages contain all of their elements; None: unsupported.

        The first call may take long.
        """


@runtime_checkable
class AheadCompiler(KernelRuntime, Protocol):
    """Optional runtime capability: compile ahead of time, also for devices that this machine lacks."""

    def compile_ahead(
        self, kernels: Sequence[ir.KernelDef], target: ir.Target, candidates: bool
    ) -> tuple[ir.KernelBinary, ...]:
        """Compiles kernels with their first configs, or with all `candidates`. Multi-kernels have no code."""

    def with_binaries(self, binaries: Sequence[ir.KernelBinary]) -> KernelRuntime:
        """Returns the runtime that loads kernels from `binaries` instead of compiling them.

        It ignores binaries for other targets, and those that its compiler would compile with another key.
        """


@runtime_checkable
class TuningRuntime(KernelRuntime, Protocol):
    """Optional runtime capability: tune kernels at their first launches."""

    def with_tuning(self) -> KernelRuntime:
        """Returns the runtime that tunes kernels."""


@runtime_checkable
class KernelTuner(Protocol):
    """Optional runtime capability: tune the kernels of an artifact (`wir tune`)."""

    # Any: the machine's tensors
    def tune(
        self,
        artifact: Artifact,
        *,
        machine: Machine[Any] | None = None,
        others: Sequence[Artifact] = (),
        symbols: Mapping[str, int] | None = None,
        inputs: Sequence[Any] | None = None,
        assume: bool = True,
    ) -> Artifact:
        """Returns the artifact with tuned kernels in its program, and the measurements in `Artifact.tuning`.

        Candidates without a time in this artifact or in `others` are measured on `machine`. Without a
        machine, nothing is measured and no device is required. `inputs` are flat arguments of `main` for the
        measurement, `symbols` values of symbols. Those with neither a value nor a hint are assumed; without
        `assume`, launches that depend on them are skipped with a warning.
        """


class Containers(Protocol):
    """Containers of kind CUSTOM: classes that are registered as structures with a tensor library."""

    def flatten(self, spec: ir.TreeSpec, container: object) -> Sequence[object]:
        """Returns the children, in the order of `spec.children`. Raises TypeError for other classes."""

    def builder(self, spec: ir.TreeSpec) -> Callable[[Sequence[object]], object]:
        """Returns a function from children to a container of the class and context of `spec`."""


class CallerTensors(Protocol[T]):
    """Access to the caller's tensors: autograd, memory, and changes beyond the elements."""

    @property
    def containers(self) -> Containers:
        """Structures other than tuples, lists and dicts that users of the library pass and return."""

    def is_tensor(self, x: object) -> bool:
        """Returns whether `x` is a tensor of this library."""

    def facts(self, tensor: T) -> TensorFacts:
        """Returns a tensor's dtype, device, sizes and strides, and whether it is plain strided memory."""

    # Any: the library's type of a dtype, device, layout or memory format
    def native(self, arg: ir.Arg) -> Any:
        """Returns the library's object for a dtype, device, layout or memory format."""

    def needs_gradient(self, leaves: Iterable[object]) -> bool:
        """Returns whether autograd is recording and any leaf requires a gradient."""

    def storage(self, tensor: T) -> Hashable:
        """Returns an identifier of the storage under `tensor`, unique among live storages."""

    def geometry(self, tensor: T) -> Geometry:
        """Returns the tensor's storage, sizes, strides and offset."""

    def window(self, tensor: T, offset: int, count: int) -> T:
        """Returns a 1-d view of `count` elements of the tensor's storage, from element `offset`."""

    def mark_written(self, tensor: T) -> None:
        """Notifies the library that the elements of `tensor` changed outside of it."""

    def copy(self, tensor: T, result: T) -> None:
        """Copies the elements of `result` into `tensor`."""

    def reshape(self, tensor: T, result: T) -> None:
        """Sets the sizes, strides and offset of `tensor` to those of `result`, which shares its storage."""

    def replace(self, tensor: T, result: T) -> None:
        """Sets the storage, sizes, strides and offset of `tensor` to those of `result`."""

    def view_of(self, base: T, result: T) -> T:
        """Returns `result`, which shares storage with `base`, as a view of `base` in the library's sense.

        Returns `result` itself if the library cannot express that.
        """


class Machine(Protocol[T]):
    """Tensor operations for the reference interpreter. Entry-point group `wrapper_ir.machines`.

    `T` is the library's tensor. A one-dimensional `T` of bytes represents a storage.
    """

    @property
    def name(self) -> str:
        """Name of the entry point."""

    def empty_storage(self, type: ir.StorageType, nbytes: int, zero: bool) -> T:
        """Allocates a storage of `nbytes` bytes on the type's device and space."""

    def fill_bytes(self, storage: T, value: int) -> None:
        """Sets every byte of a storage, to poison it."""

    def storage_of(self, tensor: T) -> T:
        """Returns the whole storage under `tensor`, as a one-dimensional byte tensor."""

    def storage_key(self, tensor: T) -> int:
        """Returns an identifier of the storage under `tensor`, unique among live storages."""

    def view(
        self, source: T, type: ir.TensorType, sizes: Sequence[int], strides: Sequence[int], offset: int
    ) -> T:
        """Returns a view at `offset` bytes from the first element (byte) of `source`."""

    def constant(self, data: TensorData, type: ir.TensorType, mutable: bool, alignment: int) -> T:
        """Returns a constant's tensor, aligned to `alignment` bytes; mutable constants are copied."""

    def example(self, type: ir.TensorType, sizes: Sequence[int], strides: Sequence[int], seed: int) -> T:
        """Returns reproducible contents: normal floats, integers 0 and 1 (safe as indices), random bools."""

    def copy(self, dst: T, src: T, non_blocking: bool) -> None:
        """Copies elements with broadcasting and conversion."""

    def align(self, tensor: T, alignment: int) -> T:
        """Returns the tensor itself if it is aligned to `alignment` bytes, otherwise an aligned copy."""

    def resize_storage(self, tensor: T, nbytes: int) -> None:
        """Resizes the storage under `tensor`."""

    def set_storage(self, target: T, source: T) -> None:
        """Changes `target` to a view of `source`'s storage."""

    def clone(self, tensor: T) -> T:
        """Returns a copy with a new storage and the same sizes and strides."""

    def stack(self, tensors: Sequence[T]) -> T:
        """Stacks tensors along a new first dimension."""

    # Any: nested Python structures of T and numbers.
    def call_extern(self, extern: ir.ExternDef, args: Sequence[Any], kwargs: Mapping[str, Any]) -> Any:
        """Calls a library operator; dtypes, devices and so on are already native (`native`)."""

    def native(self, arg: ir.Arg) -> Any:
        """Returns the library's object for a dtype, device, layout or memory format."""

    def sizes(self, tensor: T) -> tuple[int, ...]:
        """Returns the sizes in elements."""

    def strides(self, tensor: T) -> tuple[int, ...]:
        """Returns the strides in elements."""

    def offset(self, tensor: T) -> int:
        """Returns the offset of the first element in its storage, in elements."""

    def item(self, tensor: T) -> int | float | bool:
        """Returns the value of a one-element tensor."""

    def address(self, tensor: T) -> int:
        """Returns the address of the first element, in bytes."""

    def layout_matches(
        self, tensor: T, type: ir.TensorType, sizes: Sequence[int], strides: Sequence[int]
    ) -> bool:
        """Returns whether the sizes, and the strides of dims longer than 1, match."""

    def is_finite(self, tensor: T) -> bool:
        """Returns whether no element is NaN or infinite."""

    # Any: tensors of T and numbers, ordered as the kernel's parameters
    def launch(self, kernel: LoadedKernel, args: Sequence[Any], grid: tuple[int, ...]) -> None:
        """Launches a loaded kernel. The numbers of the launch's `grid` are appended to the arguments."""

    def agree(self, group: str, manifest: Sequence[str]) -> None:
        """Compares manifests among all processes of a group. Raises ExecutionError WIR933 if they differ."""

    def check_group(self, name: str, device: ir.Device, ranks: GroupRanks | None) -> None:
        """Checks that this process may call a program on `device`; `ranks` None allows every rank.

        Raises NotSupportedError WIR915 unless this process belongs to a process group of this name, and
        ExecutionError WIR936 unless its rank is in `ranks`.
        """

    def wait(self, tensor: T) -> T:
        """Waits for the collective of `tensor`; returns the finished tensor, over the same storage."""

    def data(self, tensor: T) -> TensorData:
        """Returns a contiguous copy of the tensor's elements on the host."""

    @property
    def caller(self) -> CallerTensors[T]:
        """Access to the caller's tensors."""

    def synchronize(self, device: ir.Device = ir.CPU) -> None:
        """Waits until the device has finished."""

    def is_tensor(self, x: object) -> bool:
        """Returns whether `x` is a tensor of this library."""
