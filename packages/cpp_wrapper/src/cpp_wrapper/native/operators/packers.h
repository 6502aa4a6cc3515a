// The description of a matrix product over plain pointers, and packing of its right factor into panels.
#pragma once
#include "numbers.h"
#include "tiles.h"

namespace wir {

template <class T> struct Product;
/// Packs `k` rows and `n` columns of the right factor, from a row and a column on, as `pack_panels`.
template <class T>
using Packer = void (*)(const Product<T>& of, int64_t row, int64_t column, int64_t k, int64_t n, T* packed);

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
  /// Reads `b` if it is of another type, which `source` then is; layout kStrided. Columns count from `first_column` on.
  Packer<T> packer = nullptr;
  const void* source = nullptr;
  int64_t first_column = 0;
};

/// Numbers of a packed matrix of `k` rows and `n` columns.
constexpr int64_t packed_count(int64_t k, int64_t n) { return (n + kPanel - 1) / kPanel * kPanel * k; }
/// Packs a matrix, into `packed_count(k, n)` numbers.
template <class T> void pack_panels(const T* b, int64_t b_row, int64_t b_column, int64_t k, int64_t n, T* packed);

/// Converts numbers. From: BFloat16 or Half to float, small integers to uint32_t.
template <class To, class From> void convert_numbers(const From* from, int64_t count, To* to);
/// A `Packer` of a matrix of another type.
template <class To, class From>
void pack_converted(const Product<To>& of, int64_t row, int64_t column, int64_t k, int64_t n, To* packed);

}  // namespace wir
