"""Options of a capture, as frozen dataclasses."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Literal

from torch._inductor import config as inductor_config

from inductor_frontend.settings import DebugLevelName, read_debug_settings
from wrapper_ir_torch.gpu_properties import GpuProperties

if TYPE_CHECKING:
    from wrapper_ir_passes.debug.debug_values import DebugValues


def _flag(name: str) -> bool:
    """Returns the current value of an option of Inductor."""
    return bool(getattr(inductor_config, name))


def _number(name: str) -> int:
    return int(getattr(inductor_config, name))


@dataclass(frozen=True, slots=True, kw_only=True)
class PaddingOptions:
    """Padding of the strides of buffers whose layout Inductor chooses.

    Each field is Inductor's option of the same name. Its default is the current value of that option, so that
    a capture follows the configuration of the process but depends only on its options. Inductor pads nothing
    on a CPU if `disable_padding_cpu`, which is its default. Padding of the operands of matmuls is
    `CaptureOptions.padded_matmuls`.
    """

    comprehensive_padding: bool = field(default_factory=lambda: _flag("comprehensive_padding"))
    """Pad strides at all."""
    disable_padding_cpu: bool = field(default_factory=lambda: _flag("disable_padding_cpu"))
    """Do not pad if all inputs are on a CPU."""
    padding_alignment_bytes: int = field(default_factory=lambda: _number("padding_alignment_bytes"))
    """Alignment of padded strides, in bytes."""
    padding_stride_threshold: int = field(default_factory=lambda: _number("padding_stride_threshold"))
    """Largest constant stride, in elements, that is not padded."""
    pad_dynamic_shapes: bool = field(default_factory=lambda: _flag("pad_dynamic_shapes"))
    """Pad buffers with symbolic sizes too, regardless of their strides."""
    pad_outputs: bool = field(default_factory=lambda: _flag("pad_outputs"))
    """Pad results too; their strides then differ from those of eager mode."""
    pad_channels_last: bool = field(default_factory=lambda: _flag("pad_channels_last"))
    """Pad buffers in channels-last order too."""


@dataclass(frozen=True, slots=True, kw_only=True)
class CaptureOptions:
    """Options of a capture.

    All fields are part of the identity of a compiled program: captures with equal options and inputs return
    equal programs.
    """

    layout_asserts: bool = True
    """Keep Inductor's checks of input and result layouts (sizes, strides, alignment)."""
    scalar_asserts: bool = True
    """Keep run-time assertions on symbols."""
    empty_sizes: bool = False
    """Allow dynamic sizes of 0.

    A check refuses 0 if the model asks whether a tensor is empty (`if x.numel():`). `Dim.DYNAMIC(min=0)` and
    `Dim.AUTO(min=0)` set the option, and so does an additional input with a size of 0. If False, the program
    checks that dynamic sizes are positive, also those of `Dim("n", min=0)`, which torch
    cannot tell from `Dim("n")`. Exported programs assume positive sizes already; capture `module()` of one.
    """
    inplace_kernels: bool = True
    """Keep the scheduler's in-place kernels. If False, every kernel output has separate storage."""
    padding: PaddingOptions = field(default_factory=PaddingOptions)
    """Padding of strides; by default as Inductor is configured."""
    padded_matmuls: bool = False
    """Pad operands of matmuls to sizes that a GPU's library computes fast, if Inductor's measurement on that
    GPU shows a gain (its `shape_padding`). In torch.compile the default is Inductor's. Never on a CPU, nor
    for an absent `target`."""
    cpu_kernels: Literal["cpp", "triton"] = "cpp"
    """The language of kernels for a CPU."""
    multi_kernels: bool = False
    """Emit two kernels for a reduction whose elements fit into registers: one that keeps them there, and one
    that loops. Measurement selects one when the program is tuned or runs. Triton only."""
    matmuls: Literal["extern", "split", "templates", "candidates"] = "extern"
    """The implementation of matmuls and convolutions.

    `extern`: operators of the library. `split`: the same, but matmuls with few rows on a GPU are batched
    matmuls of parts, which the consuming kernel adds (rule: `record/split_rule.py`). `templates`: Inductor's
    Triton templates if one exists, fused with neighbouring ops. `candidates`: an operator or a template
    without fusion; measurement selects one when the program is tuned or runs. Templates have all of
    Inductor's configs; capture measures nothing."""
    fused_convolutions: bool = False
    """Fuse float32 convolutions on a CPU with the batch norm, addition and activation that follow them.

    They become calls of `wrapper_ir::fused_convolution`. Libraries without torch have a kernel for it; with
    torch it is slower than Inductor's kernels."""
    fused_int8_layers: bool = False
    """Fuse float32 matmuls with int8 weights on a CPU with the rounding of their rows, scales, bias and
    activation.

    They become calls of `wrapper_ir::int8_linear`. Libraries without torch have a kernel for it; with torch
    it is slower than Inductor's kernels."""
    size_hints: tuple[int, ...] = ()
    """With `matmuls="templates"`: the sizes that templates with dynamic sizes are generated for, one kernel
    for each. The sizes of a call select one. Empty: one kernel, generated for the sizes of the example."""
    gpu: GpuProperties | None = None
    """The properties of the GPU to capture for, if the table (`devices.DEVICES`) lacks its architecture or
    another GPU of that architecture is meant. None: those of the table."""
    debug_values: DebugLevelName = field(default_factory=lambda: read_debug_settings().level)
    """The level of the pass `debug-values`, which runs last: programs then print or save their values. `off`
    adds nothing. The defaults of this and the next two fields are from the environment and Inductor's
    configuration (`inductor_frontend.settings`)."""
    debug_filter: str = field(default_factory=lambda: read_debug_settings().filter)
    """Names of kernels and operators to show, as comma-separated shell patterns; empty: all."""
    debug_directory: str = field(default_factory=lambda: read_debug_settings().directory)
    """The folder to which `save` writes tensors; created when a program runs."""
    packed_weights: bool = False
    """Let Inductor pack weights for the libraries of this machine. Packed weights can be neither stored nor
    read: the program runs only in the process that captured it, and saving it is refused."""
    sink_waits: bool = True
    """Wait for collectives just before the first use of their results (pass `sink-waits`), so that they
    overlap with other work."""
    verify: bool = True
    """Verify the program before it is returned."""

    @property
    def debug_pass(self) -> DebugValues | None:
        """The pass that prints or saves values; None if `debug_values` is `off`."""
        if self.debug_values == "off":
            return None
        from wrapper_ir_passes.debug.debug_values import DebugLevel, DebugValues

        return DebugValues(
            level=DebugLevel(self.debug_values), filter=self.debug_filter, directory=self.debug_directory
        )
