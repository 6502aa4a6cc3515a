// Functions of printed expressions, with Python's rounding and refusals: WIR402 if there is no value, WIR408 if a number does not
// fit. Include once a translation unit. Integers are `wir_int`, by default an int64_t that wraps. Define WIR_INT before as a class
// whose arithmetic is checked, with explicit conversions to `wir_wide`, double and bool, and define `wir_fail` with it.
#include <cmath>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <type_traits>

#ifndef WIR_INT
#define WIR_INT int64_t
[[noreturn]] static inline void wir_fail(const char* code, const char* why) {
  std::fprintf(stderr, "[%s] %s\n", code, why);
  std::abort();
}
#endif
using wir_int = WIR_INT;
#ifdef __SIZEOF_INT128__
__extension__ typedef __int128 wir_wide;
__extension__ typedef unsigned __int128 wir_magnitude;
#else
using wir_wide = int64_t;
using wir_magnitude = uint64_t;
#endif

/// A constant or a truth value as a whole number.
template <class T> static inline wir_int wir_whole(T x) {
  if constexpr (std::is_same_v<T, bool>) {
    return wir_int(x ? 1 : 0);
  } else {
    return wir_int(x);
  }
}
static inline wir_wide wir_raw(wir_int x) { return static_cast<wir_wide>(x); }
static inline bool wir_is_int64(wir_wide x) { return static_cast<int64_t>(x) == x; }

// --- floats as integers

[[gnu::cold, gnu::noinline]] static inline wir_int wir_of_other_float(double x) {
  if (!std::isfinite(x)) wir_fail("WIR402", "an infinity or NaN has no whole number");
  const double end = std::ldexp(1.0, 8 * sizeof(wir_wide) - 1);
  if (!(x >= -end && x < end)) wir_fail("WIR408", "a rounded float is not an int64");
  return wir_int(static_cast<wir_wide>(x));
}
static inline wir_int wir_of_float(double x) {
  return x >= -0x1p63 && x < 0x1p63 ? wir_int(static_cast<int64_t>(x)) : wir_of_other_float(x);
}
static inline wir_int wir_to_int(double x) { return wir_of_float(std::trunc(x)); }
static inline wir_int wir_floor(double x) { return wir_of_float(std::floor(x)); }
static inline wir_int wir_ceil(double x) { return wir_of_float(std::ceil(x)); }
static inline wir_int wir_round(double x) { return wir_of_float(std::nearbyint(x)); }

// --- division

template <class T> static inline void wir_expect_nonzero(T x) {
  if (x == 0) wir_fail("WIR402", "a division by zero in a size or an argument");
}
enum wir_division { WIR_FLOOR, WIR_CEIL, WIR_MOD };
/// The rounded quotient, or the remainder with the divisor's sign. The quotient must fit T.
template <wir_division D, class T> static inline T wir_divide(T x, T y) {
  const T q = x / y, r = x % y;
  const bool is_below = (x < 0) != (y < 0);
  if (D == WIR_MOD) return r != 0 && is_below ? r + y : r;
  if (D == WIR_CEIL) return r != 0 && !is_below ? q + 1 : q;
  return r != 0 && is_below ? q - 1 : q;
}
template <wir_division D> [[gnu::cold, gnu::noinline]] static inline wir_int wir_divide_wide(wir_wide x, wir_wide y) {
  return wir_int(wir_divide<D>(x, y));
}
template <wir_division D> static inline wir_int wir_quotient(wir_int a, wir_int b) {
  wir_expect_nonzero(b);
  if (b == -1) return D == WIR_MOD ? wir_int(0) : -a;
  const auto x = wir_raw(a), y = wir_raw(b);
  if (!wir_is_int64(x) || !wir_is_int64(y)) return wir_divide_wide<D>(x, y);
  return wir_int(wir_divide<D>(static_cast<int64_t>(x), static_cast<int64_t>(y)));
}
static inline wir_int wir_floordiv(wir_int a, wir_int b) { return wir_quotient<WIR_FLOOR>(a, b); }
static inline wir_int wir_ceildiv(wir_int a, wir_int b) { return wir_quotient<WIR_CEIL>(a, b); }
static inline wir_int wir_mod(wir_int a, wir_int b) { return wir_quotient<WIR_MOD>(a, b); }
static inline double wir_mod(double a, double b) {
  wir_expect_nonzero(b);
  double r = std::fmod(a, b);
  if (r == 0.0) return std::copysign(0.0, b);
  return (r < 0.0) != (b < 0.0) ? r + b : r;
}
static inline double wir_floordiv(double a, double b) {
  wir_expect_nonzero(b);
  double r = std::fmod(a, b);
  double q = (a - r) / b;
  if (r != 0.0 && (r < 0.0) != (b < 0.0)) q -= 1.0;
  if (q == 0.0) return std::copysign(0.0, a / b);
  double f = std::floor(q);
  return q - f > 0.5 ? f + 1.0 : f;
}
static inline double wir_ceildiv(double a, double b) { return -wir_floordiv(a, -b); }
static inline double wir_truediv(double a, double b) {
  wir_expect_nonzero(b);
  return a / b;
}
/// Divides bit by bit until the quotient has more bits than a float; the last bit says whether there is a remainder.
[[gnu::cold, gnu::noinline]] static inline double wir_truediv_wide(wir_wide x, wir_wide y) {
  const wir_magnitude over = x < 0 ? 0 - static_cast<wir_magnitude>(x) : x, under = y < 0 ? 0 - static_cast<wir_magnitude>(y) : y;
  wir_magnitude quotient = over / under, rest = over % under;
  int shift = 0;
  for (; over != 0 && quotient >> 62 == 0; ++shift) {
    const bool is_one = rest >= under - rest;
    rest = is_one ? rest - (under - rest) : rest + rest;
    quotient = quotient << 1 | is_one;
  }
  const double found = std::ldexp(static_cast<double>(quotient | (rest != 0)), -shift);
  return (x < 0) != (y < 0) ? -found : found;
}
/// The float nearest to the quotient, also of integers that floats cannot represent.
static inline double wir_truediv(wir_int a, wir_int b) {
  wir_expect_nonzero(b);
  const auto x = wir_raw(a), y = wir_raw(b);
  const auto exact = wir_wide{1} << 53;
  if (x < -exact || x > exact || y < -exact || y > exact) return wir_truediv_wide(x, y);
  return static_cast<double>(static_cast<int64_t>(x)) / static_cast<double>(static_cast<int64_t>(y));
}

// --- comparison of whole numbers with floats, which need not be floats: the sign of `a - b`, NaN with NaN

template <class T> static inline double wir_order_of(T x, double b) {
  const T y = static_cast<T>(b);
  if (x != y) return x < y ? -1.0 : 1.0;
  return static_cast<double>(y) - b;
}
[[gnu::cold, gnu::noinline]] static inline double wir_order_wide(wir_wide x, double b) {
  const double end = std::ldexp(1.0, 8 * sizeof(wir_wide) - 1);
  if (std::isnan(b)) return b;
  if (b >= end || b < -end) return b > 0.0 ? -1.0 : 1.0;
  return wir_order_of(x, b);
}
static inline double wir_order(wir_int a, double b) {
  const auto x = wir_raw(a);
  if (!wir_is_int64(x) || !(b >= -0x1p63 && b < 0x1p63)) return wir_order_wide(x, b);
  return wir_order_of(static_cast<int64_t>(x), b);
}
static inline double wir_order(double a, wir_int b) { return -wir_order(b, a); }

// --- functions

static inline wir_int wir_min(wir_int a, wir_int b) { return b < a ? b : a; }
static inline wir_int wir_max(wir_int a, wir_int b) { return b > a ? b : a; }
static inline double wir_min(double a, double b) { return b < a ? b : a; }
static inline double wir_max(double a, double b) { return b > a ? b : a; }
static inline bool wir_min(bool a, bool b) { return a && b; }
static inline bool wir_max(bool a, bool b) { return a || b; }
static inline wir_int wir_abs(wir_int a) { return a < 0 ? -a : a; }
static inline double wir_abs(double a) { return std::fabs(a); }
static inline wir_int wir_pow(wir_int base, wir_int exponent) {
  if (exponent < 0) wir_fail("WIR402", "a negative exponent of a whole number");
  wir_int result = 1;
  if (base == 0 || base == 1) return exponent == 0 ? result : base;
  if (base == -1) return (exponent & 1) == 1 ? base : result;
  for (auto left = wir_raw(exponent); left > 0; left >>= 1, base = left > 0 ? base * base : base) {
    if ((left & 1) != 0) result = result * base;
  }
  return result;
}
static inline double wir_pow(double base, double exponent) {
  const double result = std::pow(base, exponent);
  if (std::isfinite(result) || !std::isfinite(base) || !std::isfinite(exponent)) return result;
  if (base == 0.0) wir_expect_nonzero(base);
  wir_fail("WIR402", "a power is not real, or too large");
}
/// What a function has for `x`; infinities and NaN come from such only.
static inline double wir_value(double found, double x) {
  if (std::isfinite(found) || std::isnan(x) || (std::isinf(x) && !std::isnan(found))) return found;
  wir_fail("WIR402", "a function has no value for a float, or one that is too large");
}
static inline double wir_sqrt(double x) { return wir_value(std::sqrt(x), x); }
static inline double wir_exp(double x) { return wir_value(std::exp(x), x); }
static inline double wir_log(double x) { return wir_value(std::log(x), x); }
static inline double wir_log2(double x) { return wir_value(std::log2(x), x); }
static inline double wir_sin(double x) { return wir_value(std::sin(x), x); }
static inline double wir_cos(double x) { return wir_value(std::cos(x), x); }
static inline double wir_tan(double x) { return wir_value(std::tan(x), x); }
static inline double wir_sinh(double x) { return wir_value(std::sinh(x), x); }
static inline double wir_cosh(double x) { return wir_value(std::cosh(x), x); }
static inline double wir_tanh(double x) { return wir_value(std::tanh(x), x); }
static inline double wir_asin(double x) { return wir_value(std::asin(x), x); }
static inline double wir_acos(double x) { return wir_value(std::acos(x), x); }
static inline double wir_atan(double x) { return wir_value(std::atan(x), x); }
static inline double wir_asinh(double x) { return wir_value(std::asinh(x), x); }

/// The float nearest to `x` rounded to a multiple of ten to the power `zeros`, of which it has `whole` digits; halves to even.
static inline double wir_round_to_tens(double x, int zeros, int whole) {
  char text[1100];
  if (zeros > whole) return std::copysign(0.0, x);
  if (zeros < whole) {
    std::snprintf(text, sizeof text, "%.*e", whole - zeros - 1, x);
  } else {  // to 0, or to a one before `zeros` zeros: by all digits, of which the first is behind the sign
    std::snprintf(text, sizeof text, "%.1070e", std::fabs(x));
    const char* rest = text + 1;
    while (*rest != 'e' && (*rest < '1' || *rest > '9')) ++rest;  // past the point of any locale, too
    if (text[0] < '5' || (text[0] == '5' && *rest == 'e')) return std::copysign(0.0, x);
    std::snprintf(text, sizeof text, "%s1e%d", x < 0.0 ? "-" : "", zeros);
  }
  return std::strtod(text, nullptr);
}
static inline double wir_round_to(double x, wir_int places) {
  const auto digits = wir_raw(places);
  if (!std::isfinite(x) || x == 0.0 || digits > 323) return x;
  if (digits < -308) return std::copysign(0.0, x);
  char text[700];
  std::snprintf(text, sizeof text, "%.*f", digits < 0 ? 0 : static_cast<int>(digits), digits < 0 ? std::trunc(std::fabs(x)) : x);
  if (digits >= 0) return std::strtod(text, nullptr);
  const int whole = text[0] == '0' ? 0 : static_cast<int>(std::strlen(text));
  const double found = wir_round_to_tens(x, static_cast<int>(-digits), whole);
  if (!std::isfinite(found)) wir_fail("WIR402", "a rounded float is too large");
  return found;
}
