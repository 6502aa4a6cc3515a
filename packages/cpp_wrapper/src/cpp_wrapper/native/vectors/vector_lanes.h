// Vectors of any width: arithmetic that compilers' vector extensions lack, conversions, and sums of two doubles.
//
// Everything is internal to its unit: units of several instruction sets are linked into one library, and a linker that
// merged their copies could choose instructions that the processor lacks.
#pragma once

#include <cstdint>
#include <cstring>
#include <type_traits>
#if defined(__AVX2__) || defined(__AVX512F__)
#include <immintrin.h>
#elif defined(__aarch64__)
#include <arm_neon.h>
#endif

#define WIR_INLINE [[gnu::always_inline]] inline
#if defined(__FMA__) || defined(__aarch64__)
#define WIR_HAS_FMA 1  // sums of two doubles need it
#else
#define WIR_HAS_FMA 0
#endif

namespace wir::vec {
namespace {

#if defined(__AVX512F__)
constexpr int kVectorBytes = 64;
#elif defined(__AVX2__)
constexpr int kVectorBytes = 32;
#else
constexpr int kVectorBytes = 16;
#endif

template <class T, int kCount> struct VectorOf { typedef T type __attribute__((vector_size(sizeof(T) * kCount))); };
/// A vector of `kCount` elements.
template <class T, int kCount> using Vector = typename VectorOf<T, kCount>::type;
/// The widest vectors of the instruction set.
using Floats = Vector<float, kVectorBytes / 4>;
using Doubles = Vector<double, kVectorBytes / 8>;

template <class V> using ElementOf = std::remove_cv_t<std::remove_reference_t<decltype(std::declval<V&>()[0])>>;
template <class V> constexpr int kLanes = sizeof(V) / sizeof(ElementOf<V>);
template <class V> concept FloatVector = sizeof(ElementOf<V>) == 4;
template <class V> concept DoubleVector = sizeof(ElementOf<V>) == 8;
template <class V> using IntegerOf = std::conditional_t<sizeof(ElementOf<V>) == 4, int32_t, int64_t>;
/// The vector of integers with the same shape, which comparisons return, too.
template <class V> using BitsOf = Vector<IntegerOf<V>, kLanes<V>>;
/// Double vectors of half the lanes.
template <class V> using HalfOf = Vector<double, kLanes<V> / 2>;

// --- bits and choices

template <class V> WIR_INLINE BitsOf<V> bits_of(V x) { return (BitsOf<V>)x; }
template <class V> WIR_INLINE V from_bits(BitsOf<V> x) { return (V)x; }
template <class V> WIR_INLINE V splat(ElementOf<V> x) { return x - V{}; }
template <class V> WIR_INLINE BitsOf<V> splat_bits(IntegerOf<V> x) { return x - BitsOf<V>{}; }
/// The bit of the sign.
template <class V> constexpr IntegerOf<V> kSignBit = IntegerOf<V>(1) << (sizeof(IntegerOf<V>) * 8 - 1);
template <class V> WIR_INLINE V absolute(V x) { return from_bits<V>(bits_of(x) & ~kSignBit<V>); }
template <class V> WIR_INLINE BitsOf<V> sign_of(V x) { return bits_of(x) & kSignBit<V>; }
/// Returns `x` with its sign changed where `sign` has the bit.
template <class V> WIR_INLINE V flip_sign(V x, BitsOf<V> sign) { return from_bits<V>(bits_of(x) ^ sign); }
/// Returns `x`, which is not negative, with the sign of `sign`.
template <class V> WIR_INLINE V with_sign(V x, BitsOf<V> sign) { return from_bits<V>(bits_of(x) | sign); }
/// Returns `result` = f(x) of an odd function, with the sign of a zero.
template <class V> WIR_INLINE V with_zero(V x, V result) { return x == 0 ? x : result; }
/// Returns whether any lane of a mask is set.
template <class M> WIR_INLINE bool any(M mask) {
#if defined(__AVX512F__)
  if constexpr (sizeof(M) == 64) return _mm512_test_epi64_mask((__m512i)mask, (__m512i)mask) != 0;
#endif
#if defined(__AVX2__)
  if constexpr (sizeof(M) == 32) return !_mm256_testz_si256((__m256i)mask, (__m256i)mask);
#endif
  int64_t parts[sizeof(M) / 8], all = 0;
  std::memcpy(parts, &mask, sizeof(M));
  for (int64_t part : parts) all |= part;
  return all != 0;
}
/// Clamps to [low, high]; NaN stays.
template <class V> WIR_INLINE V clamp(V x, ElementOf<V> low, ElementOf<V> high) {
  const V least = splat<V>(low), most = splat<V>(high);
#if defined(__AVX512F__)
  if constexpr (sizeof(V) == 64 && FloatVector<V>)
    return (V)_mm512_min_ps((__m512)most, _mm512_max_ps((__m512)least, (__m512)x));
  if constexpr (sizeof(V) == 64 && DoubleVector<V>)
    return (V)_mm512_min_pd((__m512d)most, _mm512_max_pd((__m512d)least, (__m512d)x));
#endif
#if defined(__AVX2__)
  if constexpr (sizeof(V) == 32 && FloatVector<V>)
    return (V)_mm256_min_ps((__m256)most, _mm256_max_ps((__m256)least, (__m256)x));
  if constexpr (sizeof(V) == 32 && DoubleVector<V>)
    return (V)_mm256_min_pd((__m256d)most, _mm256_max_pd((__m256d)least, (__m256d)x));
#endif
  x = x < least ? least : x;
  return x > most ? most : x;
}

// --- arithmetic

/// Returns a * b + c, rounded once if the instruction set has that.
template <class V> WIR_INLINE V fma(V a, V b, V c) {
#if defined(__AVX512F__)
  if constexpr (sizeof(V) == 64 && sizeof(ElementOf<V>) == 4) return (V)_mm512_fmadd_ps((__m512)a, (__m512)b, (__m512)c);
  if constexpr (sizeof(V) == 64 && sizeof(ElementOf<V>) == 8) return (V)_mm512_fmadd_pd((__m512d)a, (__m512d)b, (__m512d)c);
#endif
#if defined(__FMA__)
  if constexpr (sizeof(V) == 32 && sizeof(ElementOf<V>) == 4) return (V)_mm256_fmadd_ps((__m256)a, (__m256)b, (__m256)c);
  if constexpr (sizeof(V) == 32 && sizeof(ElementOf<V>) == 8) return (V)_mm256_fmadd_pd((__m256d)a, (__m256d)b, (__m256d)c);
  if constexpr (sizeof(V) == 16 && sizeof(ElementOf<V>) == 4) return (V)_mm_fmadd_ps((__m128)a, (__m128)b, (__m128)c);
  if constexpr (sizeof(V) == 16 && sizeof(ElementOf<V>) == 8) return (V)_mm_fmadd_pd((__m128d)a, (__m128d)b, (__m128d)c);
#elif defined(__aarch64__)
  if constexpr (sizeof(V) == 16 && sizeof(ElementOf<V>) == 4) return (V)vfmaq_f32((float32x4_t)c, (float32x4_t)a, (float32x4_t)b);
  if constexpr (sizeof(V) == 16 && sizeof(ElementOf<V>) == 8) return (V)vfmaq_f64((float64x2_t)c, (float64x2_t)a, (float64x2_t)b);
#endif
  return a * b + c;
}
template <class V> WIR_INLINE V fma(V a, V b, ElementOf<V> c) { return fma(a, b, splat<V>(c)); }
template <class V> WIR_INLINE V fma(V a, ElementOf<V> b, V c) { return fma(a, splat<V>(b), c); }
template <class V> WIR_INLINE V fma(V a, ElementOf<V> b, ElementOf<V> c) { return fma(a, splat<V>(b), splat<V>(c)); }

/// Returns the square root, rounded correctly.
template <class V> WIR_INLINE V square_root(V x) {
#if defined(__AVX512F__)
  if constexpr (sizeof(V) == 64 && sizeof(ElementOf<V>) == 4) return (V)_mm512_sqrt_ps((__m512)x);
  if constexpr (sizeof(V) == 64 && sizeof(ElementOf<V>) == 8) return (V)_mm512_sqrt_pd((__m512d)x);
#endif
#if defined(__AVX2__)
  if constexpr (sizeof(V) == 32 && sizeof(ElementOf<V>) == 4) return (V)_mm256_sqrt_ps((__m256)x);
  if constexpr (sizeof(V) == 32 && sizeof(ElementOf<V>) == 8) return (V)_mm256_sqrt_pd((__m256d)x);
#endif
  for (int i = 0; i < kLanes<V>; ++i) x[i] = sizeof(ElementOf<V>) == 4 ? __builtin_sqrtf(x[i]) : __builtin_sqrt(x[i]);
  return x;
}

/// Evaluates a polynomial whose coefficients start with the constant: even and odd powers apart, as two shorter chains.
template <class V, int kCount> WIR_INLINE V polynomial(V x, const double (&c)[kCount]) {
  using T = ElementOf<V>;
  if constexpr (kCount < 5) {
    V sum = splat<V>(T(c[kCount - 1]));
#pragma GCC unroll 32
    for (int i = kCount - 2; i >= 0; --i) sum = fma(sum, x, T(c[i]));
    return sum;
  } else {
    constexpr int kEven = (kCount - 1) / 2 * 2, kOdd = kCount / 2 * 2 - 1;
    const V square = x * x;
    V even = splat<V>(T(c[kEven])), odd = splat<V>(T(c[kOdd]));
#pragma GCC unroll 32
    for (int i = kEven - 2; i >= 0; i -= 2) even = fma(even, square, T(c[i]));
#pragma GCC unroll 32
    for (int i = kOdd - 2; i >= 1; i -= 2) odd = fma(odd, square, T(c[i]));
    return fma(odd, x, even);
  }
}

// --- integers as floating-point numbers

/// Adding it to a number of magnitude below 2^51 (2^22) rounds to an integer, which the lowest bits then contain.
template <class T> constexpr T kRounder = sizeof(T) == 4 ? T(0x1.8p23) : T(0x1.8p52);
/// Returns 2^n of `rounder + n` (see `kRounder`), for normal results.
template <class V> WIR_INLINE V power_of_two(V rounded) {
  constexpr int kMantissa = sizeof(ElementOf<V>) == 4 ? 23 : 52;
  return from_bits<V>((bits_of(rounded) << kMantissa) + bits_of(splat<V>(1)));
}
/// A number as 2^exponent * fraction, with the fraction in [sqrt(1/2), sqrt(2)).
template <class V> struct Split { V fraction, exponent; };
/// Splits positive normal doubles.
template <class V> WIR_INLINE Split<V> split(V x) {
  constexpr int64_t kRoot = 0x3fe6a09e667f3bcd, kOne = 0x3ff0000000000000, kBig = 0x4330000000000000;
  const BitsOf<V> moved = bits_of(x) + (kOne - kRoot);
  const BitsOf<V> biased = (BitsOf<V>)((Vector<uint64_t, kLanes<V>>)moved >> 52);
  const V exponent = from_bits<V>(biased | kBig) - (0x1p52 + 1023);
  return {from_bits<V>((moved & 0x000fffffffffffff) + kRoot), exponent};
}

// --- floats as doubles

template <class D> struct Halves { D low, high; };
template <class V> WIR_INLINE Halves<HalfOf<V>> widen(V x) {
  using H = Vector<float, kLanes<V> / 2>;
  using D = HalfOf<V>;
  struct { H low, high; } parts;
  std::memcpy(&parts, &x, sizeof(x));
#if defined(__AVX512F__)
  if constexpr (sizeof(V) == 64) return {(D)_mm512_cvtps_pd((__m256)parts.low), (D)_mm512_cvtps_pd((__m256)parts.high)};
#endif
#if defined(__AVX2__)
  if constexpr (sizeof(V) == 32) return {(D)_mm256_cvtps_pd((__m128)parts.low), (D)_mm256_cvtps_pd((__m128)parts.high)};
#endif
  return {__builtin_convertvector(parts.low, D), __builtin_convertvector(parts.high, D)};
}
template <class V> WIR_INLINE V narrow(Halves<HalfOf<V>> x) {
  using H = Vector<float, kLanes<V> / 2>;
  struct { H low, high; } parts;
  V result;
#if defined(__AVX512F__)
  if constexpr (sizeof(V) == 64) {
    const __m256 low = _mm512_cvtpd_ps((__m512d)x.low), high = _mm512_cvtpd_ps((__m512d)x.high);
    return (V)_mm512_insertf32x8(_mm512_castps256_ps512(low), high, 1);
  }
#endif
#if defined(__AVX2__)
  if constexpr (sizeof(V) == 32) {
    const __m128 low = _mm256_cvtpd_ps((__m256d)x.low), high = _mm256_cvtpd_ps((__m256d)x.high);
    return (V)_mm256_insertf128_ps(_mm256_castps128_ps256(low), high, 1);
  }
#endif
  parts = {__builtin_convertvector(x.low, H), __builtin_convertvector(x.high, H)};
  std::memcpy(&result, &parts, sizeof(result));
  return result;
}
/// Calls a function of doubles for a vector of floats.
template <class V, class F> WIR_INLINE V in_double(V x, F function) {
  const auto wide = widen(x);
  return narrow<V>({function(wide.low), function(wide.high)});
}
template <class V, class F> WIR_INLINE V in_double(V x, V y, F function) {
  const auto a = widen(x), b = widen(y);
  return narrow<V>({function(a.low, b.low), function(a.high, b.high)});
}
/// Calls a function of numbers for each lane: rare functions, and rare arguments.
template <class V, class F> WIR_INLINE V in_lanes(V x, F function) {
  for (int i = 0; i < kLanes<V>; ++i) x[i] = function(x[i]);
  return x;
}
template <class V, class F> WIR_INLINE V in_lanes(V x, V y, F function) {
  for (int i = 0; i < kLanes<V>; ++i) x[i] = function(x[i], y[i]);
  return x;
}

// --- sums of two doubles

/// high + low, with |low| at most half a unit in the last place of `high`.
template <class V> struct Two { V high, low; };
/// Needs |a| >= |b|, or a = 0.
template <class V> WIR_INLINE Two<V> fast_sum(V a, V b) {
  const V sum = a + b;
  return {sum, b - (sum - a)};
}
template <class V> WIR_INLINE Two<V> exact_sum(V a, V b) {
  const V sum = a + b, part = sum - a;
  return {sum, (a - (sum - part)) + (b - part)};
}
template <class V> WIR_INLINE Two<V> exact_product(V a, V b) {
  const V product = a * b;
  return {product, fma(a, b, -product)};
}
template <class V> WIR_INLINE Two<V> add(Two<V> a, Two<V> b) {
  const Two<V> sum = exact_sum(a.high, b.high);
  return fast_sum(sum.high, sum.low + (a.low + b.low));
}
template <class V> WIR_INLINE Two<V> add(Two<V> a, V b) {
  const Two<V> sum = exact_sum(a.high, b);
  return fast_sum(sum.high, sum.low + a.low);
}
template <class V> WIR_INLINE Two<V> multiply(Two<V> a, Two<V> b) {
  const Two<V> product = exact_product(a.high, b.high);
  return fast_sum(product.high, fma(a.high, b.low, fma(a.low, b.high, product.low)));
}
template <class V> WIR_INLINE Two<V> multiply(Two<V> a, V b) {
  const Two<V> product = exact_product(a.high, b);
  return fast_sum(product.high, fma(a.low, b, product.low));
}
template <class V> WIR_INLINE Two<V> divide(Two<V> a, Two<V> b) {
  const V inverse = 1 / b.high, quotient = a.high * inverse;
  const V rest = fma(-quotient, b.high, a.high) + fma(-quotient, b.low, a.low);
  return fast_sum(quotient, rest * inverse);
}

}  // namespace
}  // namespace wir::vec
