"""Library operators whose launches the launcher repeats, once it has seen what they queue.

cuBLAS and torch take some 12 us of the host for a matmul that is one or two kernels. What these are depends on the operands'
addresses and layouts alone, and on torch's settings: a call with all of them as in an earlier one launches the same kernels with the
same parameters.
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
    """See `wrapper_ir.plugins.repeating.OperatorRepeater`. `functions` are the addresses of `GRAPH_FUNCTIONS`; `device` is the ordinal, and
    torch's numbers of type and index; `stream` is where the current stream comes from, as `tensors.stream_source` says."""

    extension: Extension
    api: object
    functions: bytes
    device: tuple[int, int, int]
    stream: tuple[int, Callable[[int], int] | None]

    def new_stream(self) -> int:
        """A raw stream that nobody else has. Raises OSError."""
        return self.extension.new_stream(self.api, self.functions, self.device[0])

    def repeated(
        self, operator: Repeatable, record: Callable[..., object | None], calls: int
    ) -> RepeatedOperator:
        """See the protocol. Calls raise LaunchError TR308 where the driver refuses a launch."""

        def failed(status: int, error: str, text: str) -> NoReturn:
            _failed(operator.name, status, error, text)

        parts = (self.api, self.functions, self.device, self.stream, operator.function, record)
        more = (operator.settings, operator.watchers, failed, calls, operator.makes_results)
        return self.extension.repeated(*parts, *more)


def _failed(name: str, status: int, error: str, text: str) -> NoReturn:
    message = f"operator '{name}': could not launch its kernels again: {error} ({status}, {text})"
    if status == OUT_OF_MEMORY:
        from triton_runtime.cuda.memory_error import DeviceMemoryError  # torch is needed for its base

        raise DeviceMemoryError("TR308", message)
    raise LaunchError("TR308", message, STICKY_HINT if status in STICKY_STATUSES else "")
