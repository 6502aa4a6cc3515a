"""Options of a capture, as one frozen value."""

from __future__ import annotations

from dataclasses import dataclass

__all__ = ["CaptureOptions"]


@dataclass(frozen=True, slots=True, kw_only=True)
class CaptureOptions:
    """What a capture does beyond the defaults.

    All fields are part of the identity of a compiled program: two captures with equal options and inputs give equal
    programs.
    """

    layout_asserts: bool = True
    """Keep upstream's checks of input and result layouts (sizes, strides, alignment)."""
    scalar_asserts: bool = True
    """Keep runtime assertions about symbols."""
    inplace_kernels: bool = True
    """Keep in-place kernels that the scheduler decided on; off: every kernel output gets storage of its own."""
    verify: bool = True
    """Verify the program before it is returned."""
