// Reductions of elements, and checks of indices.
#include "indices.h"

namespace wir {

Reduce reduce_of(const char* text, const char* name) {
  const std::string given = text;
  if (given == "sum" || given == "add") return Reduce::kSum;
  if (given == "prod" || given == "multiply") return Reduce::kProduct;
  if (given == "mean") return Reduce::kMean;
  if (given == "amax") return Reduce::kLargest;
  if (given == "amin") return Reduce::kSmallest;
  fail_text("WIR927", {name, " failed: it has no reduction ", text});
}

void fail_index(const char* name, int64_t index, int64_t size) {
  fail_text("WIR927", {name, " failed: index ", index, " is out of bounds for ", size, " elements"});
}

int64_t load_index(const unsigned char* at, int32_t dtype) {
  if (dtype == kI64) return *reinterpret_cast<const int64_t*>(at);
  return dtype == kI32 ? *reinterpret_cast<const int32_t*>(at) : *at;
}
void require_indices(Tensor index, const char* name) {
  if (index->dtype != kI64 && index->dtype != kI32 && index->dtype != kU8) fail_dtype(name, index->dtype);
}

// --- combinations of elements

namespace {

template <class T> T combine(T a, T b, Reduce reduce) {
  if constexpr (is_small_float<T>) {
    return converted<T>(combine(static_cast<float>(a), static_cast<float>(b), reduce));
  } else {
    const bool is_first_nan = a != a, is_second_nan = b != b;
    switch (reduce) {
      case Reduce::kReplace: return b;
      case Reduce::kSum:
      case Reduce::kMean: return static_cast<T>(a + b);
      case Reduce::kProduct: return static_cast<T>(a * b);
      case Reduce::kLargest: return is_first_nan ? a : is_second_nan ? b : std::max(a, b);
      default: return is_first_nan ? a : is_second_nan ? b : std::min(a, b);
    }
  }
}

}  // namespace

Combine combine_of(int32_t dtype, const char* name) {
  Combine found = nullptr;
  if (dtype == kC64 || dtype == kC128) {
    const auto parts = [](auto* to, const auto* from, Reduce reduce) {
      if (reduce == Reduce::kReplace) {
        to[0] = from[0], to[1] = from[1];
      } else if (reduce == Reduce::kProduct) {
        const auto real = to[0] * from[0] - to[1] * from[1];
        to[1] = to[0] * from[1] + to[1] * from[0];
        to[0] = real;
      } else {
        to[0] += from[0], to[1] += from[1];
      }
    };
    if (dtype == kC64) {
      return [](unsigned char* to, const unsigned char* from, Reduce reduce) {
        decltype(parts){}(reinterpret_cast<float*>(to), reinterpret_cast<const float*>(from), reduce);
      };
    }
    return [](unsigned char* to, const unsigned char* from, Reduce reduce) {
      decltype(parts){}(reinterpret_cast<double*>(to), reinterpret_cast<const double*>(from), reduce);
    };
  }
  numbers_and_bool(dtype, name, [&]<class T>() {
    found = [](unsigned char* to, const unsigned char* from, Reduce reduce) {
      auto* target = reinterpret_cast<T*>(to);
      *target = combine(*target, *reinterpret_cast<const T*>(from), reduce);
    };
  });
  return found;
}

Number first_of(Reduce reduce, int32_t dtype) {
  const bool is_inexact = is_float(dtype) || is_complex(dtype);
  if (reduce == Reduce::kSum || reduce == Reduce::kMean) return {0, 0, 0, !is_inexact, false};
  if (reduce == Reduce::kProduct) return {1, 0, 1, !is_inexact, false};
  const bool lowest = reduce == Reduce::kLargest;
  const double infinity = std::numeric_limits<double>::infinity();
  if (is_inexact) return {lowest ? -infinity : infinity, 0, 0, false, false};
  if (dtype == kBool || dtype == kU8) return {0, 0, lowest ? 0 : dtype == kU8 ? 255 : 1, true, false};
  const int64_t bits = 8 * element_size(dtype) - 1;
  const auto largest = static_cast<int64_t>((uint64_t{1} << bits) - 1);
  return {0, 0, lowest ? -largest - 1 : largest, true, false};
}

void divide(unsigned char* at, int32_t dtype, int64_t count) {
  Number value = load_number(at, dtype);
  if (value.is_whole) {
    const int64_t rest = value.whole % count;
    value.whole = value.whole / count - (rest != 0 && rest < 0 ? 1 : 0);
  } else {
    value.real /= static_cast<double>(count), value.imaginary /= static_cast<double>(count);
  }
  store_number(at, dtype, value);
}

}  // namespace wir
