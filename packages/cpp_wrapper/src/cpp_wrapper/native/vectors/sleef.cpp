// Vector functions by the names that torch's headers (`at::vec`) call, for the unit's instruction set.
//
// Kernels declare them as Sleef's; here they are the library's own. `_u10` promises an error of at most 1.0 units in the
// last place, `_u35` 3.5. Without vector instructions, kernels call libm and the unit is empty.
#include "vector_double.h"
#include "vector_math.h"

#if defined(__AVX512F__)
#define WIR_F f16
#define WIR_D d8
#elif defined(__AVX2__) && defined(__FMA__)
#define WIR_F f8
#define WIR_D d4
#elif defined(__aarch64__)
#define WIR_F f4
#define WIR_D d2
#endif

#ifdef WIR_F

#define WIR_JOIN(name, lanes, error) Sleef_##name##lanes##error
#define WIR_NAME(name, lanes, error) WIR_JOIN(name, lanes, error)
#define WIR_EXPORT extern "C" [[gnu::visibility("hidden")]]
#define WIR_ONE(name, error, function)                                                       \
  WIR_EXPORT Floats WIR_NAME(name, WIR_F, error)(Floats x) { return vec::function(x); } \
  WIR_EXPORT Doubles WIR_NAME(name, WIR_D, error)(Doubles x) { return vec::function(x); }
#define WIR_TWO(name, error, function)                                                                    \
  WIR_EXPORT Floats WIR_NAME(name, WIR_F, error)(Floats x, Floats y) { return vec::function(x, y); } \
  WIR_EXPORT Doubles WIR_NAME(name, WIR_D, error)(Doubles x, Doubles y) { return vec::function(x, y); }

namespace wir {
namespace {
using vec::Doubles;
using vec::Floats;
template <class V> struct SinCos { V sine, cosine; };
}  // namespace

WIR_ONE(exp, _u10, exp)
WIR_ONE(exp2, _u10, exp2)
WIR_ONE(expm1, _u10, expm1)
WIR_ONE(log, _u10, log)
WIR_ONE(log2, _u10, log2)
WIR_ONE(log10, _u10, log10)
WIR_ONE(log1p, _u10, log1p)
WIR_ONE(sin, _u10, sin)
WIR_ONE(cos, _u10, cos)
WIR_ONE(tan, _u10, tan)
WIR_ONE(asin, _u10, asin)
WIR_ONE(acos, _u10, acos)
WIR_ONE(atan, _u10, atan)
WIR_ONE(sinh, _u10, sinh)
WIR_ONE(cosh, _u10, cosh)
WIR_ONE(tanh, _u10, tanh)
WIR_ONE(asinh, _u10, asinh)
WIR_ONE(acosh, _u10, acosh)
WIR_ONE(atanh, _u10, atanh)
WIR_ONE(erf, _u10, erf)
WIR_ONE(erfc, _u15, erfc)
WIR_ONE(lgamma, _u10, lgamma)
WIR_TWO(pow, _u10, pow)
WIR_TWO(atan2, _u10, atan2)
WIR_TWO(hypot, _u05, hypot)
WIR_TWO(fmod, , fmod)
WIR_TWO(nextafter, , nextafter)
WIR_TWO(copysign, , copysign)
WIR_EXPORT Floats WIR_NAME(sin, WIR_F, _u35)(Floats x) { return vec::sin_fast(x); }
WIR_EXPORT Floats WIR_NAME(cos, WIR_F, _u35)(Floats x) { return vec::cos_fast(x); }
WIR_EXPORT SinCos<Floats> WIR_NAME(sincos, WIR_F, _u10)(Floats x) { return {vec::sin(x), vec::cos(x)}; }
WIR_EXPORT SinCos<Doubles> WIR_NAME(sincos, WIR_D, _u10)(Doubles x) { return {vec::sin(x), vec::cos(x)}; }

}  // namespace wir
#endif
