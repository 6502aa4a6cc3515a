// Images of another size, and their gradients.
#pragma once
#include "windows.h"

namespace wir {

/// How elements of the result are computed; filters over areas are antialiased.
enum class Filter { kNearest, kNearestExact, kLinear, kCubic, kLinearArea, kCubicArea };

/// Resamples `self`, of batch, channels and `axes` axes. A null scale is that of the sizes.
Owned resize(Tensor self, int64_t axes, const int64_t* sizes, int64_t count, Filter filter, bool corners,
             std::initializer_list<const double*> scales, const char* name);
/// The gradient of a resampling of images of `input` sizes, those of batch and channels included.
Owned resize_gradient(Tensor grad, int64_t axes, const int64_t* sizes, int64_t count, const int64_t* input, int64_t input_count,
                      Filter filter, bool corners, std::initializer_list<const double*> scales, const char* name);

}  // namespace wir
