"""The recorders of a process, by device."""

from __future__ import annotations

import threading
from collections.abc import Callable

from wrapper_ir_runtime.graph_device import GraphDevice
from wrapper_ir_runtime.recording import Recorder


class Recorders:
    """The recorders of this process, by device. Like memory pools they belong to the process, since programs share what a device
    has for recordings."""

    def __init__(self) -> None:
        self._recorders: dict[str, Recorder] = {}
        self._lock = threading.Lock()

    def set(self, device: str, recorder: Recorder) -> None:
        """Makes `recorder` the one of a device for programs that are loaded from now on."""
        with self._lock:
            self._recorders[device] = recorder

    def get(self, device: str, make: Callable[[str], GraphDevice]) -> Recorder:
        """The recorder of a device, made where there is none."""
        with self._lock:
            if device not in self._recorders:
                self._recorders[device] = Recorder(make(device))
            return self._recorders[device]


RECORDERS = Recorders()
"""The recorders of this process."""
