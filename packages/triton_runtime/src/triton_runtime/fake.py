"""A driver that records launches instead of running them."""

from __future__ import annotations

from dataclasses import dataclass, field

from triton_runtime.protocols import Launchable
from wrapper_ir import ir
from wrapper_ir.plugins.protocols import LoadedKernel


@dataclass(frozen=True, slots=True, kw_only=True)
class RecordedLaunch:
    """One launch: its arguments, including the numbers of the grid, and the grid's sizes."""

    kernel: ir.TritonKernel
    config: ir.TritonConfig
    grid: tuple[int, int, int]
    args: tuple[object, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class FakeDriver:
    """Records launches, in order, in `launches`. `needs_binary` makes the runtime compile kernels, as for a
    device.
    """

    needs_binary: bool = False
    launches: list[RecordedLaunch] = field(default_factory=list)
    name: str = field(default="fake", init=False)

    def load(self, launchable: Launchable, device: ir.Device) -> LoadedKernel:
        """Returns a callable that records; it reads only the numbers of the grid."""

        def record(*args: object) -> None:
            self.launches.append(
                RecordedLaunch(
                    kernel=launchable.kernel, config=launchable.config, grid=launchable.grid(*args), args=args
                )
            )

        return record
