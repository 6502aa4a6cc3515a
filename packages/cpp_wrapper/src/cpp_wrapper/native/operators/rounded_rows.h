// Rows of floats as integers: of 8 bits with torchao's scales, or of 16 bits.
#pragma once
#include "operator.h"
#include "tiles.h"

#if defined(__SSE2__)
#include <immintrin.h>
#endif

namespace wir {
namespace {  // each file has its own, as in tiles.h

/// Integers of rows in memory: bytes without sign, which 128 is added to, or pairs of 16 bits (`SignedPairs`).
enum class RowFormat : uint8_t { kBytes, kPairs };

/// Rows of integers of 8 bits, contiguous, and padded with zeros to whole words. A row of the result has `planes` of them, one
/// after another, and a scale (null: none).
struct IntegerRows {
  const unsigned char* data;
  int64_t step, planes;
  const float* scales;
};

/// Stores the low bytes of integers. The compiler converts vectors number by number.
inline void store_bytes(Lanes<int32_t> numbers, unsigned char* to) {
#if defined(__AVX512F__)
  _mm_storeu_si128(reinterpret_cast<__m128i*>(to), _mm512_cvtepi32_epi8((__m512i)numbers));
#else
  for (int i = 0; i < kLanes<int32_t>; ++i) to[i] = static_cast<unsigned char>(numbers[i]);
#endif
}
/// Stores integers as pairs of 16 bits: the numbers 0, 2, 1 and 3 of each word.
inline void store_pairs(Lanes<int32_t> numbers, unsigned char* to) {
#if defined(__AVX512F__)
  const __m512i ordered = _mm512_shuffle_epi32((__m512i)numbers, _MM_PERM_DBCA);
  _mm256_storeu_si256(reinterpret_cast<__m256i*>(to), _mm512_cvtepi32_epi16(ordered));
#elif defined(__AVX2__)
  const __m256i ordered = _mm256_shuffle_epi32((__m256i)numbers, 0xD8);
  const __m128i low = _mm256_castsi256_si128(ordered), high = _mm256_extracti128_si256(ordered, 1);
  _mm_storeu_si128(reinterpret_cast<__m128i*>(to), _mm_packs_epi32(low, high));
#elif defined(__SSE2__)
  const __m128i ordered = _mm_shuffle_epi32((__m128i)numbers, 0xD8);
  _mm_storel_epi64(reinterpret_cast<__m128i*>(to), _mm_packs_epi32(ordered, ordered));
#else
  int16_t pairs[kLanes<int32_t>];
  for (int i = 0; i < kLanes<int32_t>; ++i) {
    const int from = i / 4 * 4 + (i % 4 == 1 ? 2 : i % 4 == 2 ? 1 : i % 4);
    pairs[i] = static_cast<int16_t>(numbers[from]);
  }
  std::memcpy(to, pairs, sizeof pairs);
#endif
}
/// Stores integers of 8 bits, those of a row from `p` on.
inline void store_integers(Lanes<int32_t> numbers, RowFormat format, int64_t p, unsigned char* row) {
  format == RowFormat::kBytes ? store_bytes(numbers + 128, row + p) : store_pairs(numbers, row + 2 * p);
}
/// Returns signed bytes as integers.
inline Lanes<int32_t> load_bytes(const int8_t* from) {
#if defined(__AVX512F__)
  return (Lanes<int32_t>)_mm512_cvtepi8_epi32(_mm_loadu_si128(reinterpret_cast<const __m128i*>(from)));
#elif defined(__AVX2__)
  return (Lanes<int32_t>)_mm256_cvtepi8_epi32(_mm_loadl_epi64(reinterpret_cast<const __m128i*>(from)));
#else
  Lanes<int32_t> numbers;
  for (int i = 0; i < kLanes<int32_t>; ++i) numbers[i] = from[i];
  return numbers;
#endif
}
/// Bytes that a row is stored in, with room for whole vectors.
constexpr int64_t row_bytes(int64_t k, RowFormat format) {
  return (k + kLanes<float> - 1) / kLanes<float> * kLanes<float> * (format == RowFormat::kBytes ? 1 : 2);
}

/// Calls `body(vector, p)` for the numbers of a row from `p` on. The last vector has zeros after the end.
template <class Body>
[[gnu::always_inline]] inline void for_each_vector(const float* x, int64_t k, const Body& body) {
  int64_t p = 0;
  for (; p + kLanes<float> <= k; p += kLanes<float>) body(*reinterpret_cast<const Lanes<float>*>(x + p), p);
  if (p == k) return;
  Lanes<float> last{};
  std::memcpy(&last, x + p, static_cast<size_t>(k - p) * sizeof *x);
  body(last, p);
}

inline int32_t largest_lane(Lanes<int32_t> numbers) {
#if defined(__AVX512F__)
  return _mm512_reduce_max_epi32((__m512i)numbers);
#else
  int32_t largest = numbers[0];
  for (int i = 1; i < kLanes<int32_t>; ++i) largest = std::max<int32_t>(largest, numbers[i]);
  return largest;
#endif
}

/// Returns the largest magnitude; NaN if there is one. Bits without sign have the order of their numbers.
inline float largest_magnitude(const float* x, int64_t k) {
  Lanes<int32_t> largest{};
  for_each_vector(x, k, [&](Lanes<float> numbers, int64_t) {
    const Lanes<int32_t> bits = (Lanes<int32_t>)numbers & 0x7FFFFFFF;
    largest = bits > largest ? bits : largest;
  });
  const int32_t bits = largest_lane(largest);
  float magnitude;
  std::memcpy(&magnitude, &bits, sizeof magnitude);
  return magnitude;
}

/// Returns the nearest integers, ties to even. Adding a large constant instead would become one operation with a product.
inline Lanes<int32_t> nearest(Lanes<float> numbers) {
#if defined(__AVX512F__)
  return (Lanes<int32_t>)_mm512_cvtps_epi32((__m512)numbers);
#elif defined(__AVX2__)
  return (Lanes<int32_t>)_mm256_cvtps_epi32((__m256)numbers);
#elif defined(__SSE2__)
  return (Lanes<int32_t>)_mm_cvtps_epi32((__m128)numbers);
#else
  Lanes<int32_t> rounded;
  for (int i = 0; i < kLanes<int32_t>; ++i) rounded[i] = static_cast<int32_t>(__builtin_nearbyintf(numbers[i]));
  return rounded;
#endif
}

/// Rounds a row as torchao's symmetric int8 rows. Returns its scale: NaN if a number is not finite.
inline float round_row(const float* x, int64_t k, RowFormat format, unsigned char* to) {
  constexpr float kLeastScale = std::numeric_limits<float>::epsilon();
  const float largest = largest_magnitude(x, k);
  if (!(largest <= std::numeric_limits<float>::max())) {
    std::memset(to, 0, static_cast<size_t>(row_bytes(k, format)));
    return std::numeric_limits<float>::quiet_NaN();
  }
  const float scale = std::max(largest / 127.5f, kLeastScale), factor = 1.0f / scale;
  for_each_vector(x, k, [=](Lanes<float> numbers, int64_t p) {
    const Lanes<int32_t> rounded = nearest(numbers * factor);
    store_integers(rounded > 127 ? Lanes<int32_t>{} + 127 : rounded, format, p, to);
  });
  return scale;
}

/// Rounds a row to integers of 16 bits and adds 2^15: `high` and `low` are their bytes. Returns its scale, or NaN if the row
/// cannot be rounded so.
inline float round_to_pairs(const float* x, int64_t k, unsigned char* high, unsigned char* low) {
  constexpr float kMost = 32767.0f, kLeast = 1e-30f;
  const float largest = largest_magnitude(x, k);
  if (!(largest <= std::numeric_limits<float>::max()) || (largest < kLeast && largest != 0)) {
    return std::numeric_limits<float>::quiet_NaN();
  }
  const float factor = largest == 0 ? 0 : kMost / largest;
  for_each_vector(x, k, [=](Lanes<float> numbers, int64_t p) {
    const Lanes<int32_t> rounded = nearest(numbers * factor) + 32768;
    store_bytes(rounded >> 8, high + p);
    store_bytes(rounded, low + p);
  });
  return largest / kMost;
}

}  // namespace
}  // namespace wir
