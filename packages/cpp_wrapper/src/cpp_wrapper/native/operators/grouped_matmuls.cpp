// Products of groups of rows or columns with a matrix each, as experts of a model compute them.
#include "layouts.h"
#include "matrix_checks.h"
#include "products.h"

namespace wir {
namespace {

/// Returns where each group ends along a dimension of `length`, which groups divide in order.
std::vector<int64_t> group_ends(const char* name, Tensor given, int64_t length) {
  if (given->rank != 1) fail_arguments(name, "the ends of groups must have one dimension");
  if (given->dtype != kI32 && given->dtype != kI64) fail_dtype(name, given->dtype);
  const Owned dense = contiguous(given, kI64);
  const int64_t* items = data_of<int64_t>(dense.get());
  std::vector<int64_t> ends(items, items + given->count);
  int64_t before = 0;
  for (const int64_t end : ends) {
    if (end < before || end > length) fail_arguments(name, "a group is not within the matrix");
    before = end;
  }
  return ends;
}

Owned matrix_of(Tensor batch, int64_t index) {
  const Sizes sizes = sizes_of(batch), strides = strides_of(batch);
  return view_of(batch, {sizes[1], sizes[2]}, {strides[1], strides[2]}, index * strides[0]);
}

/// Multiplies groups. One operand is a batch, with a matrix for each group of the other's rows or columns; or both are
/// matrices, whose common dimension is divided. Elements that belong to no group are zero.
Owned multiply_groups(const char* name, Tensor a, Tensor b, Tensor given) {
  const auto is_matrix = [](Tensor tensor) { return tensor->rank == 2; };
  if (!(is_matrix(a) || is_matrix(b)) || a->rank < 2 || b->rank < 2 || a->rank > 3 || b->rank > 3) {
    fail_arguments(name, "its arguments have the wrong number of dimensions");
  }
  const bool by_rows = !is_matrix(b), by_columns = !is_matrix(a);
  const int64_t m = a->sizes()[a->rank - 2], k = a->sizes()[a->rank - 1], n = b->sizes()[b->rank - 1];
  const std::vector<int64_t> ends = group_ends(name, given, by_rows ? m : by_columns ? n : k);
  const auto count = static_cast<int64_t>(ends.size());
  const bool fits = (!by_rows || b->sizes()[0] == count) && (!by_columns || a->sizes()[0] == count);
  if (!fits || b->sizes()[b->rank - 2] != k) fail_arguments(name, "the sizes of its arguments do not match");
  Owned out = zeros(by_rows || by_columns ? Sizes{m, n} : Sizes{count, m, n}, a->dtype);
  int64_t begin = 0;
  for (int64_t i = 0; i < count; ++i) {
    const int64_t end = ends[static_cast<size_t>(i)];
    const auto part = [&](Tensor tensor, int64_t dim) { return sliced(tensor, dim, &begin, &end, 1, name); };
    const Owned left = by_columns ? matrix_of(a, i) : part(a, by_rows ? 0 : 1);
    const Owned right = by_rows ? matrix_of(b, i) : part(b, by_columns ? 1 : 0);
    const Owned target = by_rows ? part(out.get(), 0) : by_columns ? part(out.get(), 1) : matrix_of(out.get(), i);
    if (begin < end && target->count > 0) multiply_matrices(name, target.get(), {nullptr, left.get(), right.get()}, 2);
    begin = end;
  }
  return out;
}

}  // namespace
}  // namespace wir

using namespace wir;

WIR_OPERATOR(_grouped_mm)
(Tensor self, Tensor mat2, Tensor* offs, Tensor* bias, int32_t* out_dtype, Tensor* ret0) {
  constexpr const char* kName = "aten::_grouped_mm";
  if (bias != nullptr) fail_arguments(kName, "a bias is not supported");
  if (out_dtype != nullptr && *out_dtype != self->dtype) fail_arguments(kName, "the result must have the arguments' element type");
  if (offs != nullptr) {
    *ret0 = multiply_groups(kName, self, mat2, *offs).release();
    return 0;
  }
  if (self->rank != 3 || mat2->rank != 3) fail_arguments(kName, "matrices need the ends of groups");
  Owned out = empty({self->sizes()[0], self->sizes()[1], mat2->sizes()[2]}, self->dtype);
  multiply_matrices(kName, out.get(), {nullptr, self, mat2}, 3);
  *ret0 = out.release();
  return 0;
}

// The same of transformers, for rows in other types than bfloat16.
WIR_OPERATOR(grouped_mm_fallback)(Tensor input, Tensor weight, Tensor offs, Tensor* ret0) {
  constexpr const char* kName = "transformers::grouped_mm_fallback";
  if (weight->rank != 3) fail_arguments(kName, "its arguments have the wrong number of dimensions");
  *ret0 = multiply_groups(kName, input, weight, offs).release();
  return 0;
}
