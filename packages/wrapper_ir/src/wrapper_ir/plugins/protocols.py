"""The four places where others plug in: frontends, emitters, kernel runtimes and machines.

Implementations are found by entry points (`wrapper_ir.plugins.registry`); nothing is patched.
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

T = TypeVar("T")
T_co = TypeVar("T_co", covariant=True)

LoadedKernel = Callable[..., None]
"""A kernel ready to launch: called with the arguments in the order of the definition's parameters (tensors for
pointers and descriptors, Python numbers for scalars), and then with the numbers of the launch's grid."""


class CompiledProgram(Protocol):
    """What emitters compile to: called with the model's own arguments, it returns the model's own structure."""

    @property
    def boxed(self) -> Callable[[list[Any]], tuple[Any, ...]]:  # Any: tensors and numbers
        """Takes `main`'s flat arguments in a list, which it empties, and returns `main`'s flat results."""

    def __call__(self, *args: Any, **kwargs: Any) -> Any:  # Any: the model's own signature
        """One call of the model."""


class Frontend(Protocol):
    """Captures models as artifacts. Entry-point group `wrapper_ir.frontends`."""

    @property
    def name(self) -> str:
        """The name of its entry point."""

    # Any: models, arguments and options are the frontend's own world.
    def capture(
        self, model: Any, args: tuple[Any, ...], kwargs: Mapping[str, Any] | None = None, **options: Any
    ) -> Artifact:
        """Captures `model` called with these example arguments; `options` are the frontend's own keywords."""


class Emitter(Protocol[T_co]):
    """Writes artifacts as code for one target. Entry-point group `wrapper_ir.emitters`."""

    @property
    def name(self) -> str:
        """The name of its entry point."""

    def emit(self, artifact: Artifact) -> T_co:
        """The code, as the target's own type (source text, a graph module, a library)."""

    def write(self, artifact: Artifact, folder: Path) -> tuple[Path, ...]:
        """Writes the code (and what it needs to run) into `folder`; returns the files, the main one first."""

    def compile(self, artifact: Artifact, guarded: ir.Guarded = ir.NOT_GUARDED) -> CompiledProgram:
        """A callable with the model's own signature; it does not check what is `guarded`."""


@runtime_checkable
class OperatorEmitter(Protocol):
    """An `Emitter` that restricts which operators a program may call. `wir run` asks for it."""

    # Any: the code, as the emitter's own type
    def with_operators(self, policy: OperatorPolicy) -> Emitter[Any]:
        """The same emitter, for programs that may call the operators that `policy` allows."""


@runtime_checkable
class PersistentBufferEmitter(Protocol):
    """What an `Emitter` offers besides where its callables can hold the memory of intermediate results from call to call;
    the option `persistent_buffers` of `torch.compile`'s backend asks for it."""

    # Any: the code, as the emitter's own type
    def with_persistent_buffers(self) -> Emitter[Any]:
        """The same emitter, for callables that neither allocate nor free what is not a result."""


@runtime_checkable
class RecordingEmitter(Protocol):
    """What an `Emitter` offers besides where its callables record the recordable functions of a program, as CUDA graphs; the option
    `recordings` of `torch.compile`'s backend asks for it."""

    @property
    def recording_passes(self) -> str:
        """The passes that put what its callables can record into such functions."""

    # Any: the code, as the emitter's own type
    def with_recordings(self, limit: int) -> Emitter[Any]:
        """The same emitter, for callables that hold at most `limit` recordings of each function."""


@runtime_checkable
class TuningEmitter(Protocol):
    """What an `Emitter` offers besides where its callables may measure what a program leaves open of its kernels; the option
    `tune` of `torch.compile`'s backend asks for it."""

    # Any: the code, as the emitter's own type
    def with_tuning(self) -> Emitter[Any]:
        """The same emitter, for callables whose kernels are tuned at their first launches."""


@runtime_checkable
class RelocatingEmitter(Protocol):
    """What an `Emitter` offers besides where its callables can run from files in a folder of the caller's choice;
    `inductor_frontend.dump_compilation` asks for it."""

    def relocate(self, program: CompiledProgram, artifact: Artifact, folder: Path) -> tuple[Path, ...]:
        """Writes the code of a callable that this emitter compiled of `artifact` into `folder`, and lets it run from there:
        breakpoints in the files are hit. Returns the files, the main one first."""


class KernelRuntime(Protocol):
    """Loads kernels of one kind. Entry-point group `wrapper_ir.kernel_runtimes`."""

    @property
    def kind(self) -> str:
        """The kind of kernels that it loads, which is the name of its entry point."""

    def load(self, kernel: ir.KernelDef, target: ir.Target) -> LoadedKernel:
        """Compiles (or finds in a cache) and loads one kernel."""

    def load_all(self, kernels: Sequence[ir.KernelDef], target: ir.Target) -> dict[str, LoadedKernel]:
        """Loads many kernels at once, in parallel where that helps; by kernel name."""


@runtime_checkable
class PreparingRuntime(Protocol):
    """What a `KernelRuntime` offers besides where loading its first kernels takes long: a frontend that is about to compile a
    program asks for it."""

    def prepare(self, device_type: str) -> None:
        """Starts, in the background, what loading kernels for devices of this type (`cuda`) takes, and returns at once. Raises
        nothing for what cannot be started: loading says so."""

    def compile_early(self, kernels: Sequence[ir.KernelDef], target: ir.Target) -> None:
        """Starts, in the background, to compile kernels that are about to be loaded for `target`, and returns at once. Raises nothing
        for what does not compile: loading says so."""


@runtime_checkable
class AddressComparer(Protocol):
    """What a `KernelRuntime` offers besides where native code of its reads the tensors of emitted programs."""

    # Any: the library's tensors
    def address_check(
        self, positions: Sequence[int], addresses: Sequence[int]
    ) -> Callable[[list[Any]], bool] | None:
        """What says of a list whether its tensors at these positions lie at these addresses; None where the runtime cannot."""


@runtime_checkable
class StorageChecker(Protocol):
    """What a `KernelRuntime` offers besides where native code of its can check the storages of tensors."""

    # Any: the library's tensors
    def storage_check(self) -> Callable[..., bool] | None:
        """What says whether the storages of its arguments, tensors, hold all of their elements; None where the runtime cannot. It may
        take long the first time."""


@runtime_checkable
class AheadCompiler(KernelRuntime, Protocol):
    """A kernel runtime that compiles ahead of time, also for devices that this machine does not have."""

    def compile_ahead(
        self, kernels: Sequence[ir.KernelDef], target: ir.Target, candidates: bool
    ) -> tuple[ir.KernelBinary, ...]:
        """Compiles kernels with their first configs, or with all `candidates`. Kernels that choose among others have no
        code of their own."""

    def with_binaries(self, binaries: Sequence[ir.KernelBinary]) -> KernelRuntime:
        """The same runtime, which loads kernels from `binaries` instead of compiling them. It ignores binaries for other
        targets, and those that its compiler would make differently today."""


@runtime_checkable
class TuningRuntime(KernelRuntime, Protocol):
    """A kernel runtime that can tune kernels at their first launches."""

    def with_tuning(self) -> KernelRuntime:
        """The same runtime, which does."""


@runtime_checkable
class KernelTuner(Protocol):
    """A `KernelRuntime` whose kernels have choices to tune. `wir tune` asks for it."""

    # Any: the machine's tensors
    def tune(
        self,
        artifact: Artifact,
        *,
        machine: Machine[Any] | None = None,
        others: Sequence[Artifact] = (),
        given: Mapping[str, int] | None = None,
        inputs: Sequence[Any] | None = None,
        assume: bool = True,
    ) -> Artifact:
        """The artifact with the choices of its kernels written into its program, and what was measured for them into its
        record (`Artifact.tuning`).

        Candidates without a time in the artifact's own record or in `others` are measured on `machine`. Without a
        machine nothing is measured and no device is needed. `inputs` are flat arguments of `main` to measure on, `given`
        values of symbols. Symbols that have neither a given value nor a hint are assumed; without `assume`, launches that
        need them are skipped with a warning.
        """


class Containers(Protocol):
    """Containers of kind CUSTOM: classes that are registered with a tensor library as structures."""

    def flatten(self, spec: ir.TreeSpec, container: object) -> Sequence[object]:
        """The children, in the order of `spec.children`; raises TypeError for an object of another class."""

    def builder(self, spec: ir.TreeSpec) -> Callable[[Sequence[object]], object]:
        """A function from children to a container of the class and with the context that `spec` names."""


class CallerTensors(Protocol[T]):
    """What a calling convention needs from a tensor library for the caller's tensors: whether autograd has to record the
    call, where the tensors lie in memory, and how a call changes them beyond their elements.
    """

    @property
    def containers(self) -> Containers:
        """The structures beyond tuples, lists and dicts that the library's users pass and return."""

    def is_tensor(self, x: object) -> bool:
        """Whether `x` is this library's tensor."""

    def facts(self, tensor: T) -> TensorFacts:
        """A tensor's dtype, device, sizes and strides, and whether it is plain strided memory."""

    # Any: the library's own object for a dtype, device, layout or memory format
    def native(self, arg: ir.Arg) -> Any:
        """The library's own object for a dtype, device, layout or memory format."""

    # Any: among leaves there are numbers, too
    def needs_gradient(self, leaves: Iterable[Any]) -> bool:
        """Whether autograd is recording and any of these requires a gradient."""

    def storage(self, tensor: T) -> Hashable:
        """An identifier of the storage under `tensor`, unique among live storages."""

    def geometry(self, tensor: T) -> Geometry:
        """The tensor's storage, sizes, strides and offset."""

    def window(self, tensor: T, offset: int, count: int) -> T:
        """`count` elements of the storage under `tensor`, from element `offset` on, as a one-dimensional view."""

    def mark_written(self, tensor: T) -> None:
        """Tells the library that something else changed the elements of `tensor`."""

    def copy(self, tensor: T, result: T) -> None:
        """The elements of `tensor` become those of `result`."""

    def reshape(self, tensor: T, result: T) -> None:
        """`tensor` takes the sizes, strides and offset of `result`, which lies in its storage."""

    def replace(self, tensor: T, result: T) -> None:
        """`tensor` takes storage, sizes, strides and offset of `result`."""

    def view_of(self, base: T, result: T) -> T:
        """`result` as a tensor that the library knows to be a view of `base`; the two share storage. `result` itself where
        the library cannot express that."""


class Machine(Protocol[T]):
    """What the reference interpreter needs from a tensor library. Entry-point group `wrapper_ir.machines`.

    `T` is the library's tensor. A storage is represented by a one-dimensional `T` of bytes.
    """

    @property
    def name(self) -> str:
        """The name of its entry point."""

    def empty_storage(self, type: ir.StorageType, nbytes: int, zero: bool) -> T:
        """New storage of `nbytes` bytes on the type's device and space."""

    def fill_bytes(self, storage: T, value: int) -> None:
        """Sets every byte of a storage (poisoning)."""

    def storage_of(self, tensor: T) -> T:
        """The bytes of the whole storage under `tensor`, as a one-dimensional byte tensor."""

    def storage_key(self, tensor: T) -> int:
        """An identifier of the storage under `tensor`, unique among live storages."""

    def view(
        self, source: T, type: ir.TensorType, sizes: Sequence[int], strides: Sequence[int], offset: int
    ) -> T:
        """A view at `offset` bytes from the first element (byte) of `source`."""

    def constant(self, data: TensorData, type: ir.TensorType, mutable: bool, alignment: int) -> T:
        """A constant's tensor, at a multiple of `alignment` bytes; mutable ones get memory of their own."""

    def example(self, type: ir.TensorType, sizes: Sequence[int], strides: Sequence[int], seed: int) -> T:
        """A tensor with reproducible contents: normal floats, integers 0 and 1 (safe as indices), random bools."""

    def copy(self, dst: T, src: T, non_blocking: bool) -> None:
        """Elementwise copy with broadcasting and conversion."""

    def align(self, tensor: T, alignment: int) -> T:
        """The tensor itself when its address is a multiple of `alignment`, else an aligned copy."""

    def resize_storage(self, tensor: T, nbytes: int) -> None:
        """Resizes the storage under `tensor`."""

    def set_storage(self, target: T, source: T) -> None:
        """Makes `target` a view of `source`'s storage."""

    def clone(self, tensor: T) -> T:
        """A copy with new storage and the same sizes and strides."""

    def stack(self, tensors: Sequence[T]) -> T:
        """Stacks along a new first dimension."""

    # Any: nested Python structures of T and numbers.
    def call_extern(self, extern: ir.ExternDef, args: Sequence[Any], kwargs: Mapping[str, Any]) -> Any:
        """Calls a library operator; dtypes, devices and so on are already native (`native`)."""

    def native(self, arg: ir.Arg) -> Any:
        """The library's own object for a dtype, device, layout or memory format."""

    def sizes(self, tensor: T) -> tuple[int, ...]:
        """Sizes in elements."""

    def strides(self, tensor: T) -> tuple[int, ...]:
        """Strides in elements."""

    def offset(self, tensor: T) -> int:
        """Offset of the first element in its storage, in elements."""

    def item(self, tensor: T) -> int | float | bool:
        """The value of a one-element tensor."""

    def address(self, tensor: T) -> int:
        """Address of the first element, in bytes."""

    def layout_matches(
        self, tensor: T, type: ir.TensorType, sizes: Sequence[int], strides: Sequence[int]
    ) -> bool:
        """Whether sizes, and strides of dims longer than 1, are these."""

    def is_finite(self, tensor: T) -> bool:
        """Whether no element is NaN or infinite."""

    # Any: tensors of T and numbers, ordered as the kernel's parameters
    def launch(self, kernel: LoadedKernel, args: Sequence[Any], grid: tuple[int, ...]) -> None:
        """Launches a loaded kernel. `grid` holds the numbers of the launch's grid; they are appended to the arguments."""

    def agree(self, group: str, manifest: Sequence[str]) -> None:
        """Returns when all processes of a group have the same lines; raises ExecutionError WIR933."""

    def check_group(self, name: str, device: ir.Device, ranks: GroupRanks | None) -> None:
        """Before a call of a program on `device`: raises NotSupportedError WIR915 unless this process belongs to a process group of this
        name, ExecutionError WIR936 unless it is one of `ranks`; None: any may call it."""

    def wait(self, tensor: T) -> T:
        """Waits until the collective that makes `tensor` has finished; the finished tensor, over the same storage."""

    def data(self, tensor: T) -> TensorData:
        """A contiguous copy of the tensor's elements, on the host."""

    @property
    def caller(self) -> CallerTensors[T]:
        """What a call of an artifact does with the caller's tensors."""

    def synchronize(self, device: ir.Device = ir.CPU) -> None:
        """Waits until the device has finished."""

    def is_tensor(self, x: object) -> bool:
        """Whether `x` is this library's tensor."""
