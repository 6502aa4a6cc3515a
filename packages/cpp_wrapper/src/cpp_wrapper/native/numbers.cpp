// Numbers of rare element types: loaded and stored one at a time.
#include "numbers.h"

#include "container.h"
#include "elements.h"
#include "memory.h"

namespace wir {
namespace {

Number real_number(double value) { return {value, 0, 0, false, false}; }
Number whole_number(int64_t value) { return {static_cast<double>(value), 0, value, true, false}; }

/// A small binary float: width in bits, bits of mantissa, bias, the code of NaN, and the largest finite code.
struct SmallFloat {
  int bits, bias;
  uint8_t nan, largest;
  bool has_infinity, has_negative_zero;
};

/// Rounds to the nearest code, ties to even. Beyond the largest code: infinity or NaN.
uint8_t encode(double value, const SmallFloat& format) {
  const bool negative = std::signbit(value);
  const double magnitude = std::fabs(value);
  if (value != value) return format.nan;
  int exponent = 0;
  std::frexp(magnitude, &exponent);
  const int lowest = 1 - format.bias;                                   // of normal numbers
  const int unit = (exponent - 1 < lowest || magnitude == 0 ? lowest : exponent - 1) - format.bits;  // of the last bit
  const double scaled = std::nearbyint(std::ldexp(magnitude, -unit));
  const double code = (unit + format.bits - lowest) * std::ldexp(1.0, format.bits) + scaled;
  if (!(code <= format.largest)) {
    const uint8_t above = format.has_infinity ? static_cast<uint8_t>(format.largest + 1) : format.nan;
    return negative && format.nan != 0x80 ? above | 0x80 : above;
  }
  const auto low = static_cast<uint8_t>(code);
  if (low == 0 && !format.has_negative_zero) return 0;
  return negative ? low | 0x80 : low;
}

constexpr SmallFloat kE5M2{2, 15, 0x7F, 0x7B, true, true}, kE4M3FN{3, 7, 0x7F, 0x7E, false, true};
constexpr SmallFloat kE5M2FNUZ{2, 16, 0x80, 0x7F, false, false}, kE4M3FNUZ{3, 8, 0x80, 0x7F, false, false};

/// A power of two: the exponent of the value, rounded up from the half on.
uint8_t encode_exponent(double value) {
  if (value != value || value < 0 || std::isinf(value)) return 255;
  int exponent = 0;
  const double part = std::frexp(value, &exponent);  // 0.5 <= part < 1
  if (value == 0) return 0;
  const int code = exponent - 1 + 127 + (part >= 0.75 ? 1 : 0);
  return static_cast<uint8_t>(code < 0 ? 0 : code > 254 ? 255 : code);
}

template <class T> void put(unsigned char* at, T value) { std::memcpy(at, &value, sizeof value); }
template <class T> T as(const Number& value) {
  if (!value.is_whole) return converted<T>(value.real);
  return value.is_unsigned ? converted<T>(static_cast<uint64_t>(value.whole)) : converted<T>(value.whole);
}

}  // namespace

Number load_number(const unsigned char* at, int32_t dtype) {
  switch (dtype) {
    case kF64: return real_number(load<double>(at));
    case kF32: return real_number(load<float>(at));
    case kF16: return real_number(static_cast<double>(load<Half>(at)));
    case kBF16: return real_number(static_cast<float>(load<BFloat16>(at)));
    case kF8E4M3FN: return real_number(from_f8e4m3fn(at));
    case kF8E5M2: return real_number(from_f8e5m2(at));
    case kF8E4M3FNUZ: return real_number(from_f8e4m3fnuz(at));
    case kF8E5M2FNUZ: return real_number(from_f8e5m2fnuz(at));
    case kF8E8M0FNU: return real_number(from_f8e8m0fnu(at));
    case kI64: return whole_number(load<int64_t>(at));
    case kI32: return whole_number(load<int32_t>(at));
    case kI16: return whole_number(load<int16_t>(at));
    case kI8: return whole_number(load<int8_t>(at));
    case kU64: {
      Number found = whole_number(load<int64_t>(at));
      found.is_unsigned = true;
      return found;
    }
    case kU32: return whole_number(load<uint32_t>(at));
    case kU16: return whole_number(load<uint16_t>(at));
    case kU8: return whole_number(*at);
    case kBool: return whole_number(*at != 0 ? 1 : 0);
    case kC32: return {static_cast<double>(load<Half>(at)), static_cast<double>(load<Half>(at + 2)), 0, false, false};
    case kC64: return {load<float>(at), load<float>(at + 4), 0, false, false};
    case kC128: return {load<double>(at), load<double>(at + 8), 0, false, false};
    default: fail_dtype("a conversion", dtype);
  }
}

void store_number(unsigned char* at, int32_t dtype, const Number& value) {
  const auto real = [&] { return as<double>(value); };
  switch (dtype) {
    case kF64: return put(at, as<double>(value));
    case kF32: return put(at, as<float>(value));
    case kF16: return put(at, as<Half>(value));
    case kBF16: return put(at, as<BFloat16>(value));
    case kF8E4M3FN: *at = encode(as<float>(value), kE4M3FN); return;
    case kF8E5M2: *at = encode(as<float>(value), kE5M2); return;
    case kF8E4M3FNUZ: *at = encode(as<float>(value), kE4M3FNUZ); return;
    case kF8E5M2FNUZ: *at = encode(as<float>(value), kE5M2FNUZ); return;
    case kF8E8M0FNU: *at = encode_exponent(as<float>(value)); return;
    case kI64: return put(at, as<int64_t>(value));
    case kI32: return put(at, as<int32_t>(value));
    case kI16: return put(at, as<int16_t>(value));
    case kI8: return put(at, as<int8_t>(value));
    case kU64: return put(at, as<uint64_t>(value));
    case kU32: return put(at, as<uint32_t>(value));
    case kU16: return put(at, as<uint16_t>(value));
    case kU8: return put(at, as<uint8_t>(value));
    case kBool: *at = value.is_whole ? value.whole != 0 : real() != 0 || value.imaginary != 0; return;
    case kC32: return put(at, Complex<Half>{as<Half>(value), converted<Half>(value.imaginary)});
    case kC64: return put(at, Complex<float>{as<float>(value), converted<float>(value.imaginary)});
    case kC128: return put(at, Complex<double>{real(), value.imaginary});
    default: fail_dtype("a conversion", dtype);
  }
}

}  // namespace wir
