"""The captured graphs of a process, by device."""

from __future__ import annotations

import threading
from collections.abc import Callable
from typing import Any

from wrapper_ir_runtime.graph_device import GraphDevice
from wrapper_ir_runtime.graph_replay import DeviceGraphs


# Any in this class: tensors of any library; devices of several libraries may be in one process
class ProcessGraphs:
    """The captured graphs of this process, by device.

    They belong to the process, as memory pools do, since programs share a device's memory of graphs.
    """

    def __init__(self) -> None:
        self._graphs: dict[str, DeviceGraphs[Any]] = {}
        self._lock = threading.Lock()

    def set(self, device: str, device_graphs: DeviceGraphs[Any]) -> None:
        """Sets the graphs of a device for programs that are loaded later."""
        with self._lock:
            self._graphs[device] = device_graphs

    def get(self, device: str, make: Callable[[str], GraphDevice[Any]]) -> DeviceGraphs[Any]:
        """Returns the graphs of a device; creates it if none exists."""
        with self._lock:
            if device not in self._graphs:
                self._graphs[device] = DeviceGraphs(make(device))
            return self._graphs[device]


DEVICE_GRAPHS = ProcessGraphs()
"""The graphs of this process."""
