// Images of up to three axes, and the windows of an axis.
#include "windows.h"

namespace wir {

Planes planes_of(Tensor tensor, int64_t axes, const char* name) {
  if (tensor->rank != axes + 1 && tensor->rank != axes + 2) fail_operator(name, "a tensor has another rank");
  const bool has_batch = tensor->rank == axes + 2;
  const int64_t *sizes = tensor->sizes() + (has_batch ? 1 : 0), *strides = tensor->strides() + (has_batch ? 1 : 0);
  Planes made{tensor->data(), has_batch ? tensor->sizes()[0] : 1, sizes[0], {1, 1, 1}, {has_batch ? tensor->strides()[0] : 0, strides[0]}};
  for (int64_t i = 0; i < axes; ++i) {
    made.sizes[3 - axes + i] = sizes[1 + i];
    made.steps[5 - axes + i] = strides[1 + i];
  }
  return made;
}

namespace {

Sizes for_each_axis(const Sizes& values, int64_t axes, const char* name) {
  if (values.size() == 1) return Sizes(static_cast<size_t>(axes), values[0]);
  if (static_cast<int64_t>(values.size()) != axes) fail_operator(name, "an option has neither one value nor one for each axis");
  return values;
}

/// Returns the number of windows of an axis.
int64_t window_count(int64_t size, int64_t kernel, int64_t stride, int64_t padding, bool ceil) {
  const int64_t room = size + 2 * padding - kernel + (ceil ? stride - 1 : 0);
  const int64_t count = (room >= 0 ? room / stride : (room - stride + 1) / stride) + 1;
  return ceil && (count - 1) * stride >= size + padding ? count - 1 : count;  // the last one begins inside
}

}  // namespace

Pooling pooling_of(int64_t axes, const Sizes& kernel, const Sizes& stride, const Sizes& padding, const Sizes& dilation, bool ceil,
                   const char* name) {
  Pooling made{for_each_axis(kernel, axes, name), {}, for_each_axis(padding, axes, name), for_each_axis(dilation, axes, name), ceil};
  made.stride = stride.empty() ? made.kernel : for_each_axis(stride, axes, name);
  for (size_t i = 0; i < made.kernel.size(); ++i) {
    if (made.kernel[i] <= 0 || made.stride[i] <= 0 || made.dilation[i] <= 0) {
      fail_operator(name, "sizes of windows, strides and dilations must be positive");
    }
    if (made.padding[i] < 0 || made.padding[i] > ((made.kernel[i] - 1) * made.dilation[i] + 1) / 2) {
      fail_operator(name, "the padding is negative, or more than half of the window");
    }
  }
  return made;
}

Windows pooling_windows(const Planes& planes, int64_t axes, const Pooling& pooling, const char* name) {
  Windows made;
  for (size_t axis = 0; axis < 3; ++axis) {
    const int64_t option = static_cast<int64_t>(axis) - (3 - axes), size = planes.sizes[axis];
    if (option < 0) {
      made[axis].push_back({0, 1, 1, 1});
      continue;
    }
    const auto i = static_cast<size_t>(option);
    const int64_t step = pooling.dilation[i], length = (pooling.kernel[i] - 1) * step + 1, padding = pooling.padding[i];
    const int64_t count = window_count(size, length, pooling.stride[i], padding, pooling.ceil);
    if (size == 0 || count <= 0) fail_operator(name, "the images are smaller than a window");
    for (int64_t w = 0; w < count; ++w) {
      const int64_t first = w * pooling.stride[i] - padding, last = std::min(first + length, size + padding);
      const int64_t skipped = first < 0 ? (step - 1 - first) / step * step : 0;
      made[axis].push_back({first + skipped, std::min(last, size), step, last - first});
    }
  }
  return made;
}

Windows adaptive_windows(const Planes& planes, const Sizes& sizes, const char* name) {
  Windows made;
  const size_t missing = 3 - sizes.size();
  for (size_t axis = 0; axis < 3; ++axis) {
    const int64_t count = axis < missing ? 1 : sizes[axis - missing], size = planes.sizes[axis];
    if (count < 0) fail_operator(name, "a size of the result is negative");
    if (size == 0) fail_operator(name, "the images have no positions");
    for (int64_t w = 0; w < count; ++w) {
      const int64_t begin = w * size / count, end = ((w + 1) * size + count - 1) / count;
      made[axis].push_back({begin, end, 1, end - begin});
    }
  }
  return made;
}

Sizes windowed_sizes(Tensor self, int64_t axes, const Windows& windows) {
  Sizes sizes = sizes_of(self);
  const auto first = static_cast<size_t>(self->rank - axes), missing = static_cast<size_t>(3 - axes);
  for (size_t i = 0; i < static_cast<size_t>(axes); ++i) sizes[first + i] = static_cast<int64_t>(windows[missing + i].size());
  return sizes;
}

namespace {

/// Returns whether channels are the innermost dimension of these strides, and images the outermost.
bool is_channels_last(const Sizes& sizes, const Sizes& strides) {
  const size_t rank = sizes.size();
  if (strides[1] == 0) return false;
  int64_t least = 0;
  for (size_t i = 0; i < rank; ++i) {
    const size_t dim = i == 0 ? 1 : i == rank - 1 ? 0 : rank - i;
    if (sizes[dim] == 0 || strides[dim] < least) return false;
    if (dim == 0 && least == strides[1]) return false;  // one channel of one position: the strides do not tell
    least = strides[dim] * std::max<int64_t>(sizes[dim], 1);
  }
  return true;
}

}  // namespace

Sizes strides_as(Tensor self, int64_t axes, const Sizes& sizes) {
  if (self->rank != axes + 2) return contiguous_strides(sizes);
  Sizes given = sizes_of(self), strides = strides_of(self), wanted = sizes;
  if (axes == 1) {  // as images of one row
    strides.insert(strides.begin() + 2, strides[2] * given[2]);
    given.insert(given.begin() + 2, 1);
    wanted.insert(wanted.begin() + 2, 1);
  }
  if (!is_channels_last(given, strides)) return contiguous_strides(sizes);
  Sizes made = strides_of_format(wanted, wanted.size() == 4 ? 2 : 3, "a pooling");
  if (axes == 1) made.erase(made.begin() + 2);
  return made;
}

}  // namespace wir
