// Largest elements of windows of images, with their indices in a plane, and operators that write to such indices.
#include "windows.h"

namespace wir {
namespace {

constexpr int64_t kGrain = 1 << 12;  // windows for which a thread is worth it

template <class T> auto comparable(T value) {
  if constexpr (is_small_float<T>) {
    return static_cast<float>(value);
  } else {
    return value;
  }
}

/// The largest element of a window, or its last NaN; of equal ones the first.
template <class T>
void write_largest(const T* plane, const Planes& from, const Window& a, const Window& b, const Window& c, T* to, int64_t* index) {
  int64_t found = -1;
  auto best = comparable(T{});
  for (int64_t x = a.begin; x < a.end; x += a.step) {
    for (int64_t y = b.begin; y < b.end; y += b.step) {
      for (int64_t z = c.begin; z < c.end; z += c.step) {
        const auto value = comparable(plane[from.offset(x, y, z)]);
        if (found < 0 || value > best || value != value) {
          best = value;
          found = (x * from.sizes[1] + y) * from.sizes[2] + z;
        }
      }
    }
  }
  *to = static_cast<T>(best);
  *index = found;
}

/// The results: values, and their indices.
struct Largest {
  Owned values, indices;
};
Largest new_largest(Tensor self, const Sizes& sizes, const Sizes& strides) {
  return {empty(sizes, strides, self->dtype), empty(sizes, strides, kI64)};
}
void give(Largest& made, Tensor* ret0, Tensor* ret1) {
  *ret0 = made.values.release();
  *ret1 = made.indices.release();
}

void require_elements(const Windows& windows, const char* name) {
  for (const std::vector<Window>& axis : windows) {
    for (const Window& window : axis) {
      if (window.begin >= window.end) fail_operator(name, "a window has no elements");
    }
  }
}

/// `windows_of(plane)` returns the windows of a plane.
template <class WindowsOf>
void find_largest(Tensor self, int64_t axes, const Planes& from, const Largest& made, const char* name, const WindowsOf& windows_of) {
  if (made.values->count == 0) return;
  const Planes to = planes_of(made.values.get(), axes, name), at = planes_of(made.indices.get(), axes, name);
  reals(self->dtype, name, [&]<class T>() {
    const int64_t rows = to.sizes[0] * to.sizes[1];
    parallel_for(to.count() * rows, std::max<int64_t>(1, kGrain / to.sizes[2]), [&](int64_t begin, int64_t end) {
      for (int64_t row = begin; row < end; ++row) {
        const int64_t plane = row / rows, i = row % rows / to.sizes[1], j = row % to.sizes[1];
        const Windows& windows = windows_of(plane);
        for (int64_t k = 0; k < to.sizes[2]; ++k) {
          write_largest(from.at<T>(plane), from, windows[0][static_cast<size_t>(i)], windows[1][static_cast<size_t>(j)],
                        windows[2][static_cast<size_t>(k)], to.at<T>(plane) + to.offset(i, j, k),
                        at.at<int64_t>(plane) + at.offset(i, j, k));
        }
      }
    });
  });
}

Largest largest_of(Tensor self, int64_t axes, const Planes& from, const Windows& windows, bool keeps_format, const char* name) {
  const Sizes sizes = windowed_sizes(self, axes, windows);
  Largest made = new_largest(self, sizes, keeps_format ? strides_as(self, axes, sizes) : contiguous_strides(sizes));
  if (made.values->count > 0) require_elements(windows, name);
  find_largest(self, axes, from, made, name, [&](int64_t) -> const Windows& { return windows; });
  return made;
}

Largest max_pool(Tensor self, int64_t axes, const Pooling& pooling, const char* name) {
  const Planes from = planes_of(self, axes, name);
  return largest_of(self, axes, from, pooling_windows(from, axes, pooling, name), true, name);
}

Largest adaptive_max(Tensor self, int64_t axes, const int64_t* sizes, int64_t count, const char* name) {
  if (count != axes) fail_operator(name, "there is not one size for each axis");
  const Planes from = planes_of(self, axes, name);
  return largest_of(self, axes, from, adaptive_windows(from, Sizes(sizes, sizes + count), name), axes == 2, name);
}

// --- windows at random places

/// The windows of an axis of `size` positions, whose places depend on a number in [0, 1). All steps round to elements of type
/// `T`, as in torch, so that the same places are found.
template <class T> std::vector<Window> random_windows(T sample, int64_t size, int64_t count, int64_t kernel) {
  using Wide = std::conditional_t<std::is_same_v<T, double>, double, float>;
  const auto rounded = [](Wide value) { return static_cast<Wide>(static_cast<T>(value)); };
  const auto number = [&](int64_t value) { return rounded(static_cast<Wide>(value)); };
  const Wide step = count > 1 ? rounded(number(size - kernel) / number(count - 1)) : Wide(0), shift = static_cast<Wide>(sample);
  const auto first = static_cast<int64_t>(rounded(shift * step));
  std::vector<Window> made;
  for (int64_t i = 0; i < count; ++i) {
    const auto place = static_cast<int64_t>(rounded(rounded(number(i) + shift) * step));
    const int64_t begin = i == count - 1 ? size - kernel : place - first;
    made.push_back({begin, begin + kernel, 1, kernel});
  }
  return made;
}

Largest fractional_max(Tensor self, int64_t axes, const Sizes& kernel, const Sizes& count, Tensor samples, const char* name) {
  if (static_cast<int64_t>(kernel.size()) != axes || static_cast<int64_t>(count.size()) != axes) {
    fail_operator(name, "there is not one size for each axis");
  }
  const Planes from = planes_of(self, axes, name);
  if (samples->rank != 3 || samples->sizes()[0] < from.batch || samples->sizes()[1] != from.channels || samples->sizes()[2] != axes) {
    fail_operator(name, "there are not random numbers for all planes");
  }
  if (samples->dtype != self->dtype) fail_dtype(name, samples->dtype);
  for (int64_t i = 0; i < axes; ++i) {
    const int64_t size = kernel[static_cast<size_t>(i)], number = count[static_cast<size_t>(i)];
    if (size <= 0 || number <= 0 || number + size - 1 > from.sizes[3 - axes + i]) fail_operator(name, "the images are smaller than the windows");
  }
  const Owned numbers = contiguous(samples);
  std::vector<Windows> windows(static_cast<size_t>(from.count()));
  floats(self->dtype, name, [&]<class T>() {
    const T* number = data_of<T>(numbers.get());
    for (Windows& made : windows) {
      for (int64_t missing = 0; missing < 3 - axes; ++missing) made[static_cast<size_t>(missing)].push_back({0, 1, 1, 1});
      for (int64_t i = 0; i < axes; ++i) {
        const T sample = number[axes == 2 ? 1 - i : i];  // of two axes, the first number is that of the last axis
        const auto axis = static_cast<size_t>(3 - axes + i), option = static_cast<size_t>(i);
        made[axis] = random_windows(sample, from.sizes[axis], count[option], kernel[option]);
      }
      number += axes;
    }
  });
  Sizes sizes = sizes_of(self);
  std::copy(count.begin(), count.end(), sizes.end() - axes);
  Largest made = new_largest(self, sizes, contiguous_strides(sizes));
  find_largest(self, axes, from, made, name, [&](int64_t plane) -> const Windows& { return windows[static_cast<size_t>(plane)]; });
  return made;
}

// --- writes to indices in a plane

/// Writes, or adds, each element of a plane of `values` to the element of the same plane of `to` that `indices` names.
void write_to_indices(Tensor to, Tensor values, Tensor indices, int64_t axes, bool adds, const char* name) {
  if (indices->dtype != kI64) fail_dtype(name, indices->dtype);
  if (sizes_of(indices) != sizes_of(values)) fail_operator(name, "there is not one index for each element");
  if (values->count == 0) return;
  const Planes from = planes_of(values, axes, name), at = planes_of(indices, axes, name), target = planes_of(to, axes, name);
  if (from.count() != target.count()) fail_operator(name, "the numbers of planes differ");
  const int64_t positions = target.positions();
  Loop(sizes_of(indices), {indices}).run([&](unsigned char* const* item, const int64_t* steps, int64_t count) {
    for (int64_t i = 0; i < count; ++i) {
      const int64_t index = *reinterpret_cast<int64_t*>(item[0] + i * steps[0]);
      if (index < 0 || index >= positions) fail_operator(name, "an index is not one of a plane");
    }
  });
  reals(values->dtype, name, [&]<class T>() {
    parallel_for(from.count(), std::max<int64_t>(1, kGrain / from.positions()), [&](int64_t begin, int64_t end) {
      for (int64_t plane = begin; plane < end; ++plane) {
        for (int64_t i = 0; i < from.positions(); ++i) {
          const int64_t x = i / (from.sizes[1] * from.sizes[2]), y = i / from.sizes[2] % from.sizes[1], z = i % from.sizes[2];
          const int64_t index = at.at<int64_t>(plane)[at.offset(x, y, z)];
          T& found = target.at<T>(plane)[target.offset(index / (target.sizes[1] * target.sizes[2]),
                                                       index / target.sizes[2] % target.sizes[1], index % target.sizes[2])];
          const T value = from.at<T>(plane)[from.offset(x, y, z)];
          found = adds ? static_cast<T>(comparable(found) + comparable(value)) : value;
        }
      }
    });
  });
}

/// The gradient of a maximum: elements of `grad` at the indices of the largest elements. Small floats are summed as floats.
Owned max_gradient(Tensor grad, Tensor self, Tensor indices, int64_t axes, bool keeps_format, const char* name) {
  if (grad->dtype != self->dtype) fail_dtype(name, grad->dtype);
  const int32_t dtype = self->dtype == kF16 || self->dtype == kBF16 ? kF32 : self->dtype;
  const Sizes sizes = sizes_of(self), strides = keeps_format ? strides_as(self, axes, sizes) : contiguous_strides(sizes);
  Owned sums = empty(sizes, strides, dtype);
  fill_zero(sums.get());
  const Owned given = contiguous(grad, dtype);
  write_to_indices(sums.get(), given.get(), indices, axes, true, name);
  if (dtype == self->dtype) return sums;
  Owned made = empty(sizes, strides, self->dtype);
  copy_into(made.get(), sums.get());
  return made;
}

Owned unpooled(Tensor self, Tensor indices, const int64_t* output_size, int64_t count, int64_t axes, const char* name) {
  if (count != axes) fail_operator(name, "there is not one size for each axis");
  planes_of(self, axes, name);
  Sizes sizes = sizes_of(self);
  std::copy(output_size, output_size + count, sizes.end() - axes);
  for (const int64_t size : sizes) {
    if (size < 0) fail_operator(name, "a size of the result is negative");
  }
  Owned made = empty(sizes, axes == 2 ? strides_as(self, axes, sizes) : contiguous_strides(sizes), self->dtype);
  fill_zero(made.get());
  write_to_indices(made.get(), self, indices, axes, false, name);
  return made;
}

}  // namespace
}  // namespace wir

using namespace wir;

WIR_OPERATOR(adaptive_max_pool2d)(Tensor self, const int64_t* output_size, int64_t output_size_len_, Tensor* ret0, Tensor* ret1) {
  Largest made = adaptive_max(self, 2, output_size, output_size_len_, "aten::adaptive_max_pool2d");
  give(made, ret0, ret1);
  return 0;
}

WIR_OPERATOR(adaptive_max_pool3d)(Tensor self, const int64_t* output_size, int64_t output_size_len_, Tensor* ret0, Tensor* ret1) {
  Largest made = adaptive_max(self, 3, output_size, output_size_len_, "aten::adaptive_max_pool3d");
  give(made, ret0, ret1);
  return 0;
}

WIR_OPERATOR(adaptive_max_pool2d_backward)(Tensor grad_output, Tensor self, Tensor indices, Tensor* ret0) {
  *ret0 = max_gradient(grad_output, self, indices, 2, true, "aten::adaptive_max_pool2d_backward").release();
  return 0;
}

WIR_OPERATOR(adaptive_max_pool3d_backward)(Tensor grad_output, Tensor self, Tensor indices, Tensor* ret0) {
  *ret0 = max_gradient(grad_output, self, indices, 3, false, "aten::adaptive_max_pool3d_backward").release();
  return 0;
}

WIR_OPERATOR(max_pool2d_with_indices)
(Tensor self, const int64_t* kernel_size, int64_t kernel_size_len_, const int64_t* stride, int64_t stride_len_, const int64_t* padding,
 int64_t padding_len_, const int64_t* dilation, int64_t dilation_len_, int32_t ceil_mode, Tensor* ret0, Tensor* ret1) {
  constexpr const char* kName = "aten::max_pool2d_with_indices";
  const Pooling pooling = pooling_of(2, Sizes(kernel_size, kernel_size + kernel_size_len_), Sizes(stride, stride + stride_len_),
                                     Sizes(padding, padding + padding_len_), Sizes(dilation, dilation + dilation_len_), ceil_mode != 0, kName);
  Largest made = max_pool(self, 2, pooling, kName);
  give(made, ret0, ret1);
  return 0;
}

WIR_OPERATOR(max_pool3d_with_indices)
(Tensor self, const int64_t* kernel_size, int64_t kernel_size_len_, const int64_t* stride, int64_t stride_len_, const int64_t* padding,
 int64_t padding_len_, const int64_t* dilation, int64_t dilation_len_, int32_t ceil_mode, Tensor* ret0, Tensor* ret1) {
  constexpr const char* kName = "aten::max_pool3d_with_indices";
  const Pooling pooling = pooling_of(3, Sizes(kernel_size, kernel_size + kernel_size_len_), Sizes(stride, stride + stride_len_),
                                     Sizes(padding, padding + padding_len_), Sizes(dilation, dilation + dilation_len_), ceil_mode != 0, kName);
  Largest made = max_pool(self, 3, pooling, kName);
  give(made, ret0, ret1);
  return 0;
}

WIR_OPERATOR(max_pool2d_with_indices_backward)
(Tensor grad_output, Tensor self, const int64_t*, int64_t, const int64_t*, int64_t, const int64_t*, int64_t, const int64_t*, int64_t,
 int32_t, Tensor indices, Tensor* ret0) {
  *ret0 = max_gradient(grad_output, self, indices, 2, true, "aten::max_pool2d_with_indices_backward").release();
  return 0;
}

WIR_OPERATOR(max_pool3d_with_indices_backward)
(Tensor grad_output, Tensor self, const int64_t*, int64_t, const int64_t*, int64_t, const int64_t*, int64_t, const int64_t*, int64_t,
 int32_t, Tensor indices, Tensor* ret0) {
  *ret0 = max_gradient(grad_output, self, indices, 3, true, "aten::max_pool3d_with_indices_backward").release();
  return 0;
}

WIR_OPERATOR(fractional_max_pool2d)
(Tensor self, const int64_t* kernel_size, int64_t kernel_size_len_, const int64_t* output_size, int64_t output_size_len_,
 Tensor random_samples, Tensor* ret0, Tensor* ret1) {
  Largest made = fractional_max(self, 2, Sizes(kernel_size, kernel_size + kernel_size_len_),
                                Sizes(output_size, output_size + output_size_len_), random_samples, "aten::fractional_max_pool2d");
  give(made, ret0, ret1);
  return 0;
}

WIR_OPERATOR(fractional_max_pool3d)
(Tensor self, const int64_t* kernel_size, int64_t kernel_size_len_, const int64_t* output_size, int64_t output_size_len_,
 Tensor random_samples, Tensor* ret0, Tensor* ret1) {
  Largest made = fractional_max(self, 3, Sizes(kernel_size, kernel_size + kernel_size_len_),
                                Sizes(output_size, output_size + output_size_len_), random_samples, "aten::fractional_max_pool3d");
  give(made, ret0, ret1);
  return 0;
}

WIR_OPERATOR(fractional_max_pool2d_backward)
(Tensor grad_output, Tensor self, const int64_t*, int64_t, const int64_t*, int64_t, Tensor indices, Tensor* ret0) {
  *ret0 = max_gradient(grad_output, self, indices, 2, false, "aten::fractional_max_pool2d_backward").release();
  return 0;
}

WIR_OPERATOR(fractional_max_pool3d_backward)
(Tensor grad_output, Tensor self, const int64_t*, int64_t, const int64_t*, int64_t, Tensor indices, Tensor* ret0) {
  *ret0 = max_gradient(grad_output, self, indices, 3, false, "aten::fractional_max_pool3d_backward").release();
  return 0;
}

WIR_OPERATOR(max_unpool2d)(Tensor self, Tensor indices, const int64_t* output_size, int64_t output_size_len_, Tensor* ret0) {
  *ret0 = unpooled(self, indices, output_size, output_size_len_, 2, "aten::max_unpool2d").release();
  return 0;
}

WIR_OPERATOR(max_unpool3d)
(Tensor self, Tensor indices, const int64_t* output_size, int64_t output_size_len_, const int64_t*, int64_t, const int64_t*, int64_t,
 Tensor* ret0) {
  *ret0 = unpooled(self, indices, output_size, output_size_len_, 3, "aten::max_unpool3d").release();
  return 0;
}
