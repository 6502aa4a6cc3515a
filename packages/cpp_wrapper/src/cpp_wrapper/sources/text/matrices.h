// Layouts of matrices for BLAS and cuBLAS.
#pragma once
#include <algorithm>
#include <cstdint>

// Torch's settings (ATen/Context.h), which the shim does not expose.
extern "C" {
__attribute__((weak)) const void* global_context() asm("_ZN2at13globalContextEv");
__attribute__((weak)) int32_t float32_precision(const void* context, int32_t backend, int32_t op)
    asm("_ZNK2at7Context16float32PrecisionENS_14Float32BackendENS_9Float32OpE");
}

namespace wir {

enum class Backend : int32_t { kGeneric, kCuda, kMkldnn };
enum class Precision : int32_t { kNone, kIeee, kTf32, kBf16, kDefault };
/// Whether torch exports `matmul_precision`.
inline bool knows_precision() { return &global_context != nullptr && &float32_precision != nullptr; }
/// `torch.backends.<backend>.matmul.fp32_precision`.
inline Precision matmul_precision(Backend backend) {
  constexpr int32_t kMatmul = 3;
  return static_cast<Precision>(float32_precision(global_context(), static_cast<int32_t>(backend), kMatmul));
}

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
