// Matrix products over plain pointers, for operators of this library.
#pragma once
#include "tiles.h"

namespace wir {

/// Layout of the right factor of a product.
enum class Layout : uint8_t { kStrided, kPanels };

/// The product c = beta * c + bias + alpha * a @ b, of an m x k and a k x n matrix. Steps are in elements.
/// Rows of `c` are contiguous, and `c` overlaps no other operand. With beta = 0, `c` is not read.
template <class T> struct Product {
  int64_t m, n, k;
  const T* a;
  int64_t a_row, a_column;
  const T* b;
  int64_t b_row, b_column;  // kStrided only
  T* c;
  int64_t c_row;
  Layout layout = Layout::kStrided;
  const T* bias = nullptr;  // n numbers
  T alpha = 1, beta = 0;
  bool relu = false;
};

/// Numbers of a packed matrix of `k` rows and `n` columns.
constexpr int64_t packed_count(int64_t k, int64_t n) { return (n + kPanel - 1) / kPanel * kPanel * k; }
/// Packs a matrix, into `packed_count(k, n)` numbers.
template <class T> void pack_panels(const T* b, int64_t b_row, int64_t b_column, int64_t k, int64_t n, T* packed);

/// Computes a product on the calling thread. T: float, double, int32_t, int64_t (modulo 2^bits).
template <class T> void multiply(const Product<T>& product);
/// Computes a product on the threads of OpenMP if it is large enough and no parallel region is active.
template <class T> void multiply_parallel(const Product<T>& product);

}  // namespace wir
