// What operators of windows over images share: images of up to three axes, and the windows of an axis.
#pragma once
#include "layouts.h"

#include <array>

namespace wir {

/// Images at any strides. Missing axes, which come first, have one position.
struct Planes {
  unsigned char* data;
  int64_t batch, channels, sizes[3], steps[5];  // steps: of images, channels and axes, in elements

  int64_t count() const { return batch * channels; }
  int64_t positions() const { return sizes[0] * sizes[1] * sizes[2]; }
  template <class T> T* at(int64_t plane) const {
    return reinterpret_cast<T*>(data) + plane / channels * steps[0] + plane % channels * steps[1];
  }
  int64_t offset(int64_t i, int64_t j, int64_t k) const { return i * steps[2] + j * steps[3] + k * steps[4]; }
};

/// Returns the planes of a tensor of channels and `axes` axes, or of a batch of them. Fails with the operator's name for others.
Planes planes_of(Tensor tensor, int64_t axes, const char* name);

/// A window along an axis: positions from `begin` to `end`, `step` apart. `extent` counts its positions with padding.
struct Window {
  int64_t begin, end, step, extent;
};
using Windows = std::array<std::vector<Window>, 3>;

/// Options of a pooling: a value for each axis. `stride` is `kernel` if it is empty.
struct Pooling {
  Sizes kernel, stride, padding, dilation;
  bool ceil;
};
/// Returns options of one value, or one for each axis, as one for each axis. Fails with the operator's name.
Pooling pooling_of(int64_t axes, const Sizes& kernel, const Sizes& stride, const Sizes& padding, const Sizes& dilation, bool ceil,
                   const char* name);
/// Returns the windows of a pooling; those of axes that are missing have one position.
Windows pooling_windows(const Planes& planes, int64_t axes, const Pooling& pooling, const char* name);
/// Returns windows that divide each axis into as many parts as `sizes` states.
Windows adaptive_windows(const Planes& planes, const Sizes& sizes, const char* name);
/// Returns the sizes of a result: those of `self`, with as many positions as there are windows.
Sizes windowed_sizes(Tensor self, int64_t axes, const Windows& windows);
/// Returns the strides of a result of an operator on images: channels-last if those of `self` are.
Sizes strides_as(Tensor self, int64_t axes, const Sizes& sizes);

}  // namespace wir
