// Averages of windows of images, and their gradients.
#include "windows.h"

namespace wir {
namespace {

constexpr int64_t kGrain = 1 << 14;  // elements for which a thread is worth it

/// The type in which elements of type `T` are summed.
template <class T> struct SumOf { using Type = float; };
template <> struct SumOf<double> { using Type = double; };
template <> struct SumOf<int64_t> { using Type = int64_t; };
template <class T> using Sum = typename SumOf<T>::Type;

template <class Body> void summable(int32_t dtype, const char* name, const Body& body) {
  return dtype == kI64 ? body.template operator()<int64_t>() : floats(dtype, name, body);
}

/// By what the sum of a window is divided.
struct Divisor {
  bool counts_padding;
  int64_t fixed;  // 0: the number of positions

  int64_t of(const Window& a, const Window& b, const Window& c) const {
    if (fixed != 0) return fixed;
    if (counts_padding) return a.extent * b.extent * c.extent;
    return (a.end - a.begin) * (b.end - b.begin) * (c.end - c.begin);
  }
};
constexpr Divisor kPositions{false, 0};

Divisor divisor_of(bool counts_padding, const int64_t* fixed, const char* name) {
  if (fixed != nullptr && *fixed == 0) fail_operator(name, "the divisor is 0");
  return {counts_padding, fixed == nullptr ? 0 : *fixed};
}

/// Returns the strides of an average, or of its gradient: torch keeps the format of two axes at most.
Sizes average_strides(Tensor self, int64_t axes, const Sizes& sizes) {
  return axes == 3 ? contiguous_strides(sizes) : strides_as(self, axes, sizes);
}

/// Returns how many elements the windows have, for each of the first axis and the second one.
int64_t row_work(const Windows& windows) {
  int64_t inner = 0;
  for (const Window& window : windows[2]) inner += window.end - window.begin;
  const auto longest = [](const std::vector<Window>& all) {
    int64_t found = 1;
    for (const Window& window : all) found = std::max(found, window.end - window.begin);
    return found;
  };
  return std::max<int64_t>(1, inner) * longest(windows[0]) * longest(windows[1]);
}

template <class T> void average(const Planes& from, const Planes& to, const Windows& windows, const Divisor& divisor) {
  const int64_t rows = to.sizes[0] * to.sizes[1];
  parallel_for(to.count() * rows, std::max<int64_t>(1, kGrain / row_work(windows)), [&](int64_t begin, int64_t end) {
    for (int64_t row = begin; row < end; ++row) {
      const T* source = from.at<T>(row / rows);
      const int64_t i = row % rows / to.sizes[1], j = row % to.sizes[1];
      T* target = to.at<T>(row / rows) + to.offset(i, j, 0);
      const Window &a = windows[0][static_cast<size_t>(i)], &b = windows[1][static_cast<size_t>(j)];
      for (const Window& c : windows[2]) {
        Sum<T> sum = 0;
        for (int64_t x = a.begin; x < a.end; ++x) {
          for (int64_t y = b.begin; y < b.end; ++y) {
            const T* line = source + from.offset(x, y, 0);
            for (int64_t z = c.begin; z < c.end; ++z) sum += static_cast<Sum<T>>(line[z * from.steps[4]]);
          }
        }
        const bool is_empty = a.begin >= a.end || b.begin >= b.end || c.begin >= c.end;
        *target = static_cast<T>(is_empty ? Sum<T>(0) : sum / static_cast<Sum<T>>(divisor.of(a, b, c)));
        target += to.steps[4];
      }
    }
  });
}

/// Adds the gradient of each average to the gradients of its window.
template <class T> void spread(const Planes& grad, const Planes& to, const Windows& windows, const Divisor& divisor) {
  const int64_t work = row_work(windows) * std::max<int64_t>(1, grad.sizes[0] * grad.sizes[1]);
  parallel_for(to.count(), std::max<int64_t>(1, kGrain / work), [&](int64_t begin, int64_t end) {
    for (int64_t plane = begin; plane < end; ++plane) {
      const T* source = grad.at<T>(plane);
      T* target = to.at<T>(plane);
      for (size_t i = 0; i < windows[0].size(); ++i) {
        for (size_t j = 0; j < windows[1].size(); ++j) {
          const Window &a = windows[0][i], &b = windows[1][j];
          const T* line = source + grad.offset(static_cast<int64_t>(i), static_cast<int64_t>(j), 0);
          for (const Window& c : windows[2]) {
            const T part = *line / static_cast<T>(divisor.of(a, b, c));
            line += grad.steps[4];
            for (int64_t x = a.begin; x < a.end; ++x) {
              for (int64_t y = b.begin; y < b.end; ++y) {
                for (int64_t z = c.begin; z < c.end; ++z) target[to.offset(x, y, z)] += part;
              }
            }
          }
        }
      }
    }
  });
}

Owned averaged(Tensor self, int64_t axes, const Windows& windows, const Divisor& divisor, const Planes& from, const char* name) {
  const Sizes sizes = windowed_sizes(self, axes, windows);
  Owned made = empty(sizes, average_strides(self, axes, sizes), self->dtype);
  if (made->count == 0) return made;
  const Planes to = planes_of(made.get(), axes, name);
  summable(self->dtype, name, [&]<class T>() { average<T>(from, to, windows, divisor); });
  return made;
}

/// The gradient of an average. Small floats are summed as floats.
Owned averaged_gradient(Tensor grad, Tensor self, int64_t axes, const Windows& windows, const Divisor& divisor, const char* name) {
  if (grad->dtype != self->dtype) fail_dtype(name, grad->dtype);
  if (sizes_of(grad) != windowed_sizes(self, axes, windows)) fail_operator(name, "the gradient has another shape than the result");
  const int32_t dtype = self->dtype == kF16 || self->dtype == kBF16 ? kF32 : self->dtype;
  const Sizes sizes = sizes_of(self), strides = average_strides(self, axes, sizes);
  Owned sums = empty(sizes, strides, dtype);
  fill_zero(sums.get());
  const Owned given = dtype == grad->dtype ? Owned(view_of(grad, sizes_of(grad), strides_of(grad))) : contiguous(grad, dtype);
  if (sums->count > 0 && grad->count > 0) {
    const Planes from = planes_of(given.get(), axes, name), to = planes_of(sums.get(), axes, name);
    summable(dtype, name, [&]<class T>() {
      if constexpr (!is_small_float<T>) spread<T>(from, to, windows, divisor);
    });
  }
  if (dtype == self->dtype) return sums;
  Owned made = empty(sizes, strides, self->dtype);
  copy_into(made.get(), sums.get());
  return made;
}

/// Arguments of an average, in the order of its schema.
struct Average {
  const int64_t *kernel, *stride, *padding;
  int64_t kernel_count, stride_count, padding_count;
  bool ceil, counts_padding;
  const int64_t* divisor;

  Windows windows(const Planes& planes, int64_t axes, const char* name) const {
    const Sizes steps(stride, stride + stride_count), pads(padding, padding + padding_count);
    const Sizes sizes(kernel, kernel + kernel_count);
    return pooling_windows(planes, axes, pooling_of(axes, sizes, steps, pads, {1}, ceil, name), name);
  }
};

Owned average_pool(Tensor self, int64_t axes, const Average& options, const char* name) {
  const Planes planes = planes_of(self, axes, name);
  const Divisor divisor = divisor_of(options.counts_padding, options.divisor, name);
  return averaged(self, axes, options.windows(planes, axes, name), divisor, planes, name);
}
Owned average_pool_gradient(Tensor grad, Tensor self, int64_t axes, const Average& options, const char* name) {
  const Divisor divisor = divisor_of(options.counts_padding, options.divisor, name);
  return averaged_gradient(grad, self, axes, options.windows(planes_of(self, axes, name), axes, name), divisor, name);
}

Owned adaptive_average(Tensor self, int64_t axes, const int64_t* sizes, int64_t count, const char* name) {
  if (count != axes) fail_operator(name, "there is not one size for each axis");
  const Planes planes = planes_of(self, axes, name);
  return averaged(self, axes, adaptive_windows(planes, Sizes(sizes, sizes + count), name), kPositions, planes, name);
}
Owned adaptive_average_gradient(Tensor grad, Tensor self, int64_t axes, const char* name) {
  const Planes planes = planes_of(self, axes, name);
  if (grad->rank != self->rank) fail_operator(name, "the gradient has another rank than the input");
  const Sizes sizes(grad->sizes() + grad->rank - axes, grad->sizes() + grad->rank);
  if (self->count == 0 || grad->count == 0) return zeros(sizes_of(self), self->dtype);
  return averaged_gradient(grad, self, axes, adaptive_windows(planes, sizes, name), kPositions, name);
}

}  // namespace
}  // namespace wir

using namespace wir;

WIR_OPERATOR(avg_pool1d)
(Tensor self, const int64_t* kernel_size, int64_t kernel_size_len_, const int64_t* stride, int64_t stride_len_, const int64_t* padding,
 int64_t padding_len_, int32_t ceil_mode, int32_t count_include_pad, Tensor* ret0) {
  const Average options{kernel_size, stride, padding, kernel_size_len_, stride_len_, padding_len_, ceil_mode != 0,
                        count_include_pad != 0, nullptr};
  *ret0 = average_pool(self, 1, options, "aten::avg_pool1d").release();
  return 0;
}

WIR_OPERATOR(avg_pool2d)
(Tensor self, const int64_t* kernel_size, int64_t kernel_size_len_, const int64_t* stride, int64_t stride_len_, const int64_t* padding,
 int64_t padding_len_, int32_t ceil_mode, int32_t count_include_pad, int64_t* divisor_override, Tensor* ret0) {
  const Average options{kernel_size, stride, padding, kernel_size_len_, stride_len_, padding_len_, ceil_mode != 0,
                        count_include_pad != 0, divisor_override};
  *ret0 = average_pool(self, 2, options, "aten::avg_pool2d").release();
  return 0;
}

WIR_OPERATOR(avg_pool3d)
(Tensor self, const int64_t* kernel_size, int64_t kernel_size_len_, const int64_t* stride, int64_t stride_len_, const int64_t* padding,
 int64_t padding_len_, int32_t ceil_mode, int32_t count_include_pad, int64_t* divisor_override, Tensor* ret0) {
  const Average options{kernel_size, stride, padding, kernel_size_len_, stride_len_, padding_len_, ceil_mode != 0,
                        count_include_pad != 0, divisor_override};
  *ret0 = average_pool(self, 3, options, "aten::avg_pool3d").release();
  return 0;
}

WIR_OPERATOR(avg_pool2d_backward)
(Tensor grad_output, Tensor self, const int64_t* kernel_size, int64_t kernel_size_len_, const int64_t* stride, int64_t stride_len_,
 const int64_t* padding, int64_t padding_len_, int32_t ceil_mode, int32_t count_include_pad, int64_t* divisor_override, Tensor* ret0) {
  const Average options{kernel_size, stride, padding, kernel_size_len_, stride_len_, padding_len_, ceil_mode != 0,
                        count_include_pad != 0, divisor_override};
  *ret0 = average_pool_gradient(grad_output, self, 2, options, "aten::avg_pool2d_backward").release();
  return 0;
}

WIR_OPERATOR(avg_pool3d_backward)
(Tensor grad_output, Tensor self, const int64_t* kernel_size, int64_t kernel_size_len_, const int64_t* stride, int64_t stride_len_,
 const int64_t* padding, int64_t padding_len_, int32_t ceil_mode, int32_t count_include_pad, int64_t* divisor_override, Tensor* ret0) {
  const Average options{kernel_size, stride, padding, kernel_size_len_, stride_len_, padding_len_, ceil_mode != 0,
                        count_include_pad != 0, divisor_override};
  *ret0 = average_pool_gradient(grad_output, self, 3, options, "aten::avg_pool3d_backward").release();
  return 0;
}

WIR_OPERATOR(adaptive_avg_pool1d)(Tensor self, const int64_t* output_size, int64_t output_size_len_, Tensor* ret0) {
  *ret0 = adaptive_average(self, 1, output_size, output_size_len_, "aten::adaptive_avg_pool1d").release();
  return 0;
}

WIR_OPERATOR(_adaptive_avg_pool2d)(Tensor self, const int64_t* output_size, int64_t output_size_len_, Tensor* ret0) {
  *ret0 = adaptive_average(self, 2, output_size, output_size_len_, "aten::_adaptive_avg_pool2d").release();
  return 0;
}

WIR_OPERATOR(_adaptive_avg_pool3d)(Tensor self, const int64_t* output_size, int64_t output_size_len_, Tensor* ret0) {
  *ret0 = adaptive_average(self, 3, output_size, output_size_len_, "aten::_adaptive_avg_pool3d").release();
  return 0;
}

WIR_OPERATOR(_adaptive_avg_pool2d_backward)(Tensor grad_output, Tensor self, Tensor* ret0) {
  *ret0 = adaptive_average_gradient(grad_output, self, 2, "aten::_adaptive_avg_pool2d_backward").release();
  return 0;
}

WIR_OPERATOR(_adaptive_avg_pool3d_backward)(Tensor grad_output, Tensor self, Tensor* ret0) {
  *ret0 = adaptive_average_gradient(grad_output, self, 3, "aten::_adaptive_avg_pool3d_backward").release();
  return 0;
}
