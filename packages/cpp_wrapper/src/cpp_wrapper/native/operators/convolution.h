// Convolutions over plain pointers.
#pragma once
#include "convolution_geometry.h"
#include "epilogue.h"

namespace wir {

/// The matrix of a group's weights: a row for each position of the kernel and input channel (the channel is inner), a column for
/// each output channel. Packed: panels of 16 columns, as `panels.h` has them, of one group after another. Weights of a depthwise
/// convolution are one matrix: a row for each position of the kernel, and a column for each channel.
template <class T> struct Weights {
  const T* data;
  bool is_packed;
  int64_t group = 0, row = 0, column = 0, steps[3] = {};  // distances, if not packed
};

}  // namespace wir
