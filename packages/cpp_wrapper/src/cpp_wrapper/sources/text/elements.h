// The elements of tensors as numbers, read from memory by element type.
#pragma once
#include <cmath>
#include <cstdint>
#include <cstring>
#include <limits>
#include <vector>

namespace wir {
namespace {

enum class NumberKind { kBool, kSigned, kUnsigned, kSingle, kDouble };

double infinity() { return std::numeric_limits<double>::infinity(); }
double not_a_number() { return std::numeric_limits<double>::quiet_NaN(); }

/// Decodes a binary float: a sign, an exponent and `bits` of mantissa in `code`.
double small_float(uint32_t code, int width, int bits, int bias) {
  const uint32_t sign = code >> (width - 1), low = code & ((1u << (width - 1)) - 1);
  const uint32_t exponent = low >> bits, mantissa = low & ((1u << bits) - 1);
  const double magnitude = exponent == 0 ? std::ldexp(mantissa, 1 - bias - bits)
                                         : std::ldexp(mantissa + (1u << bits), static_cast<int>(exponent) - bias - bits);
  return sign != 0 ? -magnitude : magnitude;
}

/// The same for formats whose largest exponent means infinities and NaN.
double ieee_float(uint32_t code, int width, int bits, int bias) {
  const uint32_t low = code & ((1u << (width - 1)) - 1), top = ((1u << (width - 1)) - 1) >> bits << bits;
  if (low > top) return not_a_number();
  if (low == top) return code >> (width - 1) != 0 ? -infinity() : infinity();
  return small_float(code, width, bits, bias);
}

template <class T> T load(const unsigned char* at) {
  T value;
  std::memcpy(&value, at, sizeof value);
  return value;
}

double from_f64(const unsigned char* at) { return load<double>(at); }
double from_f32(const unsigned char* at) { return load<float>(at); }
double from_f16(const unsigned char* at) { return ieee_float(load<uint16_t>(at), 16, 10, 15); }
double from_bf16(const unsigned char* at) {
  const uint32_t wide = static_cast<uint32_t>(load<uint16_t>(at)) << 16;
  return load<float>(reinterpret_cast<const unsigned char*>(&wide));
}
double from_f8e4m3fn(const unsigned char* at) { return (*at & 127) == 127 ? not_a_number() : small_float(*at, 8, 3, 7); }
double from_f8e5m2(const unsigned char* at) { return ieee_float(*at, 8, 2, 15); }
double from_f8e4m3fnuz(const unsigned char* at) { return *at == 128 ? not_a_number() : small_float(*at, 8, 3, 8); }
double from_f8e5m2fnuz(const unsigned char* at) { return *at == 128 ? not_a_number() : small_float(*at, 8, 2, 16); }
double from_f8e8m0fnu(const unsigned char* at) { return *at == 255 ? not_a_number() : std::ldexp(1.0, *at - 127); }
template <class T> double from_whole(const unsigned char* at) { return static_cast<double>(load<T>(at)); }
double from_bool(const unsigned char* at) { return *at != 0 ? 1.0 : 0.0; }

struct NumberType {
  const char* name;
  NumberKind kind;
  int64_t size;  // bytes of a number
  int parts;     // numbers in an element: 2 for complex ones
  double (*read)(const unsigned char*);
};

constexpr NumberType kTypes[] = {
    {"f64", NumberKind::kDouble, 8, 1, from_f64},
    {"f32", NumberKind::kSingle, 4, 1, from_f32},
    {"f16", NumberKind::kSingle, 2, 1, from_f16},
    {"bf16", NumberKind::kSingle, 2, 1, from_bf16},
    {"f8e4m3fn", NumberKind::kSingle, 1, 1, from_f8e4m3fn},
    {"f8e5m2", NumberKind::kSingle, 1, 1, from_f8e5m2},
    {"f8e4m3fnuz", NumberKind::kSingle, 1, 1, from_f8e4m3fnuz},
    {"f8e5m2fnuz", NumberKind::kSingle, 1, 1, from_f8e5m2fnuz},
    {"f8e8m0fnu", NumberKind::kSingle, 1, 1, from_f8e8m0fnu},
    {"f4e2m1fnx2", NumberKind::kSingle, 1, 1, from_f8e8m0fnu},  // unpacked before it is read
    {"i64", NumberKind::kSigned, 8, 1, from_whole<int64_t>},
    {"i32", NumberKind::kSigned, 4, 1, from_whole<int32_t>},
    {"i16", NumberKind::kSigned, 2, 1, from_whole<int16_t>},
    {"i8", NumberKind::kSigned, 1, 1, from_whole<int8_t>},
    {"u64", NumberKind::kUnsigned, 8, 1, from_whole<uint64_t>},
    {"u32", NumberKind::kUnsigned, 4, 1, from_whole<uint32_t>},
    {"u16", NumberKind::kUnsigned, 2, 1, from_whole<uint16_t>},
    {"u8", NumberKind::kUnsigned, 1, 1, from_whole<uint8_t>},
    {"bool", NumberKind::kBool, 1, 1, from_bool},
    {"c32", NumberKind::kSingle, 2, 2, from_f16},
    {"c64", NumberKind::kSingle, 4, 2, from_f32},
    {"c128", NumberKind::kDouble, 8, 2, from_f64},
};

/// The numbers of a tensor in row-major order.
struct Numbers {
  const NumberType* type;
  const unsigned char* data;
  int64_t count;
  std::vector<double> unpacked;  // numbers of half a byte

  const unsigned char* at(int64_t i) const { return data + i * type->size * type->parts; }
  double real(int64_t i) const { return unpacked.empty() ? type->read(at(i)) : unpacked[i]; }
  double imaginary(int64_t i) const { return type->parts == 1 ? 0.0 : type->read(at(i) + type->size); }
  bool is_nan(int64_t i) const { return std::isnan(real(i)) || std::isnan(imaginary(i)); }
  bool is_finite(int64_t i) const { return std::isfinite(real(i)) && std::isfinite(imaginary(i)); }
  int64_t whole(int64_t i) const {
    int64_t value = 0;
    std::memcpy(&value, at(i), type->size);
    const int unused = static_cast<int>(64 - 8 * type->size);
    const auto shifted = static_cast<uint64_t>(value) << unused;
    return type->kind == NumberKind::kSigned ? static_cast<int64_t>(shifted) >> unused : value;
  }
  double absolute(int64_t i) const {
    const double first = real(i), second = imaginary(i);
    return std::sqrt(first * first + second * second);
  }
  bool less(int64_t i, int64_t j) const {
    if (type->parts == 2) return absolute(i) < absolute(j);
    if (type->kind == NumberKind::kSigned) return whole(i) < whole(j);
    if (type->kind == NumberKind::kUnsigned) return static_cast<uint64_t>(whole(i)) < static_cast<uint64_t>(whole(j));
    return real(i) < real(j);
  }
};

}  // namespace
}  // namespace wir
