"""Library operators that the launcher records once and then launches itself.

cuBLAS and torch take some 12 us of host time for a matmul of one or two kernels. Those kernels depend only
on the operands' addresses and layouts, and on torch's settings. A call that repeats all of them launches the
same kernels with the same parameters.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import NoReturn

from triton_runtime.cuda.explain import OUT_OF_MEMORY, STICKY_HINT, STICKY_STATUSES
from triton_runtime.cuda.extension import Extension
from triton_runtime.errors import LaunchError
from wrapper_ir.plugins.repeating import Repeatable, RepeatedOperator


@dataclass(frozen=True, slots=True)
class OperatorRepeater:
    """See `wrapper_ir.plugins.repeating.OperatorRepeater`.

    `functions` are the addresses of `GRAPH_FUNCTIONS`. `device` is the ordinal, and torch's numbers of type
    and index. `stream` is the source of the current stream (see `tensors.stream_source`).
    """

    extension: Extension
    api: object
    functions: bytes
    device: tuple[int, int, int]
    stream: tuple[int, Callable[[int], int] | None]

    def new_stream(self) -> int:
        """Creates a raw stream. Raises OSError."""
        return self.extension.new_stream(self.api, self.functions, self.device[0])

    def repeated(
        self, operator: Repeatable, record: Callable[..., object | None], calls: int
    ) -> RepeatedOperator:
        """See the protocol. Calls raise LaunchError TR308 if the driver refuses a launch."""

        def failed(status: int, error: str, text: str) -> NoReturn:
            _failed(operator.name, status, error, text)

        parts = (self.api, self.functions, self.device, self.stream, operator.function, record)
        more = (operator.settings, operator.watchers, failed, calls, operator.makes_results)
        return self.extension.repeated(*parts, *more)


def _failed(name: str, status: int, error: str, text: str) -> NoReturn:
    message = f"operator '{name}': could not launch its kernels again: {error} ({status}, {text})"
    if status == OUT_OF_MEMORY:
        # its base class needs torch
        from triton_runtime.cuda.memory_error import DeviceMemoryError

        raise DeviceMemoryError("TR308", message)
    raise LaunchError("TR308", message, STICKY_HINT if status in STICKY_STATUSES else "")
