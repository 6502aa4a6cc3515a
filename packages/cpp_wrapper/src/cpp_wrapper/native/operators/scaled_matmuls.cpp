// Products of matrices of 8-bit floats with scales.
#include "layouts.h"
#include "products.h"

namespace wir {
namespace {

bool is_small(int32_t dtype) { return dtype == kF8E4M3FN || dtype == kF8E5M2; }

/// Returns scales as floats: one for all, or one for each of `count` rows or columns.
Owned scales_of(Tensor given, int64_t count, const char* name) {
  if (given->dtype != kF32) fail_dtype(name, given->dtype);
  if (given->count != 1 && given->count != count) fail_operator(name, "there is neither one scale nor one for each row or column");
  return contiguous(given);
}

/// Arguments of a product.
struct Scaled {
  Tensor a, b, scale_a, scale_b;
  Tensor *bias, *scale_result;
  int32_t dtype;
};

/// Writes (a @ b) * scales + bias. Sums, scales and the bias are floats.
void multiply_scaled(Tensor out, const Scaled& call, const char* name) {
  if (!is_small(call.a->dtype)) fail_dtype(name, call.a->dtype);
  if (!is_small(call.b->dtype)) fail_dtype(name, call.b->dtype);
  if (call.a->rank != 2 || call.b->rank != 2 || call.a->sizes()[1] != call.b->sizes()[0]) {
    fail_operator(name, "the sizes of its matrices do not match");
  }
  const int64_t rows = call.a->sizes()[0], columns = call.b->sizes()[1];
  const Owned scale_a = scales_of(call.scale_a, rows, name), scale_b = scales_of(call.scale_b, columns, name);
  const Owned bias = call.bias == nullptr ? Owned() : contiguous(*call.bias, kF32);
  if (bias && bias->count != columns) fail_operator(name, "there is not one bias for each column");
  float factor = 1;
  if (call.scale_result != nullptr && is_small(call.dtype)) {
    if ((*call.scale_result)->dtype != kF32 || (*call.scale_result)->count != 1) fail_operator(name, "the scale of the result is not one float");
    factor = 1 / *data_of<float>(*call.scale_result);
  }
  const float limit = call.dtype == kF8E4M3FN ? 448 : std::numeric_limits<float>::infinity();
  const Owned a = contiguous(call.a, kF32), b = contiguous(call.b, kF32);
  Owned sums = empty({rows, columns}, kF32);
  multiply_matrices(name, sums.get(), {nullptr, a.get(), b.get(), 0, 1}, 2);
  const float *left = data_of<float>(scale_a.get()), *right = data_of<float>(scale_b.get());
  for (int64_t i = 0; i < rows; ++i) {
    float* line = data_of<float>(sums.get()) + i * columns;
    const float scale = left[scale_a->count == 1 ? 0 : i];
    for (int64_t j = 0; j < columns; ++j) {
      line[j] *= scale * right[scale_b->count == 1 ? 0 : j];
      if (bias) line[j] += data_of<float>(bias.get())[j];
      line[j] = std::clamp(line[j] * factor, -limit, limit);  // NaN stays
    }
  }
  copy_into(out, sums.get());
}

}  // namespace
}  // namespace wir

using namespace wir;

WIR_OPERATOR(_scaled_mm)
(Tensor self, Tensor mat2, Tensor scale_a, Tensor scale_b, Tensor* bias, Tensor* scale_result, int32_t* out_dtype, int32_t, Tensor* ret0) {
  constexpr const char* kName = "aten::_scaled_mm";
  const int32_t dtype = out_dtype != nullptr ? *out_dtype : self->dtype;
  if (!is_small(dtype) && !is_float(dtype)) fail_dtype(kName, dtype);
  if (self->rank != 2 || mat2->rank != 2) fail_operator(kName, "the sizes of its matrices do not match");
  Owned made = empty({self->sizes()[0], mat2->sizes()[1]}, dtype);
  multiply_scaled(made.get(), {self, mat2, scale_a, scale_b, bias, scale_result, dtype}, kName);
  *ret0 = made.release();
  return 0;
}

WIR_OPERATOR(_scaled_mm_out)
(Tensor out, Tensor self, Tensor mat2, Tensor scale_a, Tensor scale_b, Tensor* bias, Tensor* scale_result, int32_t* out_dtype, int32_t) {
  constexpr const char* kName = "aten::_scaled_mm.out";
  if (out_dtype != nullptr && *out_dtype != out->dtype) fail_operator(kName, "`out` has another element type than the result");
  if (!is_small(out->dtype) && !is_float(out->dtype)) fail_dtype(kName, out->dtype);
  if (out->rank != 2 || self->rank != 2 || mat2->rank != 2 || out->sizes()[0] != self->sizes()[0] || out->sizes()[1] != mat2->sizes()[1]) {
    fail_operator(kName, "the sizes of its matrices do not match");
  }
  multiply_scaled(out, {self, mat2, scale_a, scale_b, bias, scale_result, out->dtype}, kName);
  return 0;
}
