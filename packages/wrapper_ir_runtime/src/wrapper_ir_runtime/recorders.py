"""The recorders of a process, by device."""

from __future__ import annotations

import threading
from collections.abc import Callable
from typing import Any

from wrapper_ir_runtime.graph_device import GraphDevice
from wrapper_ir_runtime.recording import Recorder


# Any in this class: tensors of any library; devices of several libraries may be in one process
class Recorders:
    """The recorders of this process, by device.

    Recorders belong to the process, as memory pools do, since programs share a device's memory of recordings.
    """

    def __init__(self) -> None:
        self._recorders: dict[str, Recorder[Any]] = {}
        self._lock = threading.Lock()

    def set(self, device: str, recorder: Recorder[Any]) -> None:
        """Sets the recorder of a device for programs that are loaded later."""
        with self._lock:
            self._recorders[device] = recorder

    def get(self, device: str, make: Callable[[str], GraphDevice[Any]]) -> Recorder[Any]:
        """Returns the recorder of a device; creates it if none exists."""
        with self._lock:
            if device not in self._recorders:
                self._recorders[device] = Recorder(make(device))
            return self._recorders[device]


RECORDERS = Recorders()
"""The recorders of this process."""
