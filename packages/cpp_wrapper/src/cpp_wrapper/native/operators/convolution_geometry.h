// The geometry of convolutions. All have three dimensions (depth, height, width); missing ones have size 1.
#pragma once
#include <cstdint>

namespace wir {

/// A spatial dimension: sizes of input, result and kernel, and the parameters of torch.
struct Axis {
  int64_t in = 1, out = 1, kernel = 1, stride = 1, padding = 0, dilation = 1;
};

/// The geometry of a convolution, with the channels of one group.
struct Convolution {
  int64_t batch, groups, in_channels, out_channels;
  Axis axes[3];
  bool transposed;

  int64_t taps() const { return axes[0].kernel * axes[1].kernel * axes[2].kernel; }
  bool is_depthwise() const { return groups > 1 && in_channels == 1 && out_channels == 1 && !transposed; }
};

}  // namespace wir
