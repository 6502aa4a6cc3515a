// Cumulative sums, products, extremes and logarithms of sums of exponentials along a dimension.
#include "layouts.h"

#include <complex>

namespace wir {
namespace {

constexpr int64_t kGrain = 1 << 14;  // elements for which a thread is worth it

/// The type in which a scan of elements of type `T` accumulates.
template <class T> struct AccumulatorOf { using Type = T; };
template <> struct AccumulatorOf<float> { using Type = double; };
template <> struct AccumulatorOf<Half> { using Type = float; };
template <> struct AccumulatorOf<BFloat16> { using Type = float; };
template <> struct AccumulatorOf<std::complex<float>> { using Type = std::complex<double>; };
template <class T> using Accumulator = typename AccumulatorOf<T>::Type;

/// Arithmetic of signed integers wraps.
template <class T, class Body> T wrapping(T a, T b, const Body& body) {
  if constexpr (std::is_integral_v<T> && sizeof(T) >= 4) {
    using Unsigned = std::make_unsigned_t<T>;
    return static_cast<T>(body(static_cast<Unsigned>(a), static_cast<Unsigned>(b)));
  } else {
    return static_cast<T>(body(a, b));
  }
}

/// Calls `body(line)` for all lines, in parallel.
template <class Body> void for_lines(const Lines& lines, const Body& body) {
  const int64_t grain = std::max<int64_t>(1, kGrain / std::max<int64_t>(lines.length(0), 1));
  parallel_for(lines.count(), grain, [&](int64_t begin, int64_t end) {
    for (int64_t line = begin; line < end; ++line) body(line);
  });
}

/// Writes `state = step(state, element)` for each element of each line of `dense` to `made`, which has its layout.
template <class T, class Step> void scan(Tensor dense, Tensor made, int64_t dim, Accumulator<T> first, const Step& step) {
  const Lines lines(dim, {dense, made});
  const int64_t from_stride = lines.stride<T>(0), to_stride = lines.stride<T>(1);
  for_lines(lines, [&](int64_t line) {
    const T* from = lines.line<T>(0, line);
    T* to = lines.line<T>(1, line);
    Accumulator<T> state = first;
    for (int64_t i = 0; i < lines.length(0); ++i) {
      state = step(state, static_cast<Accumulator<T>>(from[i * from_stride]));
      to[i * to_stride] = static_cast<T>(state);
    }
  });
}

/// The element type of a sum or product: integers become i64.
int32_t result_type(Tensor self, const int32_t* dtype) {
  if (dtype != nullptr) return *dtype;
  return is_float(self->dtype) || is_complex(self->dtype) ? self->dtype : kI64;
}

template <class Body> void summable(int32_t dtype, const char* name, const Body& body) {
  switch (dtype) {
    case kC64: return body.template operator()<std::complex<float>>();
    case kC128: return body.template operator()<std::complex<double>>();
    case kBool: return body.template operator()<bool>();
    default: return reals(dtype, name, body);
  }
}

Owned cumulate(Tensor self, int64_t dim, const int32_t* dtype, bool is_product, const char* name) {
  const int32_t type = result_type(self, dtype);
  dim = wrap_dim(dim, self->rank, name);
  const Owned source = self->dtype == type ? Owned(same(self)) : contiguous(self, type);
  Owned made = empty(sizes_of(self), type);
  if (self->count == 0) return made;
  summable(type, name, [&]<class T>() {
    using State = Accumulator<T>;
    if (is_product) {
      scan<T>(source.get(), made.get(), dim, State(1),
              [](State a, State b) { return wrapping(a, b, [](auto x, auto y) { return x * y; }); });
    } else {
      scan<T>(source.get(), made.get(), dim, State(0),
              [](State a, State b) { return wrapping(a, b, [](auto x, auto y) { return x + y; }); });
    }
  });
  return made;
}

template <class T> bool is_nan(T value) {
  if constexpr (is_small_float<T>) {
    return std::isnan(static_cast<float>(value));
  } else if constexpr (std::is_floating_point_v<T>) {
    return std::isnan(value);
  } else {
    return false;
  }
}
template <class T> auto comparable(T value) {
  if constexpr (is_small_float<T>) {
    return static_cast<float>(value);
  } else {
    return value;
  }
}

/// The extreme of the elements up to each one, and the index of the last element that has it.
template <bool kLargest> void scan_extremes(Tensor self, int64_t dim, const char* name, Tensor* ret0, Tensor* ret1) {
  dim = wrap_dim(dim, self->rank, name);
  Owned values = empty(sizes_of(self), self->dtype), indices = empty(sizes_of(self), kI64);
  if (self->count > 0) {
    const Lines lines(dim, {self, values.get(), indices.get()});
    numbers_and_bool(self->dtype, name, [&]<class T>() {
      for_lines(lines, [&](int64_t line) {
        const T* from = lines.line<T>(0, line);
        T* to = lines.line<T>(1, line);
        int64_t* at = lines.line<int64_t>(2, line);
        T best = from[0];
        int64_t found = 0;
        for (int64_t i = 0; i < lines.length(0); ++i) {
          const T value = from[i * lines.stride<T>(0)];
          const bool is_better = kLargest ? comparable(value) >= comparable(best) : comparable(value) <= comparable(best);
          if (is_nan(value) || (!is_nan(best) && is_better)) best = value, found = i;
          to[i * lines.stride<T>(1)] = best;
          at[i * lines.stride<int64_t>(2)] = found;
        }
      });
    });
  }
  *ret0 = values.release();
  *ret1 = indices.release();
}

/// Copies a result into `out`, which has its sizes and element type.
void copy_result(Tensor out, const Owned& made, const char* name) {
  if (sizes_of(out) != sizes_of(made.get())) fail_operator(name, "the result has another size");
  if (out->dtype != made->dtype) fail_operator(name, "the result has another element type");
  copy_into(out, made.get());
}

template <bool kLargest> void scan_extremes_into(Tensor values, Tensor indices, Tensor self, int64_t dim, const char* name) {
  Tensor made[2];
  scan_extremes<kLargest>(self, dim, name, &made[0], &made[1]);
  const Owned best(made[0]), at(made[1]);
  copy_result(values, best, name);
  copy_result(indices, at, name);
}

/// log(exp(a) + exp(b)) without overflow.
template <class T> T log_add_exp(T a, T b) {
  const T low = std::isnan(b) ? b : std::min(a, b), high = std::isnan(b) ? b : std::max(a, b);
  if (low == high && !std::isfinite(low)) return a;
  return std::log1p(std::exp(low - high)) + high;
}

/// exp(a) of a complex number whose real part may be infinite.
template <class R> std::complex<R> exponential(std::complex<R> a) {
  const R size = std::exp(a.real());
  if (size == 0) return {0, 0};
  if (a.imag() == 0) return {size, 0};
  return {size * std::cos(a.imag()), size * std::sin(a.imag())};
}

/// The same of complex numbers. Of infinitely small ones it returns the second.
template <class R> std::complex<R> log_add_exp(std::complex<R> a, std::complex<R> b) {
  constexpr R kNone = std::numeric_limits<R>::quiet_NaN();
  if (std::isnan(a.real() + a.imag()) || std::isnan(b.real() + b.imag())) return {kNone, kNone};
  const bool is_first = a.real() < b.real();
  const std::complex<R> low = is_first ? a : b, high = is_first ? b : a;
  if (low.real() == high.real() && std::isinf(low.real())) {
    return low.real() < 0 ? low : std::log(exponential(low) + exponential(high));
  }
  const std::complex<R> ratio = exponential(low - high);  // log(1 + ratio) keeps small ones
  const R squared = ratio.real() * (2 + ratio.real()) + ratio.imag() * ratio.imag();
  return std::complex<R>(std::log1p(squared) / 2, std::atan2(ratio.imag(), 1 + ratio.real())) + high;
}

Owned cumulate_logarithms(Tensor self, int64_t dim, const char* name) {
  dim = wrap_dim(dim, self->rank, name);
  Owned made = empty(sizes_of(self), self->dtype);
  const auto run = [&]<class T>() {
    using State = Accumulator<T>;
    if (self->count == 0) return;
    scan<T>(self, made.get(), dim, State(-std::numeric_limits<double>::infinity()),
            [](State state, State element) { return log_add_exp(element, state); });
  };
  switch (self->dtype) {
    case kC64: run.template operator()<std::complex<float>>(); break;
    case kC128: run.template operator()<std::complex<double>>(); break;
    default: floats(self->dtype, name, run);
  }
  return made;
}

}  // namespace
}  // namespace wir

using namespace wir;

WIR_OPERATOR(cumsum)(Tensor self, int64_t dim, int32_t* dtype, Tensor* ret0) {
  *ret0 = cumulate(self, dim, dtype, false, "aten::cumsum").release();
  return 0;
}

WIR_OPERATOR(cumsum_out)(Tensor out, Tensor self, int64_t dim, int32_t* dtype) {
  constexpr const char* kName = "aten::cumsum.out";
  copy_result(out, cumulate(self, dim, dtype != nullptr ? dtype : &out->dtype, false, kName), kName);
  return 0;
}

WIR_OPERATOR(cumprod)(Tensor self, int64_t dim, int32_t* dtype, Tensor* ret0) {
  *ret0 = cumulate(self, dim, dtype, true, "aten::cumprod").release();
  return 0;
}

WIR_OPERATOR(cumprod_out)(Tensor out, Tensor self, int64_t dim, int32_t* dtype) {
  constexpr const char* kName = "aten::cumprod.out";
  copy_result(out, cumulate(self, dim, dtype != nullptr ? dtype : &out->dtype, true, kName), kName);
  return 0;
}

WIR_OPERATOR(cummax)(Tensor self, int64_t dim, Tensor* ret0, Tensor* ret1) {
  scan_extremes<true>(self, dim, "aten::cummax", ret0, ret1);
  return 0;
}

WIR_OPERATOR(cummax_out)(Tensor values, Tensor indices, Tensor self, int64_t dim) {
  scan_extremes_into<true>(values, indices, self, dim, "aten::cummax.out");
  return 0;
}

WIR_OPERATOR(cummin)(Tensor self, int64_t dim, Tensor* ret0, Tensor* ret1) {
  scan_extremes<false>(self, dim, "aten::cummin", ret0, ret1);
  return 0;
}

WIR_OPERATOR(cummin_out)(Tensor values, Tensor indices, Tensor self, int64_t dim) {
  scan_extremes_into<false>(values, indices, self, dim, "aten::cummin.out");
  return 0;
}

WIR_OPERATOR(logcumsumexp)(Tensor self, int64_t dim, Tensor* ret0) {
  *ret0 = cumulate_logarithms(self, dim, "aten::logcumsumexp").release();
  return 0;
}

WIR_OPERATOR(logcumsumexp_out)(Tensor out, Tensor self, int64_t dim) {
  constexpr const char* kName = "aten::logcumsumexp.out";
  copy_result(out, cumulate_logarithms(self, dim, kName), kName);
  return 0;
}
