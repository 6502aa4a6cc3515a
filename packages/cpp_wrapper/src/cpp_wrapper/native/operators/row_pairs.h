// Products of rows of bfloat16 in pairs: words of two numbers, which one instruction multiplies with those of another word.
#pragma once
#include "rows.h"

namespace wir {
namespace {

constexpr int64_t words_of(int64_t count) { return (count + 1) / 2; }

/// Copies a row of `count` numbers, `step` elements apart, and zeros up to the end of a vector of words.
inline void copy_pairs(const BFloat16* row, int64_t step, int64_t count, void* to) {
  auto* at = static_cast<unsigned char*>(to);
  const int64_t end = whole_vectors(words_of(count)) * 4, size = count * 2;
  if (step == 1) {
    std::memcpy(at, row, static_cast<size_t>(size));
  } else {
    for (int64_t i = 0; i < count; ++i) std::memcpy(at + i * 2, row + i * step, 2);
  }
  std::memset(at + size, 0, static_cast<size_t>(end - size));
}

/// Joins two rows of `count` numbers: words with a number of each, and zeros up to the next whole vector. `high`: null for zeros.
inline void join_rows(const BFloat16* low, const BFloat16* high, int64_t step, int64_t count, uint32_t* to) {
  int64_t i = 0;
  if (step == 1) {
    for (; i + kWidth <= count; i += kWidth) {
      store_words(to + i, load_halves(low + i) | (high != nullptr ? load_halves(high + i) << 16 : WordLanes{}));
    }
  }
  const auto bits = [&](const BFloat16* row, int64_t at) { return static_cast<uint32_t>(row[at * step].bits); };
  for (; i < count; ++i) to[i] = bits(low, i) | (high != nullptr ? bits(high, i) << 16 : 0);
  for (const int64_t end = whole_vectors(count); i < end; ++i) to[i] = 0;
}

/// The product c = factor * a @ b, or c += a @ b, of `words` pairs. Word (i, p) of `a` is at `a + i * a_row + p * a_step` bytes;
/// rows of `b` and `c` are contiguous, and have `vectors` whole vectors.
struct PairProduct {
  int64_t rows, vectors, words;
  const void* a;
  int64_t a_row, a_step;
  const uint32_t* b;
  int64_t b_row;
  float* c;
  int64_t c_row;
  float factor;
  bool add;
};

/// Computes a product, on processors with `has_pair_products`.
[[maybe_unused]] inline void multiply_pairs(const PairProduct& t);

#ifdef WIR_HAS_DOTS
namespace pairs {

template <int kRows, int kColumns> [[gnu::noinline]] void tile(const PairProduct& t, int64_t row, int64_t column) {
  Floats sums[kRows][kColumns] = {};
  const int64_t a_row = t.a_row, a_step = t.a_step, b_row = t.b_row;
  const auto* a = static_cast<const unsigned char*>(t.a) + row * a_row;
  const uint32_t* b = t.b + column * kWidth;
  for (int64_t p = t.words; p > 0; --p) {
    WordLanes lanes[kColumns];
#pragma GCC unroll 4
    for (int j = 0; j < kColumns; ++j) lanes[j] = load_words(b + j * kWidth);
#pragma GCC unroll 16
    for (int i = 0; i < kRows; ++i) {
      uint32_t word;
      std::memcpy(&word, a + i * a_row, sizeof word);
      const WordLanes factor = word + WordLanes{};
#pragma GCC unroll 4
      for (int j = 0; j < kColumns; ++j) add_pairs(sums[i][j], factor, lanes[j]);
    }
    a += a_step;
    b += b_row;
  }
  float* c = t.c + row * t.c_row + column * kWidth;
#pragma GCC unroll 16
  for (int i = 0; i < kRows; ++i) {
#pragma GCC unroll 4
    for (int j = 0; j < kColumns; ++j) {
      float* at = c + i * t.c_row + j * kWidth;
      store_lanes(at, t.add ? load_lanes(at) + sums[i][j] : sums[i][j] * t.factor);
    }
  }
}

template <int kColumns> void strip(const PairProduct& t, int64_t column) {
  int64_t row = 0;
  if constexpr (kColumns <= kHeldSums / 8) {
    for (; row + 8 <= t.rows; row += 8) tile<8, kColumns>(t, row, column);
  }
  for (; row + 4 <= t.rows; row += 4) tile<4, kColumns>(t, row, column);
  if (row + 2 <= t.rows) tile<2, kColumns>(t, row, column), row += 2;
  if (row < t.rows) tile<1, kColumns>(t, row, column);
}

}  // namespace pairs

inline void multiply_pairs(const PairProduct& t) {
  int64_t column = 0;
  for (; column + 4 <= t.vectors; column += 4) pairs::strip<4>(t, column);
  if (column + 3 <= t.vectors) pairs::strip<3>(t, column), column += 3;
  if (column + 2 <= t.vectors) pairs::strip<2>(t, column), column += 2;
  if (column < t.vectors) pairs::strip<1>(t, column);
}
#endif

}  // namespace
}  // namespace wir
