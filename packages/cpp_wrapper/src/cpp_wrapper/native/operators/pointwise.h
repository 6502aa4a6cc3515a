// What files of pointwise operators share: element types with complex ones, and conversions.
#pragma once
#include "layouts.h"

#include <complex>

namespace wir {

using C = std::complex<double>;
template <class T> inline constexpr bool is_complex_type = std::is_same_v<T, std::complex<float>> || std::is_same_v<T, C>;

/// Calls `body.operator()<T>()` with the type of elements, complex ones included.
template <class Body> void all_numbers(int32_t dtype, const char* name, const Body& body) {
  switch (dtype) {
    case kC64: return body.template operator()<std::complex<float>>();
    case kC128: return body.template operator()<std::complex<double>>();
    default: return numbers_and_bool(dtype, name, body);
  }
}

/// Returns the tensor in another element type, with sizes and order of dimensions as before.
inline Owned as_type(Tensor tensor, int32_t dtype) {
  if (tensor->dtype == dtype) return Owned(same(tensor));
  Owned made = empty_like(tensor, dtype);
  copy_into(made.get(), tensor);
  return made;
}

template <class T> T load(const unsigned char* at) { return *reinterpret_cast<const T*>(at); }
template <class T> void store(unsigned char* at, T value) { *reinterpret_cast<T*>(at) = value; }

/// Applies `body(T)` to each element, which returns a `Result`.
template <class Body> Owned mapped(Tensor self, int32_t result, const char* name, const Body& body) {
  Owned made = empty(sizes_of(self), dense_strides(sizes_of(self), &self, 1), result);
  const Loop loop(sizes_of(self), {made.get(), self});
  all_numbers(self->dtype, name, [&]<class T>() {
    loop.run([&](unsigned char* const* at, const int64_t* steps, int64_t count) {
      for (int64_t i = 0; i < count; ++i) store(at[0] + i * steps[0], body(load<T>(at[1] + i * steps[1])));
    });
  });
  return made;
}

/// The magnitude of a number; the smallest integer stays as it is.
template <class T> auto magnitude(T a) {
  if constexpr (is_complex_type<T>) {
    return std::abs(a);
  } else if constexpr (is_small_float<T>) {
    return converted<T>(std::fabs(static_cast<float>(a)));
  } else if constexpr (std::is_floating_point_v<T>) {
    return std::fabs(a);
  } else if constexpr (std::is_unsigned_v<T>) {
    return a;
  } else {
    using Unsigned = std::make_unsigned_t<T>;
    return a < 0 ? static_cast<T>(Unsigned{0} - static_cast<Unsigned>(a)) : a;
  }
}

}  // namespace wir
