// Packing of int8 matrices that a program has not packed.
#pragma once
#include "panels.h"

namespace wir {
namespace {  // each file has its own

/// Packs a matrix of bytes of any strides with four rows in a word.
inline Owned pack_bytes(const int8_t* from, const int64_t (&strides)[2], int64_t k, int64_t n) {
  const int64_t words = parts_of(k, 4), sizes[] = {parts_of(n, kPanel), words, kPanel, 4};
  Owned packed(new_tensor(4, sizes, nullptr, kI8));
  fill_zero(packed.get());
  const auto [row, column] = strides;
  for (int64_t j = 0; j < n; ++j) {
    const int8_t* source = from + j * column;
    int8_t* to = data_of<int8_t>(packed.get()) + (j / kPanel * words * kPanel + j % kPanel) * 4;
    int64_t p = 0;
    if (row == 1) {
      for (; p + 4 <= k; p += 4) std::memcpy(to + p * kPanel, source + p, 4);
    }
    for (; p < k; ++p) to[p / 4 * 4 * kPanel + p % 4] = source[p * row];
  }
  return packed;
}

}  // namespace
}  // namespace wir
