// Functions of vectors of floats, of any width: exp, log, tanh, erf and others.
//
// Most compute in vectors of doubles: polynomials then need no compensation, and denormal results no special case. The
// errors that docs/native.md lists include the last rounding.
#pragma once

#include "vector_coefficients.h"
#include "vector_lanes.h"

#include <cmath>

namespace wir::vec {
namespace {

constexpr double kLog2E = 0x1.71547652b82fep+0, kLn2 = 0x1.62e42fefa39efp-1, kLn2Rest = 0x1.abc9e3b39803fp-56;
constexpr double kLog10E = 0x1.bcb7b1526e50ep-2, kLog10Of2 = 0x1.34413509f79ffp-2;
constexpr double kHalfPi = 0x1.921fb54442d18p+0, kHalfPiRest = 0x1.1a62633145c07p-54, kPi = 0x1.921fb54442d18p+1;
constexpr float kInfinity = __builtin_inff(), kNaN = __builtin_nanf("");

template <FloatVector V> WIR_INLINE V exp(V x);

// --- parts over doubles, accurate enough for results that are rounded to float

/// Returns e^x - 1 for |x| < 700.
template <class D> WIR_INLINE D expm1_part(D x) {
  const D rounded = fma(x, kLog2E, kRounder<double>), n = rounded - kRounder<double>;
  const D r = fma(n, -kLn2, x), scale = power_of_two(rounded);
  const D part = fma(r * r, polynomial(r, kExpFloat), r);
  return fma(scale, part, scale - 1);
}
template <class D> WIR_INLINE D exp_part(D x) {
  const D rounded = fma(x, kLog2E, kRounder<double>), r = fma(rounded - kRounder<double>, -kLn2, x);
  const D scale = power_of_two(rounded);
  return fma(scale, fma(r * r, polynomial(r, kExpFloat), r), scale);
}
/// Returns 2^x for |x| < 1000.
template <class D, int kCount> WIR_INLINE D exp2_part(D x, const double (&coefficients)[kCount]) {
  const D rounded = x + kRounder<double>, r = x - (rounded - kRounder<double>);
  return fma(r, polynomial(r, coefficients), 1.0) * power_of_two(rounded);
}
/// Returns log(x), divided by the logarithm `unit`^-1 of the base, of positive normal numbers.
template <class D, int kCount> WIR_INLINE D log_part(D x, double unit, double of_two, const double (&coefficients)[kCount]) {
  const Split<D> parts = split(x);
  const D f = parts.fraction - 1, rest = fma(f * f, polynomial(f, coefficients), f);
  return fma(parts.exponent, of_two, rest * unit);
}
/// Returns log(1 + x) for x > -1.
template <class D> WIR_INLINE D log1p_part(D x) {
  const Split<D> parts = split(1 + x);
  const D f = parts.exponent == 0 ? x : parts.fraction - 1;
  return fma(parts.exponent, kLn2, fma(f * f, polynomial(f, kLogFloat), f));
}
/// The results of a reduction by multiples of pi/2: `quadrant` has the multiple in its lowest bits.
template <class V> struct Angle { V rest; BitsOf<V> quadrant; };
template <class D> WIR_INLINE Angle<D> angle_part(D x) {
  const D rounded = fma(x, 1 / kHalfPi, kRounder<double>), n = rounded - kRounder<double>;
  return {fma(n, -kHalfPiRest, fma(n, -kHalfPi, x)), bits_of(rounded)};
}
/// Returns sin(x) of an angle, or cos(x) if `shift` is 1.
template <class V> WIR_INLINE V sine_of(Angle<V> angle, int shift) {
  using T = ElementOf<V>;
  const V r = angle.rest, square = r * r;
  const V sine = fma(square * r, polynomial(square, kSinFloat), r);
  const V cosine = fma(square * square, polynomial(square, kCosFloat), fma(square, T(-0.5), T(1)));
  const BitsOf<V> quadrant = angle.quadrant + shift;
  const V result = (quadrant & 1) != 0 ? cosine : sine;
  return flip_sign(result, (quadrant & 2) << (sizeof(T) * 8 - 2));
}
/// Returns atan(z) for |z| <= 1.
template <class D> WIR_INLINE D atan_part(D z) {
  const D square = z * z;
  return fma(square * z, polynomial(square, kAtanFloat), z);
}
/// asin(x) of x >= 0 as `part`, or as pi/2 - `part` where `is_big`.
template <class D> struct Arc { D part; BitsOf<D> is_big; };
template <class D> WIR_INLINE Arc<D> asin_part(D x) {
  const BitsOf<D> is_big = x > 0.5;
  const D square = is_big ? (1 - x) * 0.5 : x * x, z = is_big ? square_root(square) : x;
  const D part = fma(square * z, polynomial(square, kAsinFloat), z);
  return {is_big ? part + part : part, is_big};
}

// --- exponentials

/// Returns 2^n * x of `rounder + n`, where 2^n may be denormal or infinite.
template <class V> WIR_INLINE V scaled(V x, V rounded) {
#if defined(__AVX512F__)
  if constexpr (sizeof(V) == 64 && sizeof(ElementOf<V>) == 4)
    return (V)_mm512_scalef_ps((__m512)x, (__m512)(rounded - kRounder<float>));
  if constexpr (sizeof(V) == 64 && sizeof(ElementOf<V>) == 8)
    return (V)_mm512_scalef_pd((__m512d)x, (__m512d)(rounded - kRounder<double>));
#endif
  using T = ElementOf<V>;
  const V half = (rounded - kRounder<T>) * T(0.5) + kRounder<T>;  // in two steps, each a normal number
  const V other = kRounder<T> + (rounded - half);
  return x * power_of_two(half) * power_of_two(other);
}
/// Returns 2^n * x of `rounder + n`, for x near 1 and normal results.
template <class V> WIR_INLINE V shifted(V x, V rounded) {
  constexpr int kMantissa = sizeof(ElementOf<V>) == 4 ? 23 : 52;
  return from_bits<V>(bits_of(x) + (bits_of(rounded) << kMantissa));
}
/// A power 2^n * `factor`, with `rounded` = rounder + n.
template <class V> struct Power { V factor, rounded; };
/// Returns 2^x. The rest of ln 2 beyond a number of the vector is the polynomial's constant.
template <class V, int kCount> WIR_INLINE Power<V> exp2_factor(V x, const double (&coefficients)[kCount]) {
  using T = ElementOf<V>;
  const V rounded = x + kRounder<T>, r = x - (rounded - kRounder<T>);
  double rest[kCount];
#pragma GCC unroll 32
  for (int i = 0; i < kCount; ++i) rest[i] = coefficients[i];
  rest[0] = sizeof(T) == 4 ? coefficients[0] - double(T(kLn2)) : kLn2Rest;
  return {fma(r, T(kLn2), r * polynomial(r, rest)) + 1, rounded};
}
template <class V> WIR_INLINE Power<V> exp_factor(V x) {
  const V rounded = fma(x, float(kLog2E), kRounder<float>), n = rounded - kRounder<float>;
  // n times the first part of ln 2 is exact, and so is the difference. Its sum with 1 is compensated.
  const V first = fma(n, -0x1.63p-1f, x), second = n * 0x1.bd0106p-13f, r = first + second;
  const V sum = first + 1, lost = first - (sum - 1);
  return {sum + (fma(r * r, polynomial(r, kExpShort), second) + lost), rounded};
}
/// Returns the power that `factor` computes: normal for |x| < `limit`, zero or infinite outside [low, high].
template <class V, class F> WIR_INLINE V power_of(V x, double limit, double low, double high, F factor) {
  using T = ElementOf<V>;
  if (any(~(absolute(x) < T(limit)))) {
    const Power<V> power = factor(clamp(x, T(low), T(high)));
    return scaled(power.factor, power.rounded);
  }
  const Power<V> power = factor(x);
  return shifted(power.factor, power.rounded);
}
template <FloatVector V> WIR_INLINE V exp(V x) {
  return power_of(x, 87, -104, 89, [](V one) { return exp_factor(one); });
}
template <FloatVector V> WIR_INLINE V exp2(V x) {
  return power_of(x, 125.5, -151, 129, [](V one) { return exp2_factor(one, kExp2Short); });
}
template <FloatVector V> WIR_INLINE V expm1(V x) {
  const V result = in_double(clamp(x, -20.0f, 90.0f), [](auto d) { return expm1_part(d); });
  return with_sign(absolute(result), sign_of(x));
}
/// Returns 1 / (1 + e^-x).
template <FloatVector V> WIR_INLINE V sigmoid(V x) {
  const V power = exp(-absolute(x)), result = 1 / (1 + power);
  return x < 0 ? power * result : result;
}
template <FloatVector V> WIR_INLINE V tanh(V x) {
  const V result = in_double(clamp(x, -10.0f, 10.0f), [](auto d) {
    const auto power = expm1_part(d + d);
    return power / (power + 2);
  });
  return with_sign(absolute(result), sign_of(x));
}
/// sinh(x) and cosh(x) for |x| < 700: e^r = cosh(r) + sinh(r), and both of n ln 2 are known.
template <class D> struct Hyperbolic { D sine, cosine; };
template <class D> WIR_INLINE Hyperbolic<D> hyperbolic_part(D x) {
  const D rounded = fma(x, kLog2E, kRounder<double>), n = rounded - kRounder<double>, r = fma(n, -kLn2, x), z = r * r;
  const D up = power_of_two(rounded) * 0.5, down = power_of_two(kRounder<double> - n) * 0.5;
  const double odd[] = {kExpFloat[1], kExpFloat[3], kExpFloat[5]}, even[] = {kExpFloat[0], kExpFloat[2], kExpFloat[4]};
  const D s = fma(z * r, polynomial(z, odd), r), c = fma(z, polynomial(z, even), 1.0);
  return {fma(c, up - down, s * (up + down)), fma(c, up + down, s * (up - down))};
}
template <FloatVector V> WIR_INLINE V sinh(V x) {
  const V result = in_double(clamp(x, -90.0f, 90.0f), [](auto d) { return hyperbolic_part(d).sine; });
  return with_sign(absolute(result), sign_of(x));
}
template <FloatVector V> WIR_INLINE V cosh(V x) {
  return in_double(clamp(x, -90.0f, 90.0f), [](auto d) { return hyperbolic_part(d).cosine; });
}

// --- logarithms and powers

/// Returns `result`, or the limit where a logarithm's argument is not a positive finite number.
template <class V> WIR_INLINE V with_log_limits(V x, V result) {
  using T = ElementOf<V>;
  const V limit = x == 0 ? splat<V>(T(-kInfinity)) : x < 0 ? splat<V>(T(kNaN)) : x;
  return (x > 0) & (x < T(kInfinity)) ? result : limit;
}
/// A base of logarithms: log(e), and log(2) as a first part of 9 bits and a rest.
struct Base { float unit, unit_rest, first, second; };
constexpr Base kBase2 = {float(kLog2E), float(kLog2E - float(kLog2E)), 1, 0};
constexpr Base kBase10 = {float(kLog10E), float(kLog10E - float(kLog10E)), 0x1.34p-2f, float(kLog10Of2 - 0x1.34p-2)};
constexpr Base kBaseE = {1, 0, 0x1.63p-1f, float(kLn2 - 0x1.63p-1)};
template <FloatVector V> WIR_INLINE V log_of(V x, const Base& base) {
  constexpr int32_t kRoot = 0x3f3504f3, kOne = 0x3f800000;
  const BitsOf<V> is_small = x < 0x1p-126f;
  const BitsOf<V> moved = bits_of(is_small ? x * 0x1p24f : x) + (kOne - kRoot);
  const V n = __builtin_convertvector((moved >> 23) - (is_small ? splat_bits<V>(127 + 24) : splat_bits<V>(127)), V);
  const V f = from_bits<V>((moved & 0x007fffff) + kRoot) - 1, square = f * f;
  const V tail = fma(square * f, polynomial(f, kLogShort), square * -0.5f);
  // n times the first part of log(2) is exact; its sum with the part of f is compensated.
  const V first = n * base.first, part = f * base.unit, sum = first + part, lost = part - (sum - first);
  V rest = base.second == 0 ? lost : fma(n, base.second, lost);
  if (base.unit_rest != 0) rest = fma(f, base.unit_rest, rest) + fma(f, base.unit, -part);
  return with_log_limits(x, sum + (base.unit == 1 ? tail + rest : fma(tail, base.unit, rest)));
}
template <FloatVector V> WIR_INLINE V log(V x) { return log_of(x, kBaseE); }
template <FloatVector V> WIR_INLINE V log2(V x) { return log_of(x, kBase2); }
template <FloatVector V> WIR_INLINE V log10(V x) { return log_of(x, kBase10); }
template <FloatVector V> WIR_INLINE V log1p(V x) {
  const V result = in_double(x, [](auto d) { return log1p_part(d); });
  const V limit = x == -1 ? splat<V>(-kInfinity) : x < -1 ? splat<V>(kNaN) : x;
  return with_zero(x, (x > -1) & (x < kInfinity) ? result : limit);
}
/// Returns `result` = |x|^y with the sign and the limits of x^y.
template <class V> WIR_INLINE V with_power_limits(V x, V y, V result) {
  using T = ElementOf<V>;
  constexpr T kWhole = sizeof(T) == 4 ? T(0x1p23) : T(0x1p52);  // larger numbers are integers
  const T infinity = T(kInfinity);
  const V a = absolute(x), b = absolute(y), rounded = b + kWhole;
  const BitsOf<V> is_small = b < kWhole;
  const BitsOf<V> is_integer = is_small ? rounded - kWhole == b : b == b;
  const BitsOf<V> low_bit = is_small ? bits_of(rounded) : (b < 2 * kWhole ? bits_of(b) : BitsOf<V>{});
  const BitsOf<V> odd = is_integer & ((low_bit & 1) != 0);
  const BitsOf<V> negative = sign_of(x) != 0;
  result = (a == 0) | (a == infinity) ? (((a == 0) == (y < 0)) ? splat<V>(infinity) : V{}) : result;
  result = flip_sign(result, odd & negative & kSignBit<V>);
  result = negative & (a != 0) & (a != infinity) & ~is_integer ? splat<V>(T(kNaN)) : result;
  result = (x != x) | (y != y) ? x + y : result;
  return (y == 0) | (x == 1) | ((a == 1) & (b == infinity)) ? splat<V>(1) : result;
}
template <FloatVector V> WIR_INLINE V pow(V x, V y) {
  const V result = in_double(absolute(x), y, [](auto base, auto exponent) {
    return exp2_part(clamp(log_part(base, kLog2E, 1.0, kLogPower) * exponent, -160.0, 130.0), kExp2Float);
  });
  return with_power_limits(x, y, result);
}

// --- angles

#if WIR_HAS_FMA
/// Up to here (and up to 2^30 in doubles) the reduction loses nothing.
constexpr float kLargestAngle = 1e5f, kLargestWideAngle = 0x1p30f;
/// Returns sin(x) of the distance from a multiple of pi, or from an odd multiple of pi/2 for cos(x).
template <class V, int kParts, int kCount>
WIR_INLINE V half_turns(V x, bool is_cosine, const double (&pi)[kParts], const double (&coefficients)[kCount]) {
  using T = ElementOf<V>;
  const V rounded = is_cosine ? fma(x, T(1 / kPi), T(-0.5)) + kRounder<T> : fma(x, T(1 / kPi), kRounder<T>);
  V n = rounded - kRounder<T>, r = x;
  if (is_cosine) n += T(0.5);
#pragma GCC unroll 4
  for (double part : pi) r = fma(n, T(-part), r);
  const V square = r * r, sine = fma(square * r, polynomial(square, coefficients), r);
  const V result = clamp(sine, T(-1), T(1));  // whatever the error, sqrt(1 - sin^2) exists
  const BitsOf<V> sign = bits_of(rounded) << (sizeof(T) * 8 - 1);
  return flip_sign(result, is_cosine ? ~sign & kSignBit<V> : sign);
}
constexpr float kPi1 = float(kPi), kPi2 = float(kPi - kPi1);
constexpr double kPiFloats[] = {kPi1, kPi2, kPi - kPi1 - kPi2 + 2 * kHalfPiRest}, kPiDoubles[] = {kPi, 2 * kHalfPiRest};
/// sin and cos to 2 units in the last place, as kernels call them.
template <FloatVector V> WIR_INLINE V sin_fast(V x) {
  if (any(absolute(x) > kLargestAngle)) return in_lanes(x, [](float one) { return std::sin(one); });
  return with_zero(x, half_turns(x, false, kPiFloats, kSinShort));
}
template <FloatVector V> WIR_INLINE V cos_fast(V x) {
  if (any(absolute(x) > kLargestAngle)) return in_lanes(x, [](float one) { return std::cos(one); });
  return half_turns(x, true, kPiFloats, kSinShort);
}
template <FloatVector V> WIR_INLINE V sin(V x) {
  if (any(absolute(x) > kLargestWideAngle)) return in_lanes(x, [](float one) { return std::sin(one); });
  return with_zero(x, in_double(x, [](auto d) { return half_turns(d, false, kPiDoubles, kSinWide); }));
}
template <FloatVector V> WIR_INLINE V cos(V x) {
  if (any(absolute(x) > kLargestWideAngle)) return in_lanes(x, [](float one) { return std::cos(one); });
  return in_double(x, [](auto d) { return half_turns(d, true, kPiDoubles, kSinWide); });
}
template <FloatVector V> WIR_INLINE V tan(V x) {
  if (any(absolute(x) > kLargestWideAngle)) return in_lanes(x, [](float one) { return float(std::tan(double(one))); });
  return with_zero(x, in_double(x, [](auto d) {
    const auto angle = angle_part(d);
    return sine_of(angle, 0) / sine_of(angle, 1);
  }));
}
#endif
template <FloatVector V> WIR_INLINE V asin(V x) {
  const V result = in_double(absolute(x), [](auto d) {
    const auto arc = asin_part(d);
    return arc.is_big ? kHalfPi - arc.part : arc.part;
  });
  return with_sign(absolute(result), sign_of(x));
}
template <FloatVector V> WIR_INLINE V acos(V x) {
  return in_double(x, [](auto d) {
    const auto arc = asin_part(absolute(d));
    const auto signed_part = flip_sign(arc.part, sign_of(d));
    return arc.is_big ? (d < 0 ? kPi + signed_part : signed_part) : kHalfPi - signed_part;
  });
}
template <FloatVector V> WIR_INLINE V atan(V x) {
  const V result = in_double(absolute(x), [](auto d) {
    const auto is_big = d > 1;
    const auto part = atan_part(is_big ? -1 / d : d);
    return is_big ? kHalfPi + part : part;
  });
  return with_sign(absolute(result), sign_of(x));
}
template <FloatVector V> WIR_INLINE V atan2(V y, V x) {
  const V result = in_double(y, x, [](auto y, auto x) {
    const auto a = absolute(y), b = absolute(x);
    const auto is_steep = a > b;
    auto z = (is_steep ? b : a) / (is_steep ? a : b);
    z = a == b ? (a == 0 ? a : a - a + 1) : z;
    z = (a == kInfinity) & (b == kInfinity) ? z - z : z;
    z = (a == kInfinity) & (b == kInfinity) ? from_bits<decltype(z)>(bits_of(1 + decltype(z){})) : z;
    const auto part = atan_part(z), first = is_steep ? kHalfPi - part : part;
    return sign_of(x) != 0 ? kPi - first : first;
  });
  return with_sign(absolute(result), sign_of(y));
}
template <FloatVector V> WIR_INLINE V asinh(V x) {
  const V result = in_double(absolute(x), [](auto d) {
    const auto square = d * d;
    return log1p_part(d + square / (1 + square_root(1 + square)));
  });
  return absolute(x) < kInfinity ? with_sign(absolute(result), sign_of(x)) : x;
}
template <FloatVector V> WIR_INLINE V acosh(V x) {
  const V result = in_double(x, [](auto d) {
    const auto rest = d - 1;
    return log1p_part(rest + square_root(rest * (rest + 2)));
  });
  return x < kInfinity ? (x < 1 ? splat<V>(kNaN) : result) : x;
}
template <FloatVector V> WIR_INLINE V atanh(V x) {
  const V a = absolute(x);
  const V result = in_double(a, [](auto d) { return 0.5 * log1p_part(2 * d / (1 - d)); });
  const V limit = a == 1 ? splat<V>(kInfinity) : splat<V>(kNaN);
  return with_sign(absolute(a < 1 ? result : limit), sign_of(x));
}

// --- the error function

template <FloatVector V> WIR_INLINE V erf(V x) {
  const V result = in_double(absolute(x), [](auto a) {
    const auto near = a * polynomial(a * a, kErfNear);
    const auto far = 1 - exp2_part(polynomial(a > 4 ? 4 + decltype(a){} : a, kErfFar), kExp2Short);
    return a < 1 ? near : far;
  });
  return with_sign(absolute(result), sign_of(x));
}
template <FloatVector V> WIR_INLINE V erfc(V x) {
  return in_double(x, [](auto d) {
    using D = decltype(d);
    D a = absolute(d);
    a = a > 10.2 ? splat<D>(10.2) : a;
    const D part = exp_part(-a * a) * polynomial((a - 2) / (a + 2), kErfcFloat);
    return d < 0 ? 2 - part : part;
  });
}

// --- lengths, remainders, neighbours

template <class V> WIR_INLINE V copysign(V x, V y) { return with_sign(absolute(x), sign_of(y)); }
/// Returns the next number after `x` towards `y`.
template <class V> WIR_INLINE V nextafter(V x, V y) {
  using B = BitsOf<V>;
  const B is_away = (x < y) == (x > 0);  // from zero: the magnitude grows
  const V step = from_bits<V>(bits_of(x) + (is_away ? splat_bits<V>(1) : splat_bits<V>(-1)));
  const V smallest = from_bits<V>(splat_bits<V>(1) | sign_of(y));
  const V result = x == y ? y : x == 0 ? smallest : step;
  return (x != x) | (y != y) ? x + y : result;
}
template <FloatVector V> WIR_INLINE V hypot(V x, V y) {
  const V result = in_double(x, y, [](auto x, auto y) { return square_root(fma(x, x, y * y)); });
  return (absolute(x) == kInfinity) | (absolute(y) == kInfinity) ? splat<V>(kInfinity) : result;
}
/// Returns the exact remainder of a/b if the quotient is below 2^26: of other numbers libm's.
template <FloatVector V> WIR_INLINE V fmod(V x, V y) {
  const V a = absolute(x), b = absolute(y);
  if (any(~((a < b * 0x1p26f) & (b > 0) & (b < kInfinity))))
    return in_lanes(x, y, [](float x, float y) { return std::fmod(x, y); });
  const V result = in_double(a, b, [](auto a, auto b) {
    auto quotient = a / b;
    quotient = (quotient + kRounder<double>) - kRounder<double>;
    const auto rest = a - quotient * b;
    return rest < 0 ? rest + b : rest;
  });
  return with_sign(result, sign_of(x));
}
template <FloatVector V> WIR_INLINE V lgamma(V x) {
  return in_lanes(x, [](float one) {
    int sign;
    return static_cast<float>(::lgamma_r(one, &sign));
  });
}

}  // namespace
}  // namespace wir::vec
