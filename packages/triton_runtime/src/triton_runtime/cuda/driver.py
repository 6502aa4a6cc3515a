"""The driver of CUDA devices."""

from __future__ import annotations

import array
import threading
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass, field

from triton_runtime.cuda import tensors
from triton_runtime.cuda.explain import Explainer
from triton_runtime.cuda.extension import Extension, Hooks, load_extension
from triton_runtime.cuda.functions import DRIVER_FUNCTIONS, GRAPH_FUNCTIONS, addresses
from triton_runtime.cuda.launcher_build import PREBUILT
from triton_runtime.cuda.program import numbers_of, steps_of
from triton_runtime.cuda.repeated import OperatorRepeater
from triton_runtime.cuda.slots import Slot, SlotKind, make_slots
from triton_runtime.errors import DriverError, KernelError
from triton_runtime.protocols import Launchable
from triton_runtime.settings import Settings, read_settings
from wrapper_ir import ir
from wrapper_ir.errors import WirError
from wrapper_ir.plugins.protocols import LoadedKernel


@dataclass(frozen=True, slots=True, kw_only=True)
class CudaOptions:
    """Options of launches.

    `check_args`: compare dtype and device of every tensor with the definition at each launch, and check the
    alignment of addresses and numbers that the code assumes. It costs a few nanoseconds per tensor; a launch
    on wrong memory costs the process. Counts and Python types are always checked. `library` is the CUDA
    driver's library. `stream` returns the raw stream for launches on the device with an index; None uses
    torch's current one.
    """

    check_args: bool = True
    library: str = "libcuda.so.1"
    stream: Callable[[int], int] | None = None


@dataclass(frozen=True, slots=True)
class _Session:
    """State shared by all kernels of a driver."""

    extension: Extension
    api: object
    hooks: Hooks
    in_place: bool


@dataclass(slots=True, kw_only=True)
class CudaDriver:
    """Runs kernels on CUDA devices through the CUDA driver. Nothing is opened or built before first use.

    `settings`: None reads the environment.
    """

    options: CudaOptions = field(default_factory=CudaOptions)
    settings: Settings | None = None
    name: str = field(default="cuda", init=False)
    needs_binary: bool = field(default=True, init=False)
    _session: _Session | None = field(default=None, init=False, repr=False)
    _lock: threading.Lock = field(default_factory=threading.Lock, init=False, repr=False)

    @property
    def hooks(self) -> Hooks:
        """Hooks around all launches of this driver's kernels, whenever loaded; None costs nothing.

        Raises DriverError, as `load` does.
        """
        return self._open().hooks

    @property
    def extension(self) -> Extension:
        """The launcher's module. Raises DriverError, as `load` does."""
        return self._open().extension

    @property
    def native(self) -> Extension | None:
        """The launcher's module if it reads tensors without calling Python; otherwise, or without a driver,
        None.
        """
        try:
            session = self._open()
        except DriverError:
            return None
        return session.extension if session.in_place else None

    @property
    def opened(self) -> Extension | None:
        """`native` if the driver is open already.

        Opening it only for this would keep the process from forking.
        """
        return self.native if self._session is not None else None

    def operator_repeater(self, device: ir.Device) -> OperatorRepeater | None:
        """Returns an operator repeater for a device.

        Returns None if the launcher cannot read tensors without calling Python, or for a driver before CUDA
        12.4.
        """
        try:
            session = self._open()
            functions = addresses(self.options.library, GRAPH_FUNCTIONS)
        except (DriverError, OSError):
            return None
        if not session.in_place:
            return None
        return OperatorRepeater(
            session.extension,
            session.api,
            functions,
            (device.index or 0, *tensors.device_number(device)),
            self._stream_source(device),
        )

    def _stream_source(self, device: ir.Device) -> tuple[int, Callable[[int], int] | None]:
        return tensors.stream_source(device) if self.options.stream is None else (0, self.options.stream)

    def prepare(self) -> None:
        """Builds the launcher in the background if the wheel has none.

        The first use waits and raises errors.
        """
        if not PREBUILT.exists():
            threading.Thread(target=self._build, name="triton-launcher", daemon=True).start()

    def _build(self) -> None:
        with suppress(DriverError, WirError, OSError):
            load_extension(self.settings or read_settings())

    def load(self, launchable: Launchable, device: ir.Device) -> LoadedKernel:
        """Loads the binary onto the device and returns its launch function.

        Arguments are the definition's: tensors, numbers, then the numbers of the grid. The keyword `stream`
        selects a raw stream instead of the current one. If the index of `device` is None, the kernel is
        loaded onto the current device. Raises KernelError TR109 or TR110, and DriverError TR501 to TR505.
        Launches raise LaunchError TR301 to TR303 and TR306 to TR308. TR308 and TR505 are
        torch.OutOfMemoryError if the device's memory is full.
        """
        binary = launchable.binary
        if binary is None:
            raise KernelError("TR110", f"kernel '{launchable.kernel.name}' has no binary to load")
        session = self._open()
        where = tensors.current_device(device)
        stream = self._stream_source(where)
        slots, extras = self._layout(launchable, binary, session)
        facts = binary.facts
        return session.extension.load(
            session.api,
            binary.image,
            facts.symbol,
            launchable.kernel.name,
            Explainer(launchable.kernel, where, facts.shared_bytes),
            (where.index or 0, *tensors.device_number(where), self.options.check_args),
            (facts.threads, facts.cluster[0], facts.shared_bytes, facts.cooperative, facts.dependent_launch),
            (facts.scratch.nbytes, facts.scratch.align, facts.profile.nbytes, facts.profile.align),
            len(launchable.grid.params),
            tuple(slot.packed() for slot in slots),
            steps_of(launchable.grid),
            extras,
            launchable.grid,
            stream,
            tensors.make_allocator(where),
            session.hooks,
        )

    def _layout(
        self, launchable: Launchable, binary: ir.KernelBinary, session: _Session
    ) -> tuple[list[Slot], bytes]:
        """The kernel's parameters, and positions of the other numbers of the grid."""
        number = tensors.dtype_number(session.extension, session.in_place)
        slots = make_slots(binary.params, len(launchable.kernel.params), number)
        whole = {s.position for s in slots if s.kind in (SlotKind.SIGNED, SlotKind.UNSIGNED)}
        extras = (
            [i for i in numbers_of(launchable.grid) if i not in whole] if steps_of(launchable.grid) else []
        )
        return slots, array.array("i", extras).tobytes()

    def _open(self) -> _Session:
        with self._lock:
            if self._session is None:
                self._session = self._new_session()
            return self._session

    def _new_session(self) -> _Session:
        extension = load_extension(self.settings or read_settings())
        try:
            api = extension.open_driver(addresses(self.options.library, DRIVER_FUNCTIONS))
        except OSError as cause:
            raise DriverError(
                "TR504",
                f"the CUDA driver cannot be used: {cause}",
                "kernels for CUDA run where NVIDIA's driver is installed; elsewhere they can be compiled "
                "and interpreted",
            ) from cause
        return _Session(extension, api, extension.Hooks(), tensors.set_up_tensors(extension))
