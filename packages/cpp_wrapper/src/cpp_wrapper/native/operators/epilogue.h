// What a convolution or a linear layer computes after its sums: a scale and a bias for each channel, an addition, and an
// activation.
#pragma once
#include "images.h"
#include "tiles.h"

#include <limits>

namespace wir {

enum class Activation : uint8_t { kNone, kClamp, kHardswish, kSigmoid, kSilu, kGelu };

/// The result is `activation(scale * sum + bias + residual)`. `bias` is an argument of its own, which operators without the rest
/// have, too.
struct Epilogue {
  const float* scale = nullptr;      // a number for each channel; null: ones
  Images<const float> residual = {};  // without data: zeros. Its channels are contiguous
  Activation activation = Activation::kNone;
  float low = -std::numeric_limits<float>::infinity(), high = std::numeric_limits<float>::infinity();

  bool has_residual() const { return residual.data != nullptr; }
  bool clamps() const { return activation == Activation::kClamp; }
  /// Returns whether numbers in registers can be finished: no more than a clamp is left.
  bool is_short() const { return activation == Activation::kNone || clamps(); }
};

/// Sets the activation of a name with its bounds. Returns false for other names.
bool set_activation(const char* name, double low, double high, Epilogue& end);
constexpr const char* kOtherActivation =
    "the activation is not one of none, relu, clamp, hardswish, sigmoid, silu, gelu";

/// Applies the activation to numbers, after the addition of as many others (null: zeros).
void finish_numbers(const Epilogue& of, const float* residual, int64_t count, float* numbers);
/// Copies a number for each channel of groups (null: zeros), whose channels are padded to whole panels: `to` has `groups *
/// panels * 16`.
void pad_channels(int64_t groups, int64_t channels, const float* from, float* to);

namespace {  // each file has its own: files of different instruction sets are linked together

/// Returns a value within bounds; NaN stays.
template <class V> inline V clamped(V value, V low, V high) {
#if defined(__AVX512F__)
  if constexpr (sizeof(V) == 64) return (V)_mm512_min_ps((__m512)high, _mm512_max_ps((__m512)low, (__m512)value));
#elif defined(__AVX__)
  if constexpr (sizeof(V) == 32) return (V)_mm256_min_ps((__m256)high, _mm256_max_ps((__m256)low, (__m256)value));
#endif
  value = value < low ? low : value;
  return value > high ? high : value;
}

}  // namespace
}  // namespace wir
