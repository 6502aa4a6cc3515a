// Pointwise operators of one operand that Inductor leaves to the library: those over complex numbers, and a few others.
#include "pointwise.h"

namespace wir {
namespace {

/// The functions of an operator, for complex numbers and for real ones.
struct Unary {
  C (*complex)(C);
  double (*real)(double);
};
C multiplicative_inverse(C a) { return 1.0 / a; }
C log1p(C a) {
  const double re = a.real(), im = a.imag();
  const double norm = re * (2 + re) + im * im;  // |1 + a|^2 - 1
  return {std::fabs(re) < 0.5 ? 0.5 * std::log1p(norm) : std::log(std::abs(1.0 + a)), std::atan2(im, 1 + re)};
}
C expm1(C a) {
  const double half = std::sin(a.imag() / 2), grown = std::expm1(a.real());
  return {grown * std::cos(a.imag()) - 2 * half * half, (grown + 1) * std::sin(a.imag())};
}

constexpr Unary kAcos{[](C a) { return std::acos(a); }, [](double a) { return std::acos(a); }};
constexpr Unary kAcosh{[](C a) { return std::acosh(a); }, [](double a) { return std::acosh(a); }};
constexpr Unary kAsin{[](C a) { return std::asin(a); }, [](double a) { return std::asin(a); }};
constexpr Unary kAsinh{[](C a) { return std::asinh(a); }, [](double a) { return std::asinh(a); }};
constexpr Unary kAtan{[](C a) { return std::atan(a); }, [](double a) { return std::atan(a); }};
constexpr Unary kAtanh{[](C a) { return std::atanh(a); }, [](double a) { return std::atanh(a); }};
constexpr Unary kCos{[](C a) { return std::cos(a); }, [](double a) { return std::cos(a); }};
constexpr Unary kCosh{[](C a) { return std::cosh(a); }, [](double a) { return std::cosh(a); }};
constexpr Unary kExp{[](C a) { return std::exp(a); }, [](double a) { return std::exp(a); }};
constexpr Unary kExpm1{expm1, [](double a) { return std::expm1(a); }};
constexpr Unary kLog{[](C a) { return std::log(a); }, [](double a) { return std::log(a); }};
constexpr Unary kLog10{[](C a) { return std::log10(a); }, [](double a) { return std::log10(a); }};
constexpr Unary kLog1p{log1p, [](double a) { return std::log1p(a); }};
constexpr Unary kLog2{[](C a) { return std::log(a) / std::log(2.0); }, [](double a) { return std::log2(a); }};
constexpr Unary kReciprocal{multiplicative_inverse, [](double a) { return 1 / a; }};
constexpr Unary kRsqrt{[](C a) { return 1.0 / std::sqrt(a); }, [](double a) { return 1 / std::sqrt(a); }};
constexpr Unary kSigmoid{[](C a) { return 1.0 / (1.0 + std::exp(-a)); }, [](double a) { return 1 / (1 + std::exp(-a)); }};
constexpr Unary kSin{[](C a) { return std::sin(a); }, [](double a) { return std::sin(a); }};
constexpr Unary kSinh{[](C a) { return std::sinh(a); }, [](double a) { return std::sinh(a); }};
constexpr Unary kSqrt{[](C a) { return std::sqrt(a); }, [](double a) { return std::sqrt(a); }};
constexpr Unary kTan{[](C a) { return std::tan(a); }, [](double a) { return std::tan(a); }};
constexpr Unary kTanh{[](C a) { return std::tanh(a); }, [](double a) { return std::tanh(a); }};

/// Applies a function; integers give f32.
Owned applied(Tensor self, const Unary& function, const char* name) {
  const bool is_inexact = is_float(self->dtype) || is_complex(self->dtype);
  const Owned source = as_type(self, is_inexact ? self->dtype : kF32);
  Owned made = empty(sizes_of(self), dense_strides(sizes_of(self), &self, 1), source->dtype);
  const Loop loop(sizes_of(self), {made.get(), source.get()});
  all_numbers(source->dtype, name, [&]<class T>() {
    loop.run([&](unsigned char* const* at, const int64_t* steps, int64_t count) {
      for (int64_t i = 0; i < count; ++i) {
        const T given = load<T>(at[1] + i * steps[1]);
        if constexpr (std::is_same_v<T, std::complex<float>> || std::is_same_v<T, C>) {
          store(at[0] + i * steps[0], T(function.complex(C(given))));
        } else {
          store(at[0] + i * steps[0], converted<T>(function.real(converted<double>(given))));
        }
      }
    });
  });
  return made;
}

int32_t part_type(int32_t dtype) { return dtype == kC64 ? kF32 : dtype == kC128 ? kF64 : dtype; }

template <class T> T negated(T a) {
  if constexpr (is_small_float<T>) {
    return converted<T>(-static_cast<float>(a));
  } else if constexpr (std::is_integral_v<T> && !std::is_same_v<T, bool>) {
    using Unsigned = std::make_unsigned_t<T>;
    return static_cast<T>(Unsigned{0} - static_cast<Unsigned>(a));
  } else {
    return -a;
  }
}
template <class T> T conjugated(T a) {
  if constexpr (is_complex_type<T>) {
    return std::conj(a);
  } else {
    return a;
  }
}

}  // namespace
}  // namespace wir

using namespace wir;

#define WIR_UNARY(name, function)                              \
  WIR_OPERATOR(name)(Tensor self, Tensor* ret0) {              \
    *ret0 = applied(self, function, "aten::" #name).release(); \
    return 0;                                                  \
  }
WIR_UNARY(acos, kAcos)
WIR_UNARY(acosh, kAcosh)
WIR_UNARY(asin, kAsin)
WIR_UNARY(asinh, kAsinh)
WIR_UNARY(atan, kAtan)
WIR_UNARY(atanh, kAtanh)
WIR_UNARY(cos, kCos)
WIR_UNARY(cosh, kCosh)
WIR_UNARY(exp, kExp)
WIR_UNARY(expm1, kExpm1)
WIR_UNARY(log, kLog)
WIR_UNARY(log10, kLog10)
WIR_UNARY(log1p, kLog1p)
WIR_UNARY(log2, kLog2)
WIR_UNARY(reciprocal, kReciprocal)
WIR_UNARY(rsqrt, kRsqrt)
WIR_UNARY(sigmoid, kSigmoid)
WIR_UNARY(sin, kSin)
WIR_UNARY(sinh, kSinh)
WIR_UNARY(sqrt, kSqrt)
WIR_UNARY(tan, kTan)
WIR_UNARY(tanh, kTanh)

WIR_OPERATOR(abs)(Tensor self, Tensor* ret0) {
  *ret0 = mapped(self, part_type(self->dtype), "aten::abs", [](auto a) { return magnitude(a); }).release();
  return 0;
}

WIR_OPERATOR(neg)(Tensor self, Tensor* ret0) {
  if (self->dtype == kBool) fail_dtype("aten::neg", self->dtype);
  *ret0 = mapped(self, self->dtype, "aten::neg", [](auto a) { return negated(a); }).release();
  return 0;
}

WIR_OPERATOR(_conj_physical)(Tensor self, Tensor* ret0) {
  *ret0 = mapped(self, self->dtype, "aten::_conj_physical", [](auto a) { return conjugated(a); }).release();
  return 0;
}

/// Torch's result is a view that conjugates when it is read; here it is a copy with the strides of the view.
WIR_OPERATOR(_conj)(Tensor self, Tensor* ret0) {
  Owned made = empty(sizes_of(self), strides_of(self), self->dtype);
  all_numbers(self->dtype, "aten::_conj", [&]<class T>() {
    Loop(sizes_of(self), {made.get(), self}).run([](unsigned char* const* at, const int64_t* steps, int64_t count) {
      for (int64_t i = 0; i < count; ++i) store(at[0] + i * steps[0], conjugated(load<T>(at[1] + i * steps[1])));
    });
  });
  *ret0 = made.release();
  return 0;
}

WIR_OPERATOR(angle)(Tensor self, Tensor* ret0) {
  const bool is_whole = !is_float(self->dtype) && !is_complex(self->dtype);
  const Owned source = as_type(self, is_whole ? kF32 : self->dtype);
  *ret0 = mapped(source.get(), part_type(source->dtype), "aten::angle", []<class T>(T a) {
            if constexpr (is_complex_type<T>) {
              return std::arg(a);
            } else {
              const auto wide = converted<double>(a);
              return converted<T>(wide != wide ? wide : wide < 0 ? 3.14159265358979323846 : 0.0);
            }
          }).release();
  return 0;
}
