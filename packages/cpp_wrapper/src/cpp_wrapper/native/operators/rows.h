// Loops over rows of floats, in vectors: loads with conversion, transposition, sums of products, exponentials.
//
// Everything is internal to its unit: units of several instruction sets may be linked into one library.
#pragma once
#include "lanes.h"
#include "operator.h"

#include <utility>

namespace wir {
namespace {

constexpr float kLowest = -std::numeric_limits<float>::max();
/// The number of threads that a loop may use.
inline int64_t thread_count() {
#ifdef _OPENMP
  return omp_in_parallel() ? 1 : omp_get_max_threads();
#else
  return 1;
#endif
}

/// Vectors of sums that the registers hold, beside operands.
#if defined(__AVX512F__) || defined(__aarch64__)
constexpr int kHeldSums = 24;
#else
constexpr int kHeldSums = 12;
#endif

inline Floats larger(Floats values, Floats least) {
#if defined(__AVX512F__)
  const auto found = _mm512_maskz_max_ps(kAllLanes, reinterpret_cast<__m512>(values), reinterpret_cast<__m512>(least));
  return reinterpret_cast<Floats>(found);
#elif defined(__AVX__)
  return reinterpret_cast<Floats>(_mm256_max_ps(reinterpret_cast<__m256>(values), reinterpret_cast<__m256>(least)));
#else
  return values > least ? values : least;
#endif
}

/// Returns 2^x for x <= 0, with a relative error of 2e-7; exactly 1 for 0. Below -126: 0.
inline Floats exp2_nonpositive(Floats x) {
  constexpr float kRound = 12582912;  // 1.5 * 2^23: adding it rounds to a whole number
  const Floats shifted = x + kRound, rest = x - (shifted - kRound);
  Floats sum = rest * 0x1.5bb9bap-10F + 0x1.3cea84p-7F;
  sum = sum * rest + 0x1.c6b754p-5F;
  sum = sum * rest + 0x1.ebf9bcp-3F;
  sum = sum * rest + 0x1.62e42ap-1F;
  sum = sum * rest + 1.0F;
  const auto bits = reinterpret_cast<WholeLanes>(sum) + (reinterpret_cast<WholeLanes>(shifted) << 23);
  return x < -126.0F ? Floats{} : reinterpret_cast<Floats>(bits);
}

namespace rows {

/// Lanes of the first result of an exchange of two vectors: those of the first one, and of the second one where `step` is set.
template <int kStep, class Indices> struct Exchange;
template <int kStep, int... kI> struct Exchange<kStep, std::integer_sequence<int, kI...>> {
  static Floats low(Floats a, Floats b) {
    return __builtin_shuffle(a, b, WholeLanes{(kI & kStep ? kWidth + kI - kStep : kI)...});
  }
  static Floats high(Floats a, Floats b) {
    return __builtin_shuffle(a, b, WholeLanes{(kI & kStep ? kWidth + kI : kI + kStep)...});
  }
};
template <int kStep> using Exchanged = Exchange<kStep, std::make_integer_sequence<int, kWidth>>;

template <int kStep> inline void transpose_step(Floats* v) {
#pragma GCC unroll 16
  for (int i = 0; i < kWidth; ++i) {
    if (i & kStep) continue;
    const Floats a = v[i], b = v[i + kStep];
    v[i] = Exchanged<kStep>::low(a, b);
    v[i + kStep] = Exchanged<kStep>::high(a, b);
  }
}
template <int kStep> inline void sum_step(Floats* v) {
#pragma GCC unroll 16
  for (int i = 0; i < kWidth / kStep; i += 2) {
    v[i / 2] = Exchanged<kStep>::low(v[i], v[i + 1]) + Exchanged<kStep>::high(v[i], v[i + 1]);
  }
}

}  // namespace rows

/// Transposes `kWidth` vectors.
inline void transpose_lanes(Floats* v) {
  rows::transpose_step<1>(v);
  rows::transpose_step<2>(v);
  if constexpr (kWidth > 4) rows::transpose_step<4>(v);
  if constexpr (kWidth > 8) rows::transpose_step<8>(v);
}
/// Returns the vector of the sums of `kWidth` vectors, which it overwrites.
inline Floats sums_of_lanes(Floats* v) {
  rows::sum_step<1>(v);
  rows::sum_step<2>(v);
  if constexpr (kWidth > 4) rows::sum_step<4>(v);
  if constexpr (kWidth > 8) rows::sum_step<8>(v);
  return v[0];
}
template <class Join> inline float join_lanes(Floats values, const Join& join) {
  float found = values[0];
  for (int i = 1; i < kWidth; ++i) found = join(found, values[i]);
  return found;
}

/// Copies a row of `count` numbers, `step` elements apart, as floats times `factor`, and zeros up to the next whole vector.
template <class T> void copy_row(const T* row, int64_t step, int64_t count, float factor, float* to) {
  int64_t i = 0;
  if constexpr (!std::is_same_v<T, double>) {
    if (step == 1) {
      for (; i + kWidth <= count; i += kWidth) store_lanes(to + i, load_lanes(row + i) * factor);
    }
  }
  for (; i < count; ++i) to[i] = converted<float>(row[i * step]) * factor;
  for (const int64_t end = whole_vectors(count); i < end; ++i) to[i] = 0;
}
/// Stores a row of floats times `factor` in elements of another type.
template <class T> void store_row(const float* row, int64_t count, float factor, T* to, int64_t step) {
  int64_t i = 0;
  if constexpr (!std::is_same_v<T, double>) {
    if (step == 1) {
      for (; i + kWidth <= count; i += kWidth) store_lanes(to + i, load_lanes(row + i) * factor);
    }
  }
  for (; i < count; ++i) to[i * step] = converted<T>(row[i] * factor);
}

/// Writes or adds `columns` of `kWidth` rows transposed: element (j, i) to `to[j * to_row + i]`. Rows have whole vectors.
template <bool kAdd> void transpose_rows(const float* from, int64_t from_row, int64_t columns, float* to, int64_t to_row) {
  for (int64_t j = 0; j < columns; j += kWidth) {
    Floats block[kWidth];
#pragma GCC unroll 16
    for (int i = 0; i < kWidth; ++i) block[i] = load_lanes(from + i * from_row + j);
    transpose_lanes(block);
    float* at = to + j * to_row;
#pragma GCC unroll 16
    for (int i = 0; i < kWidth; ++i, at += to_row) {
      if (j + i < columns) store_lanes(at, kAdd ? load_lanes(at) + block[i] : block[i]);
    }
  }
}

/// The product c (+)= a @ b. Element (i, p) of `a` is `a[i * a_row + p * a_step]`; rows of `b` and `c` are contiguous,
/// and have `vectors` whole vectors.
template <class T> struct RowProduct {
  int64_t rows, vectors, k;
  const float* a;
  int64_t a_row, a_step;
  const T* b;
  int64_t b_row;
  float* c;
  int64_t c_row;
  bool add;
};

namespace rows {

template <int kRows, int kColumns, class T>
[[gnu::noinline]] void tile(const RowProduct<T>& t, int64_t row, int64_t column) {
  Floats sums[kRows][kColumns];
  float* c = t.c + row * t.c_row + column * kWidth;
#pragma GCC unroll 16
  for (int i = 0; i < kRows; ++i) {
#pragma GCC unroll 4
    for (int j = 0; j < kColumns; ++j) sums[i][j] = t.add ? load_lanes(c + i * t.c_row + j * kWidth) : Floats{};
  }
  const float* a = t.a + row * t.a_row;
  const T* b = t.b + column * kWidth;
  const int64_t a_row = t.a_row, a_step = t.a_step, b_row = t.b_row;
  for (int64_t p = t.k; p > 0; --p) {
    Floats lanes[kColumns];
#pragma GCC unroll 4
    for (int j = 0; j < kColumns; ++j) lanes[j] = load_lanes(b + j * kWidth);
#pragma GCC unroll 16
    for (int i = 0; i < kRows; ++i) {
      const float factor = a[i * a_row];
#pragma GCC unroll 4
      for (int j = 0; j < kColumns; ++j) sums[i][j] += factor * lanes[j];
    }
    a += a_step;
    b += b_row;
  }
#pragma GCC unroll 16
  for (int i = 0; i < kRows; ++i) {
#pragma GCC unroll 4
    for (int j = 0; j < kColumns; ++j) store_lanes(c + i * t.c_row + j * kWidth, sums[i][j]);
  }
}

template <int kColumns, class T> void strip(const RowProduct<T>& t, int64_t column) {
  int64_t row = 0;
  if constexpr (kColumns <= kHeldSums / 8) {
    for (; row + 8 <= t.rows; row += 8) tile<8, kColumns>(t, row, column);
  }
  for (; row + 4 <= t.rows; row += 4) tile<4, kColumns>(t, row, column);
  if (row + 2 <= t.rows) tile<2, kColumns>(t, row, column), row += 2;
  if (row < t.rows) tile<1, kColumns>(t, row, column);
}

}  // namespace rows

template <class T> void multiply_rows(const RowProduct<T>& t) {
  int64_t column = 0;
  if constexpr (kHeldSums >= 16) {
    for (; column + 4 <= t.vectors; column += 4) rows::strip<4>(t, column);
    if (column + 3 <= t.vectors) rows::strip<3>(t, column), column += 3;
  }
  for (; column + 2 <= t.vectors; column += 2) rows::strip<2>(t, column);
  if (column < t.vectors) rows::strip<1>(t, column);
}

/// Sums of products of `kRows` rows of floats with rows of `b`: `c[i * c_row + j] = a[i] . b[j]`. Rows have `k` numbers, whole
/// vectors. Writes up to `kWidth / kRows - 1` numbers after `count`.
template <int kRows, class T>
[[gnu::noinline]] void dot_rows(const float* a, int64_t a_row, const T* b, int64_t b_row, int64_t count, int64_t k,
                                float* c, int64_t c_row) {
  constexpr int kOthers = kWidth / kRows;
  for (int64_t j = 0; j < count; j += kOthers) {
    Floats sums[kWidth] = {};
    const T* from[kOthers];
#pragma GCC unroll 16
    for (int i = 0; i < kOthers; ++i) from[i] = b + std::min(j + i, count - 1) * b_row;
    for (int64_t p = 0; p < k; p += kWidth) {
      Floats row[kRows];
#pragma GCC unroll 4
      for (int r = 0; r < kRows; ++r) row[r] = load_lanes(a + r * a_row + p);
#pragma GCC unroll 16
      for (int i = 0; i < kOthers; ++i) {
        const Floats other = load_lanes(from[i] + p);
#pragma GCC unroll 4
        for (int r = 0; r < kRows; ++r) sums[r * kOthers + i] += other * row[r];
      }
    }
    const Floats found = sums_of_lanes(sums);
    if constexpr (kRows == 1) {
      store_lanes(c + j, found);
    } else {
#pragma GCC unroll 4
      for (int r = 0; r < kRows; ++r) {
        std::memcpy(c + r * c_row + j, reinterpret_cast<const float*>(&found) + r * kOthers, kOthers * sizeof(float));
      }
    }
  }
}

}  // namespace
}  // namespace wir
