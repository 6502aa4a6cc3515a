// Layouts of matrices for BLAS and cuBLAS.
#pragma once
#include <algorithm>
#include <cstdint>

namespace wir {

template <class T> struct MatrixOf {
  T* data;
  int64_t rows, columns, row_stride, column_stride;
  MatrixOf transposed() const { return {data, columns, rows, column_stride, row_stride}; }
  /// Whether columns are contiguous, as in BLAS.
  bool is_by_columns(int64_t least) const { return row_stride == 1 && column_stride >= std::max<int64_t>(1, least); }
  /// Whether BLAS can write it without a transposition.
  bool is_written() const { return row_stride == 1 && (columns == 1 || is_by_columns(rows)); }
};

/// A factor for BLAS, transposed or not.
struct Factor {
  char how = 0;
  int64_t leading = 0;
};
template <class T> Factor read_factor(const MatrixOf<T>& factor) {
  if (factor.is_by_columns(factor.rows)) return {'n', factor.columns == 1 ? factor.rows : factor.column_stride};
  const MatrixOf<T> other = factor.transposed();
  if (other.is_by_columns(other.rows)) return {'t', other.columns == 1 ? other.rows : other.column_stride};
  return {};
}

}  // namespace wir
