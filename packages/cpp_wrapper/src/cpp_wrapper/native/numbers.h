// Numbers of all element types, and conversions between them as torch's.
#pragma once
#include "tensor.h"

#include <cmath>
#include <cstdint>
#include <cstring>
#include <limits>
#include <type_traits>

namespace wir {

using Half = _Float16;
/// A bfloat16.
struct BFloat16 {
  uint16_t bits = 0;
  BFloat16() = default;
  /// Rounds to the nearest value, ties to even.
  explicit BFloat16(float value) {
    uint32_t wide;
    std::memcpy(&wide, &value, sizeof wide);
    bits = value != value ? 0x7FC0 : static_cast<uint16_t>((wide + 0x7FFF + ((wide >> 16) & 1)) >> 16);
  }
  explicit operator float() const {
    const uint32_t wide = static_cast<uint32_t>(bits) << 16;
    float value;
    std::memcpy(&value, &wide, sizeof value);
    return value;
  }
};
template <class T> struct Complex {
  T real, imaginary;
};

template <class T> inline constexpr bool is_small_float = std::is_same_v<T, Half> || std::is_same_v<T, BFloat16>;

/// Converts a real number. Small floats go by way of float; floats beyond an integer type give its smallest value.
template <class To, class From> inline To converted(From value) {
  if constexpr (std::is_same_v<To, From>) {
    return value;
  } else if constexpr (is_small_float<From>) {
    return converted<To>(static_cast<float>(value));
  } else if constexpr (is_small_float<To>) {
    return static_cast<To>(static_cast<float>(value));
  } else if constexpr (std::is_same_v<To, bool>) {
    return value != From(0);
  } else if constexpr (std::is_floating_point_v<From> && std::is_integral_v<To>) {
    const auto wide = static_cast<double>(value);
    if (!(wide > -9223372036854775809.0 && wide < 9223372036854775808.0)) return static_cast<To>(INT64_MIN);
    return static_cast<To>(static_cast<int64_t>(wide));
  } else {
    return static_cast<To>(value);
  }
}

/// A number of any type. Integers are exact in `whole` (those of u64 as the same bits); others are `real` and `imaginary`.
struct Number {
  double real = 0, imaginary = 0;
  int64_t whole = 0;
  bool is_whole = false, is_unsigned = false;
};

Number load_number(const unsigned char* at, int32_t dtype);
/// Converts and stores a number, as torch's `copy_` does: the imaginary part is dropped for real types.
void store_number(unsigned char* at, int32_t dtype, const Number& value);

}  // namespace wir
