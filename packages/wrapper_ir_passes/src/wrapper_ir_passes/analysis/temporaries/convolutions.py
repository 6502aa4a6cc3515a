"""Temporaries of convolutions on CPUs: the unfolded image (im2col), or copies into oneDNN's layouts and
scratch memory."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass

from wrapper_ir import ir
from wrapper_ir.expr import Bool
from wrapper_ir_passes.analysis.temporaries.call import Operand, OperatorCall, round_up

_BLOCK, _NARROW = 16, 8
"""Channels of a block in oneDNN's layouts of convolutions, and of a narrow one."""
_LINE = 128
"""Bytes of alignment after a padded bias."""
_SCRATCH = 8216
"""Bytes of scratch memory of an ungrouped convolution of channels-last images, on one thread."""
_FEW_ELEMENTS = 20480
"""torch convolves a batch of one without oneDNN if it has at most so many elements, unless the kernel is
large."""


@dataclass(frozen=True, slots=True)
class _Convolution:
    """A convolution of images of one to three dimensions, not transposed."""

    image: Operand
    weight: Operand
    result: Operand
    stride: tuple[int, ...]
    padding: tuple[int, ...]
    dilation: tuple[int, ...]
    groups: int

    @property
    def item(self) -> int:
        return self.image.dtype.itemsize

    def bytes(self) -> int:
        """The peak of its temporaries."""
        last = len(self.result.sizes) == 4 and _is_last(self.result)
        copies = sum(t.bytes for t in (self.image, self.weight) if not _is_last(t)) if last else 0
        if not self._is_blocked():
            return copies + self._columns()
        if last:
            return copies + self._weights(self.weight.sizes[1]) + (_SCRATCH if self.groups == 1 else 0)
        return self._reordered()

    def _is_blocked(self) -> bool:
        """Returns whether torch calls oneDNN for it, on one thread."""
        if self.image.dtype is not ir.DType.F32:
            return False
        kernel, batch = self.weight.sizes[2:], self.image.sizes[0]
        spread = any(n != 1 for n in (*self.stride, *self.dilation, *kernel)) or batch >= 16
        small = math.prod(self.image.sizes) <= _FEW_ELEMENTS
        large_kernel = len(kernel) == 2 and min(kernel) > 3
        deep = len(kernel) == 3
        return spread and (self.groups > 1 or large_kernel or deep or batch > 1 or not small)

    def _columns(self) -> int:
        """Bytes of the unfolded image. Groups are convolved one after another and concatenated."""
        kernel, batch = _pixels(self.weight), self.image.sizes[0]
        spread = kernel > 1 or any(n != 1 for n in self.stride) or any(self.padding)
        if any(n != 1 for n in self.dilation):
            batch, spread = 1, True
        columns = batch * self.weight.sizes[1] * kernel * _pixels(self.result) * spread * self.item
        if self.groups == 1:
            return columns
        return max(columns + self.image.bytes // self.groups, self.result.bytes)

    def _weights(self, inputs: int) -> int:
        """Bytes of the weights in a blocked layout, with `inputs` input channels per group."""
        outputs, kernel = self.weight.sizes[0], _pixels(self.weight)
        if self.groups == 1:
            return self.item * round_up(outputs, _BLOCK) * inputs * kernel
        if inputs == 1 and outputs == self.groups:
            return self.item * round_up(outputs, _BLOCK) * kernel
        each = outputs // self.groups
        block = _NARROW if each % _BLOCK else _BLOCK
        return self.item * self.groups * round_up(each, block) * round_up(inputs, block) * kernel

    def _reordered(self) -> int:
        """Bytes of image, weights and result in blocked layouts, or of the blocked result alone when it is
        copied back. Images with few channels are not reordered."""
        channels, kernel, outputs = self.image.sizes[1], _pixels(self.weight), self.result.sizes[1]
        few = channels <= 3 or (channels < _BLOCK and self.groups == 1 and kernel > 1)
        image = 0 if few else self._blocks(self.image)
        inputs = self.weight.sizes[1] if few or self.groups > 1 else round_up(self.weight.sizes[1], _BLOCK)
        result = self._blocks(self.result)
        bias = self.item * round_up(outputs, _BLOCK) + _LINE if outputs % _BLOCK else 0
        # a pointwise convolution copies the pixels that its stride selects
        strided = self.item * _pixels(self.result) * round_up(channels, _BLOCK) + _LINE if kernel == 1 else 0
        return max(image + self._weights(inputs) + bias + strided + result - self.result.bytes, result)

    def _blocks(self, images: Operand) -> int:
        """Bytes of images in a blocked layout."""
        return self.item * images.sizes[0] * round_up(images.sizes[1], _BLOCK) * _pixels(images)


def _is_last(images: Operand) -> bool:
    return images.is_dense((1, *range(len(images.sizes) - 1, 1, -1), 0))


def _pixels(images: Operand) -> int:
    return math.prod(images.sizes[2:])


_NAMES = (
    "input",
    "weight",
    "bias",
    "stride",
    "padding",
    "dilation",
    "transposed",
    "output_padding",
    "groups",
)


def _convolution(call: OperatorCall) -> int | None:
    image, weight, result = call.tensor("input"), call.tensor("weight"), call.result
    stride, padding, dilation = map(call.numbers, ("stride", "padding", "dilation"))
    if image is None or weight is None or result is None or call.args.get("transposed") != Bool(False):
        return None
    if stride is None or padding is None or dilation is None or len(result.sizes) not in (3, 4, 5):
        return None
    if image.dtype not in (ir.DType.F32, ir.DType.F64):
        return None  # on some CPUs, oneDNN runs these
    if 0 in (*image.sizes, *weight.sizes, *result.sizes):
        return 0
    return _Convolution(image, weight, result, stride, padding, dilation, call.number("groups", 1)).bytes()


CONVOLUTIONS: Mapping[str, tuple[tuple[str, ...], Callable[[OperatorCall], int | None]]] = {
    "aten::convolution": (_NAMES, _convolution)
}
"""The names of the arguments and the rule of each operator."""
