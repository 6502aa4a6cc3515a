// What printed expressions call, with Python's rounding; once a translation unit.
#include <cmath>
#include <cstdint>
#include <cstdio>
#include <cstdlib>

static inline int64_t wir_floordiv(int64_t a, int64_t b) {
  int64_t q = a / b;
  return (a % b != 0 && (a < 0) != (b < 0)) ? q - 1 : q;
}
static inline int64_t wir_ceildiv(int64_t a, int64_t b) {
  int64_t q = a / b;
  return (a % b != 0 && (a < 0) == (b < 0)) ? q + 1 : q;
}
static inline int64_t wir_mod(int64_t a, int64_t b) {
  int64_t r = a % b;
  return (r != 0 && (r < 0) != (b < 0)) ? r + b : r;
}
static inline double wir_mod(double a, double b) {
  double r = std::fmod(a, b);
  if (r == 0.0) return std::copysign(0.0, b);
  return (r < 0.0) != (b < 0.0) ? r + b : r;
}
static inline double wir_floordiv(double a, double b) {
  double r = std::fmod(a, b);
  double q = (a - r) / b;
  if (r != 0.0 && (r < 0.0) != (b < 0.0)) q -= 1.0;
  if (q == 0.0) return std::copysign(0.0, a / b);
  double f = std::floor(q);
  return q - f > 0.5 ? f + 1.0 : f;
}
static inline double wir_ceildiv(double a, double b) { return -wir_floordiv(a, -b); }
static inline int64_t wir_min(int64_t a, int64_t b) { return b < a ? b : a; }
static inline int64_t wir_max(int64_t a, int64_t b) { return b > a ? b : a; }
static inline double wir_min(double a, double b) { return b < a ? b : a; }
static inline double wir_max(double a, double b) { return b > a ? b : a; }
static inline bool wir_min(bool a, bool b) { return a && b; }
static inline bool wir_max(bool a, bool b) { return a || b; }
static inline int64_t wir_pow(int64_t base, int64_t exp) {
  int64_t result = 1;
  for (; exp > 0; exp >>= 1, base *= base) {
    if (exp & 1) result *= base;
    if (exp == 1) break;
  }
  return result;
}
static inline double wir_pow(double base, double exp) { return std::pow(base, exp); }
static inline int64_t wir_abs(int64_t a) { return a < 0 ? -a : a; }
static inline double wir_abs(double a) { return std::fabs(a); }
static inline double wir_round_to(double x, int64_t digits) {
  if (!std::isfinite(x) || digits > 340) return x;
  if (digits < 0) {
    double scale = std::pow(10.0, static_cast<double>(-digits));
    return std::nearbyint(x / scale) * scale;
  }
  char text[700];
  std::snprintf(text, sizeof text, "%.*f", static_cast<int>(digits), x);
  return std::strtod(text, nullptr);
}
