"""Options of a capture, as frozen values."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Literal

from torch._inductor import config as inductor_config

from inductor_frontend.gpu_properties import GpuProperties
from inductor_frontend.settings import DebugLevelName, read_debug_settings

if TYPE_CHECKING:
    from wrapper_ir_passes.debug.debug_values import DebugValues


def _flag(name: str) -> bool:
    """Inductor's current value of one of its options."""
    return bool(getattr(inductor_config, name))


def _number(name: str) -> int:
    return int(getattr(inductor_config, name))


@dataclass(frozen=True, slots=True, kw_only=True)
class PaddingOptions:
    """How Inductor pads the strides of buffers that it lays out itself.

    Each field is Inductor's option of the same name, and is what that option is when the value is made: a capture
    follows the process's configuration unless told otherwise, and depends on nothing but its options. Inductor pads
    nothing on a CPU as long as `disable_padding_cpu` holds, which is its default. Its other padding, of the operands of matrix
    matmuls, is `CaptureOptions.padded_matmuls`.
    """

    comprehensive_padding: bool = field(default_factory=lambda: _flag("comprehensive_padding"))
    """Pad strides at all."""
    disable_padding_cpu: bool = field(default_factory=lambda: _flag("disable_padding_cpu"))
    """Do not where every input is on a CPU."""
    padding_alignment_bytes: int = field(default_factory=lambda: _number("padding_alignment_bytes"))
    """Padded strides are a multiple of this many bytes."""
    padding_stride_threshold: int = field(default_factory=lambda: _number("padding_stride_threshold"))
    """Strides of at most this many elements stay as they are, unless they are symbolic."""
    pad_dynamic_shapes: bool = field(default_factory=lambda: _flag("pad_dynamic_shapes"))
    """Pad buffers with symbolic sizes too, whatever their strides."""
    pad_outputs: bool = field(default_factory=lambda: _flag("pad_outputs"))
    """Pad results too, whose strides then differ from eager's."""
    pad_channels_last: bool = field(default_factory=lambda: _flag("pad_channels_last"))
    """Pad buffers in channels-last order too."""


@dataclass(frozen=True, slots=True, kw_only=True)
class CaptureOptions:
    """What a capture does beyond the defaults.

    All fields are part of the identity of a compiled program: two captures with equal options and inputs give equal
    programs.
    """

    layout_asserts: bool = True
    """Keep Inductor's checks of input and result layouts (sizes, strides, alignment)."""
    scalar_asserts: bool = True
    """Keep runtime assertions about symbols."""
    empty_sizes: bool = False
    """Let dynamic sizes be 0. Inductor takes them for positive without a guard, so that a model which treats empty
    tensors in a way of its own (`if x.numel():`) may do something else then; off: a size of 0 is refused by a check."""
    inplace_kernels: bool = True
    """Keep in-place kernels that the scheduler decided on; off: every kernel output gets storage of its own."""
    padding: PaddingOptions = field(default_factory=PaddingOptions)
    """Padded strides, as Inductor is configured."""
    padded_matmuls: bool = False
    """Pad operands of matmuls to what a GPU's library computes fast, where Inductor measures on that GPU that it pays
    (its `shape_padding`); torch.compile's default is Inductor's. Never on a CPU; not for a `target` that is not here."""
    cpu_kernels: Literal["cpp", "triton"] = "cpp"
    """What kernels for a CPU are written in."""
    multi_kernels: bool = False
    """Where a reduction's elements fit into registers, have kernels that hold them there and kernels that loop, one of
    which is chosen by measurement when the program is tuned or runs. Of Triton kernels alone."""
    matmuls: Literal["extern", "split", "templates", "candidates"] = "extern"
    """What computes matmuls and convolutions: the library's operators; the same, where matmuls with few rows on a GPU
    are batched matmuls of parts, which the kernel that uses the matmul adds up (`record/split_rule.py` says which); kernels of
    Inductor's Triton templates, where it has one, fused with what is around them; or one of operator and template, which is
    chosen by measurement when the program is tuned or runs, and with which nothing is fused. Templates have all of Inductor's
    configs; nothing is measured here."""
    size_hints: tuple[int, ...] = ()
    """With `matmuls="templates"`: sizes that templates over dynamic sizes are made for, a kernel for each, of which one
    is chosen by the sizes of a call; empty: one kernel, made for the sizes of the example."""
    gpu: GpuProperties | None = None
    """The GPU to capture for, where the target's architecture is not in the table (`devices.DEVICES`) or another one
    of it is meant; None: the table's."""
    debug_values: DebugLevelName = field(default_factory=lambda: read_debug_settings().level)
    """What programs show of their values when they run, as the pass `debug-values` says, which runs last; `off` adds nothing. The
    defaults of these three are what the environment and Inductor's configuration say (`inductor_frontend.settings`)."""
    debug_filter: str = field(default_factory=lambda: read_debug_settings().filter)
    """Names of kernels and operators to show, as shell patterns between commas; empty: all."""
    debug_directory: str = field(default_factory=lambda: read_debug_settings().directory)
    """Where `save` saves tensors; made when a program runs."""
    packed_weights: bool = False
    """Let Inductor pack weights for this machine's libraries. What is packed can neither be stored nor read: the
    program runs in the process that captured it, and saving it is refused."""
    sink_waits: bool = True
    """Wait for collectives as late as their data is needed (pass `sink-waits`), so that what comes before overlaps with them."""
    verify: bool = True
    """Verify the program before it is returned."""

    @property
    def debug_pass(self) -> DebugValues | None:
        """The pass that shows values; None where nothing is shown."""
        if self.debug_values == "off":
            return None
        from wrapper_ir_passes.debug.debug_values import DebugLevel, DebugValues

        return DebugValues(
            level=DebugLevel(self.debug_values), filter=self.debug_filter, directory=self.debug_directory
        )
