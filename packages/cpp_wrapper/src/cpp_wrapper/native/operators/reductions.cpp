// Reductions that Inductor leaves to the library: over complex numbers, and a few others.
#include "layouts.h"

#include <complex>

namespace wir {
namespace {

using C = std::complex<double>;

/// The sizes of a result, and the input with the reduced dimensions last.
struct Reduction {
  Sizes sizes;
  Owned ordered;        // the kept dimensions, then the reduced ones
  int64_t length = 1;   // elements of a result
};

Reduction reduction_of(Tensor self, const int64_t* dims, int64_t count, bool keepdim, const char* name) {
  std::vector<bool> reduced(static_cast<size_t>(std::max<int64_t>(self->rank, 1)), dims == nullptr || count == 0);
  for (int64_t i = 0; dims != nullptr && i < count; ++i) reduced[static_cast<size_t>(wrap_dim(dims[i], self->rank, name))] = true;
  Reduction made;
  Sizes sizes, strides, last_sizes, last_strides;
  for (int64_t i = 0; i < self->rank; ++i) {
    const int64_t size = self->sizes()[i], stride = self->strides()[i];
    if (reduced[static_cast<size_t>(i)]) {
      made.length *= size;
      last_sizes.push_back(size);
      last_strides.push_back(stride);
      if (keepdim) made.sizes.push_back(1);
    } else {
      sizes.push_back(size);
      strides.push_back(stride);
      made.sizes.push_back(size);
    }
  }
  sizes.insert(sizes.end(), last_sizes.begin(), last_sizes.end());
  strides.insert(strides.end(), last_strides.begin(), last_strides.end());
  made.ordered = contiguous(view_of(self, sizes, strides).get());
  return made;
}

/// The sum of a run of elements, by halves, so that errors of rounding stay small.
C sum_run(const unsigned char* at, int64_t count, int64_t size, int32_t dtype) {
  constexpr int64_t kRun = 64;
  if (count > kRun) {
    const int64_t half = count / 2;
    return sum_run(at, half, size, dtype) + sum_run(at + half * size, count - half, size, dtype);
  }
  C sum = 0;
  for (int64_t i = 0; i < count; ++i) {
    const Number value = load_number(at + i * size, dtype);
    sum += C(value.real, value.imaginary);
  }
  return sum;
}
int64_t whole_sum(const unsigned char* at, int64_t count, int64_t size, int32_t dtype) {
  uint64_t sum = 0;
  for (int64_t i = 0; i < count; ++i) sum += static_cast<uint64_t>(load_number(at + i * size, dtype).whole);
  return static_cast<int64_t>(sum);
}

bool is_inexact(int32_t dtype) { return is_float(dtype) || is_complex(dtype); }

/// Sums, or means if `is_mean`.
Owned summed(Tensor self, const int64_t* dims, int64_t count, bool keepdim, const int32_t* dtype, bool is_mean, const char* name) {
  const int32_t type = dtype != nullptr ? *dtype : is_inexact(self->dtype) ? self->dtype : kI64;
  if (is_mean && !is_inexact(type)) fail_dtype(name, type);
  Reduction reduction = reduction_of(self, dims, count, keepdim, name);
  const int32_t given = is_inexact(self->dtype) && !is_inexact(type) ? type : self->dtype;
  const Owned source = contiguous(reduction.ordered.get(), given);
  Owned made = empty(reduction.sizes, type);
  const int64_t size = element_size(given), result_size = element_size(type);
  for (int64_t i = 0; i < made->count; ++i) {
    const unsigned char* at = source->data() + i * reduction.length * size;
    Number value;
    if (is_inexact(type)) {
      C sum = sum_run(at, reduction.length, size, given);
      if (is_mean) sum /= static_cast<double>(reduction.length);
      value = {sum.real(), sum.imag(), 0, false, false};
    } else {
      value = {0, 0, whole_sum(at, reduction.length, size, given), true, false};
    }
    store_number(made->data() + i * result_size, type, value);
  }
  return made;
}

/// Means, and variances with this correction.
void spread(Tensor self, const int64_t* dims, int64_t count, double correction, bool keepdim, Tensor* variance, Tensor* mean,
            const char* name) {
  if (!is_inexact(self->dtype)) fail_dtype(name, self->dtype);
  const Reduction reduction = reduction_of(self, dims, count, keepdim, name);
  const int32_t real = self->dtype == kC64 ? kF32 : self->dtype == kC128 ? kF64 : self->dtype;
  Owned variances = empty(reduction.sizes, real), means = empty(reduction.sizes, self->dtype);
  const int64_t size = element_size(self->dtype);
  const auto length = static_cast<double>(reduction.length);
  for (int64_t i = 0; i < means->count; ++i) {
    const unsigned char* at = reduction.ordered->data() + i * reduction.length * size;
    const C center = sum_run(at, reduction.length, size, self->dtype) / length;
    double total = 0;
    for (int64_t j = 0; j < reduction.length; ++j) {
      const Number value = load_number(at + j * size, self->dtype);
      total += std::norm(C(value.real, value.imaginary) - center);
    }
    store_number(variances->data() + i * element_size(real), real, {total / std::max(length - correction, 0.0), 0, 0, false, false});
    store_number(means->data() + i * size, self->dtype, {center.real(), center.imag(), 0, false, false});
  }
  *variance = variances.release();
  if (mean != nullptr) *mean = means.release();
}

}  // namespace
}  // namespace wir

using namespace wir;

WIR_OPERATOR(sum)(Tensor self, int32_t* dtype, Tensor* ret0) {
  *ret0 = summed(self, nullptr, 0, false, dtype, false, "aten::sum").release();
  return 0;
}

WIR_OPERATOR(sum_dim_IntList)(Tensor self, const int64_t** dim, int64_t dim_len_, int32_t keepdim, int32_t* dtype, Tensor* ret0) {
  *ret0 = summed(self, dim != nullptr ? *dim : nullptr, dim_len_, keepdim != 0, dtype, false, "aten::sum.dim_IntList").release();
  return 0;
}

WIR_OPERATOR(mean)(Tensor self, int32_t* dtype, Tensor* ret0) {
  *ret0 = summed(self, nullptr, 0, false, dtype, true, "aten::mean").release();
  return 0;
}

WIR_OPERATOR(mean_dim)(Tensor self, const int64_t** dim, int64_t dim_len_, int32_t keepdim, int32_t* dtype, Tensor* ret0) {
  *ret0 = summed(self, dim != nullptr ? *dim : nullptr, dim_len_, keepdim != 0, dtype, true, "aten::mean.dim").release();
  return 0;
}

WIR_OPERATOR(var_mean_correction)(Tensor self, const int64_t** dim, int64_t dim_len_, double* correction, int32_t keepdim,
                                  Tensor* ret0, Tensor* ret1) {
  spread(self, dim != nullptr ? *dim : nullptr, dim_len_, correction != nullptr ? *correction : 1, keepdim != 0, ret0, ret1,
         "aten::var_mean.correction");
  return 0;
}

WIR_OPERATOR(var_correction)(Tensor self, const int64_t** dim, int64_t dim_len_, double* correction, int32_t keepdim, Tensor* ret0) {
  spread(self, dim != nullptr ? *dim : nullptr, dim_len_, correction != nullptr ? *correction : 1, keepdim != 0, ret0, nullptr,
         "aten::var.correction");
  return 0;
}

WIR_OPERATOR(hash_tensor)(Tensor self, const int64_t* dim, int64_t dim_len_, int32_t keepdim, int64_t mode, Tensor* ret0) {
  constexpr const char* kName = "aten::hash_tensor";
  if (mode != 0) fail_operator(kName, "the mode is unknown");
  Reduction reduction = reduction_of(self, dim, dim_len_, keepdim != 0, kName);
  if (reduction.length == 0 || (self->count == 0 && dim_len_ == 0)) fail_operator(kName, "there are no elements");
  Owned made = empty(reduction.sizes, kU64);
  numbers_and_bool(self->dtype, kName, [&]<class T>() {
    constexpr bool kIsFloat = is_small_float<T> || std::is_floating_point_v<T>;
    const T* items = data_of<T>(reduction.ordered.get());
    for (int64_t i = 0; i < made->count; ++i) {
      uint64_t sum = 0;
      for (int64_t k = 0; k < reduction.length; ++k) {
        const auto wide = converted<std::conditional_t<kIsFloat, double, int64_t>>(*items++);
        uint64_t bits;
        std::memcpy(&bits, &wide, sizeof bits);
        sum ^= bits;
      }
      data_of<uint64_t>(made.get())[i] = sum;
    }
  });
  *ret0 = made.release();
  return 0;
}
