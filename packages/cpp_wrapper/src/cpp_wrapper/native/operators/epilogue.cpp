// The end of a convolution, on numbers in memory.
#include "epilogue.h"

#include "packers.h"
#include "vector_math.h"

namespace wir {
namespace {

typedef float Vector __attribute__((vector_size(kVectorBytes)));
constexpr int64_t kStep = kLanes<float>;

Vector activated(const Epilogue& of, Vector x) {
  switch (of.activation) {
    case Activation::kNone: return x;
    case Activation::kClamp: return clamped(x, Vector{} + of.low, Vector{} + of.high);
    case Activation::kHardswish: return x * clamped(x + 3, Vector{}, Vector{} + 6) / 6;
    case Activation::kSigmoid: return vec::sigmoid(x);
    case Activation::kSilu: return x * vec::sigmoid(x);
    case Activation::kGelu: return x * 0.5f * (1 + vec::erf(x * 0.70710678118654752f));
  }
  return x;
}

}  // namespace

bool set_activation(const char* name, double low, double high, Epilogue& end) {
  constexpr std::pair<const char*, Activation> kNames[] = {
      {"none", Activation::kNone},       {"relu", Activation::kClamp}, {"clamp", Activation::kClamp},
      {"hardswish", Activation::kHardswish}, {"sigmoid", Activation::kSigmoid}, {"silu", Activation::kSilu},
      {"gelu", Activation::kGelu}};
  for (const auto& [known, activation] : kNames) {
    if (std::strcmp(known, name) != 0) continue;
    end.activation = activation;
    if (activation == Activation::kClamp) end.low = 0.0f;
    if (std::strcmp(name, "clamp") == 0) end.low = static_cast<float>(low), end.high = static_cast<float>(high);
    return true;
  }
  return false;
}

void finish_numbers(const Epilogue& of, const float* residual, int64_t count, float* numbers) {
  for (int64_t i = 0; i < count; i += kStep) {
    const int64_t size = std::min(kStep, count - i) * static_cast<int64_t>(sizeof(float));
    Vector value{}, other{};
    std::memcpy(&value, numbers + i, static_cast<size_t>(size));
    if (residual) std::memcpy(&other, residual + i, static_cast<size_t>(size));
    value = activated(of, value + other);
    std::memcpy(numbers + i, &value, static_cast<size_t>(size));
  }
}

void pad_channels(int64_t groups, int64_t channels, const float* from, float* to) {
  const int64_t padded = packed_count(1, channels);
  if (!from) std::fill_n(to, groups * padded, 0.0f);
  for (int64_t g = 0; from && g < groups; ++g) {
    std::fill(std::copy_n(from + g * channels, channels, to + g * padded), to + (g + 1) * padded, 0.0f);
  }
}

}  // namespace wir
