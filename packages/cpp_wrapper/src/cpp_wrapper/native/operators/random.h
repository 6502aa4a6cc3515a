// The library's random generator: the numbers of torch's CPU generator, from the same seeds. Files of operators that draw
// random numbers share it, and the order in which they draw.
#pragma once
#include "layouts.h"

#include <mutex>
#include <numeric>
#include <random>

namespace wir {

/// Sets the state, as `torch.manual_seed` does. Without it the seed is that of a fresh process of torch.
void set_random_seed(uint64_t seed);

inline constexpr double kPi = 3.14159265358979323846;

/// State of the generator; one call at a time draws from it.
class Generator {
 public:
  void seed(uint64_t value) {
    engine_.seed(static_cast<uint32_t>(value));
    has_normal_ = false;
  }
  uint32_t draw() { return static_cast<uint32_t>(engine_()); }
  uint64_t draw_wide() {
    const uint64_t high = draw();
    return high << 32 | draw();
  }
  /// A number in [0, 1): of 53 bits for f64, of 24 for all others.
  template <class T> double uniform() {
    if constexpr (std::is_same_v<T, double>) {
      return std::ldexp(static_cast<double>(draw_wide() & ((uint64_t{1} << 53) - 1)), -53);
    } else {
      constexpr int kDigits = 24;
      return std::ldexp(static_cast<double>(draw() & ((1u << kDigits) - 1)), -kDigits);
    }
  }
  /// A normal number; numbers are drawn in pairs.
  double normal() {
    if (has_normal_) {
      has_normal_ = false;
      return normal_;
    }
    const double first = uniform<double>(), second = uniform<double>();
    const double radius = std::sqrt(-2 * std::log1p(-second)), angle = 2 * kPi * first;
    normal_ = radius * std::sin(angle);
    has_normal_ = true;
    return radius * std::cos(angle);
  }

  std::mutex mutex;

 private:
  std::mt19937 engine_{static_cast<uint32_t>(67280421310721)};
  bool has_normal_ = false;
  double normal_ = 0;
};

Generator& generator();
using Lock = std::lock_guard<std::mutex>;

/// Returns a view whose row-major order is the order of the elements in memory.
Owned in_memory_order(Tensor tensor);

/// Sets each element to `draw()`, in the order of memory.
template <class T, class Draw> void fill(Tensor tensor, const Draw& draw) {
  const Owned ordered = in_memory_order(tensor);
  Loop(sizes_of(ordered.get()), {ordered.get()}).run([&](unsigned char* const* at, const int64_t* steps, int64_t count) {
    for (int64_t i = 0; i < count; ++i) *reinterpret_cast<T*>(at[0] + i * steps[0]) = converted<T>(draw());
  });
}

// --- distributions; the operator's name is for errors

/// Sets numbers in [from, to).
void fill_uniform(Tensor tensor, double from, double to, const char* name);
void fill_normal(Tensor tensor, double mean, double deviation, const char* name);
/// Sets integers in [low, high).
void fill_integers(Tensor tensor, int64_t low, int64_t high, const char* name);

}  // namespace wir
