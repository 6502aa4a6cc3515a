// Integers with checked arithmetic: `Int` for sizes and arguments, `Wide` for intermediate results beyond 64 bits.
#pragma once
#include <cstdint>
#include <type_traits>

namespace wir {

[[noreturn, gnu::cold]] void fail_overflow();

#ifdef __SIZEOF_INT128__
__extension__ typedef __int128 Wider;
#else
using Wider = int64_t;
#endif
class Wide;

/// A size or an argument: an integer of 64 bits. Arithmetic fails beyond 64 bits.
class Int {
 public:
  constexpr Int() = default;
  template <class T, class = std::enable_if_t<std::is_integral_v<T> && sizeof(T) <= 8 && !std::is_same_v<T, bool>>>
  constexpr Int(T value) : value_(static_cast<int64_t>(value)) {}
  inline explicit Int(Wide value);
  constexpr explicit operator int64_t() const { return value_; }
  constexpr explicit operator double() const { return static_cast<double>(value_); }
  constexpr explicit operator bool() const { return value_ != 0; }
  friend Int operator+(Int a, Int b) {
    if (__builtin_add_overflow(a.value_, b.value_, &a.value_)) fail_overflow();
    return a;
  }
  friend Int operator-(Int a, Int b) {
    if (__builtin_sub_overflow(a.value_, b.value_, &a.value_)) fail_overflow();
    return a;
  }
  friend Int operator*(Int a, Int b) {
    if (__builtin_mul_overflow(a.value_, b.value_, &a.value_)) fail_overflow();
    return a;
  }
  friend Int operator-(Int a) { return Int(0) - a; }
  friend constexpr Int operator&(Int a, Int b) { return a.value_ & b.value_; }
  friend constexpr Int operator|(Int a, Int b) { return a.value_ | b.value_; }
  friend constexpr Int operator^(Int a, Int b) { return a.value_ ^ b.value_; }
  friend constexpr bool operator==(Int a, Int b) { return a.value_ == b.value_; }
  friend constexpr bool operator!=(Int a, Int b) { return a.value_ != b.value_; }
  friend constexpr bool operator<(Int a, Int b) { return a.value_ < b.value_; }
  friend constexpr bool operator<=(Int a, Int b) { return a.value_ <= b.value_; }
  friend constexpr bool operator>(Int a, Int b) { return a.value_ > b.value_; }
  friend constexpr bool operator>=(Int a, Int b) { return a.value_ >= b.value_; }

 private:
  int64_t value_ = 0;
};
static_assert(sizeof(Int) == sizeof(int64_t));
inline constexpr int64_t raw(Int value) { return static_cast<int64_t>(value); }

/// An intermediate result that may leave 64 bits: an integer of 128 bits if the compiler has them. Arithmetic fails beyond them.
class Wide {
 public:
  template <class T, class = std::enable_if_t<(std::is_integral_v<T> || std::is_same_v<T, Wider>) && !std::is_same_v<T, bool>>>
  constexpr Wide(T value) : value_(static_cast<Wider>(value)) {}
  constexpr Wide(Int value) : value_(static_cast<int64_t>(value)) {}
  constexpr explicit operator Wider() const { return value_; }
  constexpr explicit operator double() const { return static_cast<double>(value_); }
  constexpr explicit operator bool() const { return value_ != 0; }

 private:
  Wider value_;
};
inline constexpr Wider wide(Wide value) { return static_cast<Wider>(value); }
inline Int::Int(Wide value) : value_(static_cast<int64_t>(wide(value))) {
  if (value_ != wide(value)) [[unlikely]] fail_overflow();
}
inline Wide operator+(Wide a, Wide b) {
  Wider found = 0;
  if (__builtin_add_overflow(wide(a), wide(b), &found)) [[unlikely]] fail_overflow();
  return found;
}
inline Wide operator-(Wide a, Wide b) {
  Wider found = 0;
  if (__builtin_sub_overflow(wide(a), wide(b), &found)) [[unlikely]] fail_overflow();
  return found;
}
inline Wide operator*(Wide a, Wide b) {
  Wider found = 0;
  if (__builtin_mul_overflow(wide(a), wide(b), &found)) [[unlikely]] fail_overflow();
  return found;
}
inline Wide operator-(Wide a) { return Wide(0) - a; }
inline constexpr Wide operator&(Wide a, Wide b) { return wide(a) & wide(b); }
inline constexpr Wide operator|(Wide a, Wide b) { return wide(a) | wide(b); }
inline constexpr Wide operator^(Wide a, Wide b) { return wide(a) ^ wide(b); }
inline constexpr bool operator==(Wide a, Wide b) { return wide(a) == wide(b); }
inline constexpr bool operator!=(Wide a, Wide b) { return wide(a) != wide(b); }
inline constexpr bool operator<(Wide a, Wide b) { return wide(a) < wide(b); }
inline constexpr bool operator<=(Wide a, Wide b) { return wide(a) <= wide(b); }
inline constexpr bool operator>(Wide a, Wide b) { return wide(a) > wide(b); }
inline constexpr bool operator>=(Wide a, Wide b) { return wide(a) >= wide(b); }

}  // namespace wir
