// Arguments and results of products with packed matrices.
#pragma once
#include "interleaved.h"
#include "matrix_checks.h"

namespace wir {
namespace {  // templates over kernels of this file's instruction set

/// A checked call whose operands do not overlap the result, which has contiguous rows.
struct PackedCall {
  const char* name;
  Tensor out, mat1, packed;
  int64_t m = 0, n = 0, k = 0;
  Owned result = nullptr;  // copied to `out` in the end; null: `out` itself is written
  Owned first = nullptr, bias = nullptr, scales = nullptr;

  void finish() const {
    if (result) copy_into(out, result.get());
  }
  Tensor to() const { return result ? result.get() : out; }
  int64_t to_step() const { return m == 1 ? n : to()->strides()[0]; }
};

/// Returns a float for each column, contiguous; null for none.
inline Owned converted_copy(Tensor row, int32_t dtype) {
  const Owned copy(clone_with_strides(row));
  return contiguous(copy.get(), dtype);
}
inline Owned read_columns(const PackedCall& call, Tensor* given) {
  if (given == nullptr) return nullptr;
  Tensor row = *given;
  if (row->rank != 1 || row->sizes()[0] != call.n) {
    fail_arguments(call.name, "the bias and scales need a number for each column");
  }
  return overlaps(call.out, row) ? converted_copy(row, kF32) : contiguous(row, kF32);
}

/// Checks sizes and layouts. `group`: rows of a word of the panels.
inline void prepare(PackedCall& call, int64_t columns, int64_t group) {
  Tensor out = call.out, mat1 = call.mat1, packed = call.packed;
  if (mat1->rank != 2 || out->rank != 2 || packed->rank != (group == 1 ? 3 : 4)) {
    fail_arguments(call.name, "its arguments have the wrong number of dimensions");
  }
  call.m = mat1->sizes()[0], call.k = mat1->sizes()[1], call.n = columns;
  const int64_t* sizes = packed->sizes();
  const bool fits = sizes[0] == parts_of(columns, kPanel) && sizes[1] == parts_of(call.k, group) && sizes[2] == kPanel;
  if (!fits || (group != 1 && sizes[3] != group) || out->sizes()[0] != call.m || out->sizes()[1] != columns) {
    fail_arguments(call.name, "the sizes of its arguments do not match");
  }
  if (!is_contiguous(packed)) fail_arguments(call.name, "the packed matrix is not contiguous");
  const bool contiguous_rows = out->strides()[1] == 1 || columns == 1;
  if (!contiguous_rows || overlaps(out, mat1)) call.result.reset(new_tensor(2, out->sizes(), nullptr, out->dtype));
}

/// Makes the rows of `mat1` contiguous, of type `dtype`, and padded with zeros to whole words.
struct Rows {
  const unsigned char* data;
  int64_t step;
};
inline Rows read_rows(PackedCall& call, int32_t dtype, int64_t group) {
  Tensor mat1 = call.mat1;
  const int64_t size = element_size(dtype), padded = parts_of(call.k, group) * group;
  if (mat1->dtype == dtype && (mat1->strides()[1] == 1 || call.k == 1) && padded == call.k) {
    return {mat1->data(), mat1->strides()[0] * size};
  }
  const int64_t sizes[] = {call.m, padded};
  call.first.reset(new_tensor(2, sizes, nullptr, dtype));
  if (padded != call.k) fill_zero(call.first.get());
  const int64_t inner[] = {call.m, call.k};
  const Owned target(new_view(call.first.get(), 0, 2, inner, call.first->strides(), dtype));
  copy_into(target.get(), mat1);
  return {call.first->data(), padded * size};
}

/// Writes `bias + scales * sums` of a row; null for none.
template <class Sum> void scale_row(const Sum* sums, int64_t columns, const float* scales, const float* bias, float* line) {
  for (int64_t j = 0; j < columns; ++j) line[j] = static_cast<float>(sums[j]);
  if (scales) {
    for (int64_t j = 0; j < columns; ++j) line[j] *= scales[j];
  }
  if (bias) {
    for (int64_t j = 0; j < columns; ++j) line[j] += bias[j];
  }
}
template <class To> void store_row(const float* line, int64_t columns, To* to) {
  for (int64_t j = 0; j < columns; ++j) to[j] = converted<To>(line[j]);
}

/// Computes a product of floats with a kind of panels; `To` is the type of the result.
template <class Kind, class To> void multiply_floats(PackedCall& call, int64_t group, const Rows& rows) {
  const float* bias = call.bias ? data_of<float>(call.bias.get()) : nullptr;
  const float* scales = call.scales ? data_of<float>(call.scales.get()) : nullptr;
  To* out = data_of<To>(call.to());
  const int64_t out_step = call.to_step();
  const InterleavedProduct product{call.m, call.n, call.k, rows.data, rows.step, data_of<uint32_t>(call.packed)};
  multiply_interleaved<Kind>(product, group, [=](const SumsTile<float>& tile) {
    for (int64_t i = 0; i < tile.rows; ++i) {
      float line[4 * kPanel];
      const float *scale = scales ? scales + tile.column : nullptr, *add = bias ? bias + tile.column : nullptr;
      scale_row(tile.sums + i * tile.step, tile.columns, scale, add, line);
      store_row(line, tile.columns, out + (tile.row + i) * out_step + tile.column);
    }
  });
}

template <class Kind> void multiply_to_floats(PackedCall& call, int64_t group, const Rows& rows) {
  floats(call.out->dtype, call.name, [&]<class To>() {
    if constexpr (std::is_same_v<To, double>) {
      fail_dtype(call.name, kF64);
    } else {
      multiply_floats<Kind, To>(call, group, rows);
    }
  });
}

}  // namespace
}  // namespace wir
