// Vectors of floats in registers: loads and stores with conversion.
//
// Everything is internal to its unit: units of several instruction sets may be linked into one library.
#pragma once
#include "numbers.h"
#include "tiles.h"

namespace wir {
namespace {

/// A vector of floats, and vectors of integers of the same shape.
typedef float Floats __attribute__((vector_size(kVectorBytes)));
typedef int32_t WholeLanes __attribute__((vector_size(kVectorBytes)));
typedef uint32_t WordLanes __attribute__((vector_size(kVectorBytes)));
constexpr int kWidth = kLanes<float>;
#ifdef __AVX512F__
constexpr __mmask16 kAllLanes = 0xFFFF;  // GCC 12 warns of the intrinsics without masks
#endif

constexpr int64_t whole_vectors(int64_t count) { return (count + kWidth - 1) / kWidth * kWidth; }

/// Returns 16-bit numbers as the lower halves of words.
inline WordLanes load_halves(const void* at) {
  typedef uint16_t Narrow __attribute__((vector_size(kVectorBytes / 2), aligned(1), may_alias));
  return __builtin_convertvector(*static_cast<const Narrow*>(at), WordLanes);
}
/// Stores the lower halves of words.
inline void store_halves(void* at, WordLanes words) {
  typedef uint16_t Narrow __attribute__((vector_size(kVectorBytes / 2)));
  typedef Narrow Anywhere __attribute__((aligned(1), may_alias));
  *static_cast<Anywhere*>(at) = __builtin_convertvector(words, Narrow);
}
inline WordLanes load_words(const void* at) {
  typedef WordLanes Anywhere __attribute__((aligned(1), may_alias));
  return *static_cast<const Anywhere*>(at);
}
inline void store_words(void* at, WordLanes words) { *static_cast<Lanes<uint32_t>*>(at) = words; }

/// Rounds to bfloat16 as `BFloat16` does; the numbers are the lower halves of the words.
inline WordLanes rounded_halves(Floats values) {
  const auto bits = reinterpret_cast<WordLanes>(values);
  const WordLanes rounded = (bits + 0x7FFF + (bits >> 16 & 1)) >> 16;
  return values != values ? WordLanes{} + 0x7FC0 : rounded;
}

inline Floats load_lanes(const float* at) { return *reinterpret_cast<const Lanes<float>*>(at); }
inline Floats load_lanes(const BFloat16* at) { return reinterpret_cast<Floats>(load_halves(at) << 16); }
inline Floats load_lanes(const Half* at) {
#if defined(__AVX512F__)
  const __m256i narrow = _mm256_loadu_si256(reinterpret_cast<const __m256i*>(at));
  return reinterpret_cast<Floats>(_mm512_maskz_cvtph_ps(kAllLanes, narrow));
#elif defined(__F16C__)
  return reinterpret_cast<Floats>(_mm256_cvtph_ps(_mm_loadu_si128(reinterpret_cast<const __m128i*>(at))));
#else
  Floats found;
  for (int i = 0; i < kWidth; ++i) found[i] = static_cast<float>(at[i]);
  return found;
#endif
}
inline Floats fill_lanes(float value) { return value - Floats{}; }

inline void store_lanes(float* at, Floats values) { *reinterpret_cast<Lanes<float>*>(at) = values; }
inline void store_lanes(BFloat16* at, Floats values) { store_halves(at, rounded_halves(values)); }
inline void store_lanes(Half* at, Floats values) {
#if defined(__AVX512F__)
  const __m256i narrow = _mm512_maskz_cvtps_ph(kAllLanes, reinterpret_cast<__m512>(values), _MM_FROUND_TO_NEAREST_INT);
  _mm256_storeu_si256(reinterpret_cast<__m256i*>(at), narrow);
#elif defined(__F16C__)
  const __m128i narrow = _mm256_cvtps_ph(reinterpret_cast<__m256>(values), _MM_FROUND_TO_NEAREST_INT);
  _mm_storeu_si128(reinterpret_cast<__m128i*>(at), narrow);
#else
  for (int i = 0; i < kWidth; ++i) at[i] = static_cast<Half>(values[i]);
#endif
}

#ifdef __AVX512F__
#define WIR_HAS_DOTS 1
/// Returns whether the processor has the instruction of `add_pairs`, which not all processors of the level have.
inline bool has_pair_products() { return __builtin_cpu_supports("avx512bf16"); }
/// Adds the products of the two bfloat16 of each word. Subnormal numbers are zeros. Assembly, since the compiler has the
/// instruction only for a higher level.
inline void add_pairs(Floats& sum, WordLanes factor, WordLanes row) {
  asm("vdpbf16ps\t%2, %1, %0" : "+v"(sum) : "v"(factor), "v"(row));
}
#endif

}  // namespace
}  // namespace wir
