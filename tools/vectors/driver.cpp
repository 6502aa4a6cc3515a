// Measures vector functions: their errors against long double, and their time. Compiled with the unit that it measures.
#include "sleef.cpp"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <ctime>
#include <limits>
#include <map>
#include <random>
#include <string>

namespace {

using wir::vec::Doubles;
using wir::vec::Floats;
using Reference = long double (*)(long double, long double);
/// A function: of one or two vectors.
struct Function { void* code; int arity; Reference reference; };

template <class V> struct Sines { V sine, cosine; };
#define ONE(name) [](long double x, long double) -> long double { return std::name(x); }
#define TWO(name) [](long double x, long double y) -> long double { return std::name(x, y); }
const std::map<std::string, Reference> kReferences = {
    {"exp", ONE(exp)}, {"exp2", ONE(exp2)}, {"expm1", ONE(expm1)}, {"log", ONE(log)}, {"log2", ONE(log2)},
    {"log10", ONE(log10)}, {"log1p", ONE(log1p)}, {"sin", ONE(sin)}, {"cos", ONE(cos)}, {"tan", ONE(tan)},
    {"asin", ONE(asin)}, {"acos", ONE(acos)}, {"atan", ONE(atan)}, {"sinh", ONE(sinh)}, {"cosh", ONE(cosh)},
    {"tanh", ONE(tanh)}, {"asinh", ONE(asinh)}, {"acosh", ONE(acosh)}, {"atanh", ONE(atanh)}, {"erf", ONE(erf)},
    {"erfc", ONE(erfc)}, {"lgamma", ONE(lgamma)}, {"pow", TWO(pow)}, {"atan2", TWO(atan2)}, {"hypot", TWO(hypot)},
    {"fmod", TWO(fmod)}, {"copysign", TWO(copysign)}, {"sin_fast", ONE(sin)}, {"cos_fast", ONE(cos)},
    {"sigmoid", [](long double x, long double) -> long double { return 1 / (1 + std::exp(-x)); }},
};

#define FLOAT_1(name) {#name, (void*)+[](Floats x) -> Floats { return wir::vec::name(x); }}
#define FLOAT_2(name) {#name, (void*)+[](Floats x, Floats y) -> Floats { return wir::vec::name(x, y); }}
#define DOUBLE_1(name) {#name, (void*)+[](Doubles x) -> Doubles { return wir::vec::name(x); }}
#define DOUBLE_2(name) {#name, (void*)+[](Doubles x, Doubles y) -> Doubles { return wir::vec::name(x, y); }}
const std::map<std::string, void*> kFloats = {
    FLOAT_1(exp), FLOAT_1(exp2), FLOAT_1(expm1), FLOAT_1(sigmoid), FLOAT_1(log), FLOAT_1(log2), FLOAT_1(log10),
    FLOAT_1(log1p), FLOAT_1(asin), FLOAT_1(acos), FLOAT_1(atan), FLOAT_1(sinh), FLOAT_1(cosh), FLOAT_1(tanh),
    FLOAT_1(asinh), FLOAT_1(acosh), FLOAT_1(atanh), FLOAT_1(erf), FLOAT_1(erfc), FLOAT_1(lgamma), FLOAT_2(pow),
    FLOAT_2(atan2), FLOAT_2(hypot), FLOAT_2(fmod), FLOAT_2(nextafter), FLOAT_2(copysign),
#if WIR_HAS_FMA
    FLOAT_1(sin), FLOAT_1(cos), FLOAT_1(tan), FLOAT_1(sin_fast), FLOAT_1(cos_fast),
#endif
};
const std::map<std::string, void*> kDoubles = {
    DOUBLE_2(nextafter), DOUBLE_2(copysign),
#if WIR_HAS_FMA
    DOUBLE_1(exp), DOUBLE_1(exp2), DOUBLE_1(expm1), DOUBLE_1(log), DOUBLE_1(log2), DOUBLE_1(log10), DOUBLE_1(log1p),
    DOUBLE_1(sin), DOUBLE_1(cos), DOUBLE_1(tan), DOUBLE_1(asin), DOUBLE_1(acos), DOUBLE_1(atan), DOUBLE_1(sinh),
    DOUBLE_1(cosh), DOUBLE_1(tanh), DOUBLE_1(asinh), DOUBLE_1(acosh), DOUBLE_1(atanh), DOUBLE_1(erf), DOUBLE_1(erfc),
    DOUBLE_1(lgamma), DOUBLE_2(pow), DOUBLE_2(atan2), DOUBLE_2(hypot), DOUBLE_2(fmod),
#endif
};
bool has_two(const std::string& name) {
  return name == "pow" || name == "atan2" || name == "hypot" || name == "fmod" || name == "nextafter" || name == "copysign";
}

template <class V> V call(void* code, bool two, V x, V y) {
  return two ? reinterpret_cast<V (*)(V, V)>(code)(x, y) : reinterpret_cast<V (*)(V)>(code)(x);
}

/// Returns the distance in units in the last place of T; infinity for a wrong kind of value or sign of zero.
template <class T> double distance(T actual, long double expected) {
  constexpr double kWrong = std::numeric_limits<double>::infinity();
  using Limits = std::numeric_limits<T>;
  if (std::isnan(expected)) return std::isnan(actual) ? 0 : kWrong;
  if (std::isnan(actual)) return kWrong;
  const long double beyond = std::ldexp(1.0L, Limits::max_exponent);
  const auto finite = [&](long double x) { return std::isinf(x) ? std::copysign(beyond, x) : x; };
  if (std::fabs(expected) >= beyond && std::isinf(actual)) return std::signbit(actual) == std::signbit(expected) ? 0 : kWrong;
  if (expected == 0 || actual == 0) {
    if (std::signbit(actual) != std::signbit(expected)) return kWrong;
  }
  constexpr int kLowest = Limits::min_exponent - 1;
  const int exponent = expected == 0 ? kLowest : std::max(std::ilogb(finite(expected)), kLowest);
  const long double unit = std::ldexp(1.0L, exponent - Limits::digits + 1);
  return static_cast<double>(std::fabs(finite(actual) - finite(expected)) / unit);
}

template <class T> class Samples {
 public:
  explicit Samples(uint64_t seed) : random_(seed) {}
  T next() {
    const uint64_t word = random_();
    const T unit = static_cast<T>(static_cast<double>(random_() >> 11) * 0x1p-53 * 2 - 1);
    switch (word % 8) {
      case 0: case 1: {
        T value;
        const uint64_t bits = random_();
        std::memcpy(&value, &bits, sizeof(T));
        return value;
      }
      case 2: case 3: return unit * 20;
      case 4: return unit;
      case 5: return unit * (sizeof(T) == 4 ? 105 : 760);
      case 6: return 1 + unit * static_cast<T>(std::ldexp(1.0, -static_cast<int>(word / 8 % 20)));
      default: return unit * static_cast<T>(std::ldexp(1.0, static_cast<int>(word / 8 % 60) - 30));
    }
  }

 private:
  std::mt19937_64 random_;
};

template <class V> double worst_of(void* code, bool two, Reference reference, uint64_t seed, int64_t count, double* at) {
  using T = wir::vec::ElementOf<V>;
  constexpr int kCount = sizeof(V) / sizeof(T);
  const T inf = std::numeric_limits<T>::infinity(), nan = std::numeric_limits<T>::quiet_NaN();
  const T tiny = std::numeric_limits<T>::denorm_min(), small = std::numeric_limits<T>::min();
  const T halves[] = {0, 1, 2, 3, T(0.5), T(1.5), T(2.5), inf, nan, tiny, small, std::numeric_limits<T>::max(), small - tiny,
                      T(1e-20), T(0x1p23) + 1, T(0x1p24), T(1e7) + 1};
  Samples<T> samples(seed);
  double worst = 0;
  const int64_t specials = 34 * (two ? 34 : 1);
  for (int64_t i = 0; i < count + specials; i += kCount) {
    V x{}, y{};
    for (int lane = 0; lane < kCount; ++lane) {
      const int64_t number = i + lane;
      const auto special = [&](int64_t index) { return index % 2 ? -halves[index / 2 % 17] : halves[index / 2 % 17]; };
      x[lane] = number < specials ? special(number) : samples.next();
      y[lane] = number < specials ? special(number / 34) : samples.next();
    }
    const V result = call(code, two, x, y);
    for (int lane = 0; lane < kCount; ++lane) {
      const T a = x[lane], b = y[lane];
      const double error = distance<T>(result[lane], reference ? reference(a, b) : (long double)std::nextafter(a, b));
      if (!(error <= worst)) {
        worst = error;
        at[0] = a, at[1] = b, at[2] = result[lane];
      }
    }
  }
  return worst;
}

template <class V> double seconds_of(void* code, bool two, double low, double high, int64_t repetitions) {
  using T = wir::vec::ElementOf<V>;
  constexpr int kBlock = 64, kCount = sizeof(V) / sizeof(T);
  V inputs[kBlock], outputs[kBlock];
  std::mt19937_64 random(1);
  for (V& one : inputs)
    for (int i = 0; i < kCount; ++i) one[i] = T(low + (high - low) * static_cast<double>(random() >> 11) * 0x1p-53);
  double best = 1e9;
  for (int64_t repetition = 0; repetition < repetitions; ++repetition) {
    timespec start, end;
    clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &start);
    for (int round = 0; round < 40; ++round) {
      for (int i = 0; i < kBlock; ++i) outputs[i] = call(code, two, inputs[i], inputs[kBlock - 1 - i]);
      asm volatile("" : : "r"(outputs) : "memory");
    }
    clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &end);
    best = std::min(best, double(end.tv_sec - start.tv_sec) + 1e-9 * double(end.tv_nsec - start.tv_nsec));
  }
  return best / (40.0 * kBlock * kCount);
}

}  // namespace

#define WIR_PUBLIC [[gnu::visibility("default")]]
extern "C" {
/// Returns a function of this unit, or null.
WIR_PUBLIC void* wir_find(const char* name, int is_double) {
  const auto& table = is_double ? kDoubles : kFloats;
  const auto found = table.find(name);
  return found == table.end() ? nullptr : found->second;
}
/// Returns the largest error in units in the last place; `at` is filled with the arguments and the result.
WIR_PUBLIC double wir_worst(void* code, const char* name, int is_double, uint64_t seed, int64_t count, double* at) {
  const auto found = kReferences.find(name);
  const Reference reference = found == kReferences.end() ? nullptr : found->second;
  return is_double ? worst_of<Doubles>(code, has_two(name), reference, seed, count, at)
                   : worst_of<Floats>(code, has_two(name), reference, seed, count, at);
}
/// Returns the smallest process CPU time of an element, in seconds.
WIR_PUBLIC double wir_seconds(void* code, const char* name, int is_double, double low, double high, int64_t repetitions) {
  return is_double ? seconds_of<Doubles>(code, has_two(name), low, high, repetitions)
                   : seconds_of<Floats>(code, has_two(name), low, high, repetitions);
}
}
