// The library's random generator: the numbers of torch's CPU generator, from the same seeds. Files of operators that draw
// random numbers share it, and the order in which they draw.
#pragma once
#include "layouts.h"

#include <atomic>
#include <mutex>
#include <new>
#include <numeric>
#include <random>

namespace wir {

/// Sets the state, as `torch.manual_seed` does. Without it the seed is that of a fresh process of torch.
void set_random_seed(uint64_t seed);

inline constexpr double kPi = 3.14159265358979323846;

/// State of the generator. All copies of operators for instruction sets share it, and only data, so that none runs code of
/// another one's instructions.
struct RandomState {
  std::mutex mutex;
  std::atomic<uint64_t> seed{67280421310721};
  std::atomic<bool> is_seeded{false}, has_normal{false};  // `is_seeded`: the words follow from the seed
  double normal = 0;
  alignas(std::mt19937) unsigned char engine[sizeof(std::mt19937)] = {};
};
extern "C" RandomState wir_op_random_state;

/// Draws from the state; one call at a time.
class Generator {
 public:
  uint32_t draw() { return static_cast<uint32_t>(engine()()); }
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
    if (state_.has_normal) {
      state_.has_normal = false;
      return state_.normal;
    }
    const double first = uniform<double>(), second = uniform<double>();
    const double radius = std::sqrt(-2 * std::log1p(-second)), angle = 2 * kPi * first;
    state_.normal = radius * std::sin(angle);
    state_.has_normal = true;
    return radius * std::cos(angle);
  }

  std::mutex& mutex = wir_op_random_state.mutex;

 private:
  std::mt19937& engine() {
    auto* made = reinterpret_cast<std::mt19937*>(state_.engine);
    if (!state_.is_seeded) {
      new (made) std::mt19937(static_cast<uint32_t>(state_.seed));
      state_.is_seeded = true;
    }
    return *made;
  }

  RandomState& state_ = wir_op_random_state;
};

inline Generator generator() { return {}; }
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
