// Operators of packed weights: out = bias + mat1 @ B, with B in panels of 16 columns.
#include "packed_calls.h"
#include "panels.h"

namespace wir {
namespace {

constexpr const char* kName = "wrapper_ir::packed_addmm.out";

void multiply_panels(PackedCall& call) {
  Tensor mat1 = call.mat1, to = call.to();
  if (mat1->dtype != kF32 || to->dtype != kF32) fail_arguments(call.name, "its arguments have different element types");
  Product<float> product{};
  product.m = call.m, product.n = call.n, product.k = call.k, product.layout = Layout::kPanels;
  product.a = data_of<float>(mat1), product.a_row = mat1->strides()[0], product.a_column = mat1->strides()[1];
  product.b = data_of<float>(call.packed), product.c = data_of<float>(to), product.c_row = call.to_step();
  product.bias = call.bias ? data_of<float>(call.bias.get()) : nullptr;
  multiply_parallel(product);
}

#ifndef WIR_WITHOUT_SMALL_FLOATS
/// Multiplies with 2-byte elements. The dot instruction treats subnormal numbers as zeros, and rounds otherwise.
void multiply_pairs(PackedCall& call) {
  const int32_t dtype = call.packed->dtype;
  if (call.mat1->dtype != dtype) fail_arguments(call.name, "its arguments have different element types");
#ifdef WIR_HAS_DOTS
  if (dtype == kBF16 && BFloatDots::is_supported()) {
    return multiply_to_floats<BFloatDots>(call, 2, read_rows(call, kBF16, 2));
  }
#endif
  const Rows rows = read_rows(call, kF32, 1);
  dtype == kBF16 ? multiply_to_floats<BFloatPairs>(call, 2, rows) : multiply_to_floats<HalfPairs>(call, 2, rows);
}
#else
void multiply_pairs(PackedCall& call) { fail_dtype(call.name, call.packed->dtype); }
#endif

}  // namespace
}  // namespace wir

using namespace wir;

WIR_OPERATOR(packed_addmm_out)(Tensor out, Tensor* bias, Tensor mat1, Tensor packed, int64_t columns) {
  PackedCall call{kName, out, mat1, packed};
  const int32_t dtype = packed->dtype;
  if (dtype != kF32 && dtype != kBF16 && dtype != kF16) fail_dtype(kName, dtype);
  prepare(call, columns, dtype == kF32 ? 1 : 2);
  call.bias = read_columns(call, bias, bias != nullptr && (*bias)->dtype == dtype ? dtype : kF32);
  if (out->count > 0) dtype == kF32 ? multiply_panels(call) : multiply_pairs(call);
  call.finish();
  return 0;
}
