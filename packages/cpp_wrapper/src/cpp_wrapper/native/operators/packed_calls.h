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

inline Owned converted_copy(Tensor row, int32_t dtype) {
  const Owned copy(clone_with_strides(row));
  return contiguous(copy.get(), dtype);
}
/// Returns a number of type `dtype` for each column, contiguous; null for none.
inline Owned read_columns(const PackedCall& call, Tensor* given, int32_t dtype = kF32) {
  if (given == nullptr) return nullptr;
  Tensor row = *given;
  if (row->rank != 1 || row->sizes()[0] != call.n) {
    fail_arguments(call.name, "the bias and scales need a number for each column");
  }
  return overlaps(call.out, row) ? converted_copy(row, dtype) : contiguous(row, dtype);
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

/// Returns numbers of columns of a row of `read_columns`, as floats: in `memory` if they are not; null for none.
inline const float* columns_of(Tensor row, int64_t first, int64_t count, float* memory) {
  if (row == nullptr) return nullptr;
  if (row->dtype == kF32) return data_of<float>(row) + first;
  if (row->dtype == kBF16) {
    convert_numbers(data_of<BFloat16>(row) + first, count, memory);
  } else {
    convert_numbers(data_of<Half>(row) + first, count, memory);
  }
  return memory;
}

/// Writes `bias + scales * sums` of a row; null for none.
template <class Sum, class To>
void finish_row(const Sum* sums, int64_t columns, const float* scales, const float* bias, To* to) {
  int64_t j = 0;
  for (; j + kWidth <= columns; j += kWidth) {
    Floats values = __builtin_convertvector(*reinterpret_cast<const Lanes<Sum>*>(sums + j), Floats);
    if (scales) values *= load_lanes(scales + j);
    if (bias) values += load_lanes(bias + j);
    store_lanes(to + j, values);
  }
  for (; j < columns; ++j) {
    const float value = static_cast<float>(sums[j]) * (scales ? scales[j] : 1);
    to[j] = converted<To>(bias ? value + bias[j] : value);
  }
}

/// Computes a product of floats with a kind of panels; `To` is the type of the result.
template <class Kind, class To> void multiply_floats(PackedCall& call, int64_t group, const Rows& rows) {
  Tensor bias = call.bias.get(), scales = call.scales.get();
  To* out = data_of<To>(call.to());
  const int64_t out_step = call.to_step();
  const InterleavedProduct product{call.m, call.n, call.k, rows.data, rows.step, data_of<uint32_t>(call.packed)};
  multiply_interleaved<Kind>(product, group, [=](const SumsTile<float>& tile) {
    float memory[2][4 * kPanel];
    const float* scale = columns_of(scales, tile.column, tile.columns, memory[0]);
    const float* add = columns_of(bias, tile.column, tile.columns, memory[1]);
    for (int64_t i = 0; i < tile.rows; ++i) {
      finish_row(tile.sums + i * tile.step, tile.columns, scale, add, out + (tile.row + i) * out_step + tile.column);
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
