// Pointwise operators of several operands that Inductor leaves to the library: those over complex numbers, and a few others.
#include "pointwise.h"

namespace wir {
namespace {

/// The type in which numbers are added and multiplied.
template <class T> struct WorkOf { using Type = T; };
template <> struct WorkOf<Half> { using Type = float; };
template <> struct WorkOf<BFloat16> { using Type = float; };
template <class T> struct WorkOfInteger { using Type = uint64_t; };
template <class T> using Work = typename std::conditional_t<std::is_integral_v<T>, WorkOfInteger<T>, WorkOf<T>>::Type;
template <class T> Work<T> widened(T a) {
  if constexpr (is_small_float<T>) {
    return static_cast<float>(a);
  } else if constexpr (std::is_integral_v<T>) {
    return static_cast<uint64_t>(static_cast<int64_t>(a));
  } else {
    return a;
  }
}
template <class T, class Given> T narrowed(Given a) {
  if constexpr (is_small_float<T>) {
    return converted<T>(a);
  } else if constexpr (std::is_same_v<T, bool>) {
    return a != 0;
  } else {
    return static_cast<T>(a);
  }
}

struct Operands {
  Sizes sizes, strides;
  Owned first, second;
};
Operands operands_of(Tensor first, Tensor second, int32_t dtype, const char* name) {
  Operands made{broadcast(sizes_of(first), sizes_of(second), name), {}, as_type(first, dtype), as_type(second, dtype)};
  const Tensor both[] = {first, second};
  made.strides = dense_strides(made.sizes, both, 2);
  return made;
}

/// Calls `body(a, b)` for each pair of elements of the common type `dtype`.
template <class Body> Owned combined(Tensor first, Tensor second, int32_t dtype, int32_t result, const char* name, const Body& body) {
  const Operands operands = operands_of(first, second, dtype, name);
  Owned made = empty(operands.sizes, operands.strides, result);
  const Loop loop(operands.sizes, {made.get(), operands.first.get(), operands.second.get()});
  all_numbers(dtype, name, [&]<class T>() {
    loop.run([&](unsigned char* const* at, const int64_t* steps, int64_t count) {
      for (int64_t i = 0; i < count; ++i) {
        store(at[0] + i * steps[0], body(load<T>(at[1] + i * steps[1]), load<T>(at[2] + i * steps[2])));
      }
    });
  });
  return made;
}

/// A factor as a number of the type in which a sum is computed.
template <class T> Work<T> factor_of(double alpha) {
  if constexpr (std::is_integral_v<T>) {
    return static_cast<uint64_t>(static_cast<int64_t>(alpha));
  } else {
    return static_cast<Work<T>>(alpha);
  }
}

Owned sum_of(Tensor first, Tensor second, double alpha, const char* name) {
  const int32_t dtype = promoted(first, second);
  return combined(first, second, dtype, dtype, name, [&]<class T>(T a, T b) {
    return narrowed<T>(widened(a) + factor_of<T>(alpha) * widened(b));
  });
}
Owned product_of(Tensor first, Tensor second, const char* name) {
  const int32_t dtype = promoted(first, second);
  return combined(first, second, dtype, dtype, name, []<class T>(T a, T b) { return narrowed<T>(widened(a) * widened(b)); });
}
Owned quotient_of(Tensor first, Tensor second, const char* name) {
  int32_t dtype = promoted(first, second);
  if (!is_float(dtype) && !is_complex(dtype)) dtype = kF32;
  return combined(first, second, dtype, dtype, name, []<class T>(T a, T b) -> T {
    if constexpr (std::is_integral_v<T>) {
      return a;
    } else if constexpr (is_complex_type<T>) {
      return T(C(a) / C(b));
    } else {
      return narrowed<T>(widened(a) / widened(b));
    }
  });
}

/// Calls `body(element, number)` for a real number: callers pass integers only for floats and complex numbers.
template <class Body> Owned with_number(Tensor self, double number, const char* name, const Body& body) {
  const int32_t dtype = is_float(self->dtype) || is_complex(self->dtype) ? self->dtype : kF32;
  const Owned source = as_type(self, dtype);
  return mapped(source.get(), dtype, name, [&]<class T>(T a) { return narrowed<T>(body(widened(a), factor_of<T>(number))); });
}

template <class T> T power(T base, T exponent) {
  if constexpr (is_complex_type<T>) {
    return T(std::pow(C(base), C(exponent)));
  } else if constexpr (std::is_integral_v<T>) {
    if constexpr (std::is_signed_v<T>) {
      if (exponent < 0) return base == 1 ? 1 : base == -1 ? (exponent % 2 != 0 ? -1 : 1) : 0;
    }
    uint64_t result = 1, factor = static_cast<uint64_t>(static_cast<int64_t>(base));
    for (auto rest = static_cast<uint64_t>(exponent); rest != 0; rest >>= 1, factor *= factor) {
      if ((rest & 1) != 0) result *= factor;
    }
    return narrowed<T>(result);
  } else {
    return converted<T>(std::pow(converted<double>(base), converted<double>(exponent)));
  }
}

template <class T> T greatest_divisor(T a, T b) {
  if constexpr (std::is_integral_v<T> && !std::is_same_v<T, bool>) {
    auto first = static_cast<uint64_t>(static_cast<int64_t>(magnitude(a))), second = static_cast<uint64_t>(static_cast<int64_t>(magnitude(b)));
    while (second != 0) {
      const uint64_t rest = first % second;
      first = second;
      second = rest;
    }
    return static_cast<T>(first);
  } else {
    return a;
  }
}

/// A complex tensor of two real ones, by `body(a, b)`.
template <class Body> Owned paired(Tensor first, Tensor second, const char* name, const Body& body) {
  if (first->dtype != second->dtype || (first->dtype != kF32 && first->dtype != kF64)) fail_dtype(name, first->dtype);
  const Operands operands = operands_of(first, second, first->dtype, name);
  Owned made = empty(operands.sizes, operands.strides, first->dtype == kF32 ? kC64 : kC128);
  floats(first->dtype, name, [&]<class T>() {
    Loop(operands.sizes, {made.get(), first, second}).run([&](unsigned char* const* at, const int64_t* steps, int64_t count) {
      for (int64_t i = 0; i < count; ++i) {
        const C pair = body(converted<double>(load<T>(at[1] + i * steps[1])), converted<double>(load<T>(at[2] + i * steps[2])));
        store(at[0] + i * steps[0], Complex<T>{converted<T>(pair.real()), converted<T>(pair.imag())});
      }
    });
  });
  return made;
}

}  // namespace
}  // namespace wir

using namespace wir;

WIR_OPERATOR(add_Tensor)(Tensor self, Tensor other, double alpha, Tensor* ret0) {
  *ret0 = sum_of(self, other, alpha, "aten::add.Tensor").release();
  return 0;
}
WIR_OPERATOR(add_Scalar)(Tensor self, double other, double alpha, Tensor* ret0) {
  *ret0 = with_number(self, other * alpha, "aten::add.Scalar", [](auto a, auto b) { return a + b; }).release();
  return 0;
}
WIR_OPERATOR(sub_Tensor)(Tensor self, Tensor other, double alpha, Tensor* ret0) {
  *ret0 = sum_of(self, other, -alpha, "aten::sub.Tensor").release();
  return 0;
}
WIR_OPERATOR(mul_Tensor)(Tensor self, Tensor other, Tensor* ret0) {
  *ret0 = product_of(self, other, "aten::mul.Tensor").release();
  return 0;
}
WIR_OPERATOR(mul_Scalar)(Tensor self, double other, Tensor* ret0) {
  *ret0 = with_number(self, other, "aten::mul.Scalar", [](auto a, auto b) { return a * b; }).release();
  return 0;
}
WIR_OPERATOR(div_Tensor)(Tensor self, Tensor other, Tensor* ret0) {
  *ret0 = quotient_of(self, other, "aten::div.Tensor").release();
  return 0;
}
WIR_OPERATOR(div_Scalar)(Tensor self, double other, Tensor* ret0) {
  *ret0 = with_number(self, other, "aten::div.Scalar", []<class A>(A a, A b) -> A {
            if constexpr (std::is_integral_v<A>) {
              return a;
            } else {
              return a / b;
            }
          }).release();
  return 0;
}
WIR_OPERATOR(pow_Tensor_Tensor)(Tensor self, Tensor exponent, Tensor* ret0) {
  const int32_t dtype = promoted(self, exponent);
  *ret0 = combined(self, exponent, dtype, dtype, "aten::pow.Tensor_Tensor", [](auto a, auto b) { return power(a, b); }).release();
  return 0;
}
WIR_OPERATOR(eq_Tensor)(Tensor self, Tensor other, Tensor* ret0) {
  *ret0 = combined(self, other, promoted(self, other), kBool, "aten::eq.Tensor",
                   [](auto a, auto b) { return widened(a) == widened(b); }).release();
  return 0;
}
WIR_OPERATOR(ne_Tensor)(Tensor self, Tensor other, Tensor* ret0) {
  *ret0 = combined(self, other, promoted(self, other), kBool, "aten::ne.Tensor",
                   [](auto a, auto b) { return widened(a) != widened(b); }).release();
  return 0;
}
WIR_OPERATOR(gcd)(Tensor self, Tensor other, Tensor* ret0) {
  constexpr const char* kName = "aten::gcd";
  const int32_t dtype = promoted(self, other);
  if (dtype == kBool || is_float(dtype) || is_complex(dtype)) fail_dtype(kName, dtype);
  *ret0 = combined(self, other, dtype, dtype, kName, [](auto a, auto b) { return greatest_divisor(a, b); }).release();
  return 0;
}

WIR_OPERATOR(complex)(Tensor real, Tensor imag, Tensor* ret0) {
  *ret0 = paired(real, imag, "aten::complex", [](double a, double b) { return C(a, b); }).release();
  return 0;
}
WIR_OPERATOR(polar)(Tensor abs, Tensor angle, Tensor* ret0) {
  *ret0 = paired(abs, angle, "aten::polar", [](double a, double b) { return C(a * std::cos(b), a * std::sin(b)); }).release();
  return 0;
}

WIR_OPERATOR(where_self)(Tensor condition, Tensor self, Tensor other, Tensor* ret0) {
  constexpr const char* kName = "aten::where.self";
  if (condition->dtype != kBool && condition->dtype != kU8) fail_dtype(kName, condition->dtype);
  const int32_t dtype = promoted(self, other);
  const Owned first = as_type(self, dtype), second = as_type(other, dtype);
  const Sizes sizes = broadcast(broadcast(sizes_of(condition), sizes_of(self), kName), sizes_of(other), kName);
  const Tensor operands[] = {condition, self, other};
  Owned made = empty(sizes, dense_strides(sizes, operands, 3), dtype);
  const auto size = static_cast<size_t>(element_size(dtype));
  Loop(sizes, {made.get(), condition, first.get(), second.get()})
      .run([&](unsigned char* const* at, const int64_t* steps, int64_t count) {
        for (int64_t i = 0; i < count; ++i) {
          const unsigned char* from = *(at[1] + i * steps[1]) != 0 ? at[2] + i * steps[2] : at[3] + i * steps[3];
          std::memcpy(at[0] + i * steps[0], from, size);
        }
      });
  *ret0 = made.release();
  return 0;
}
