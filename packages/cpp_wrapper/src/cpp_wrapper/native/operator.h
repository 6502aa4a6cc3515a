// What files of operators include: tensors, memory, errors, element types and loops. An operator returns 0 or throws.
#pragma once
#include "container.h"
#include "memory.h"
#include "numbers.h"

#include <algorithm>
#include <atomic>
#include <cmath>
#include <cstring>
#include <exception>
#include <string>
#ifdef _OPENMP
#include <omp.h>
#endif

/// Declares or defines an operator, with the parameters of torch's C shim for its schema. C++ linkage: another type of a
/// parameter fails at link.
#define WIR_OPERATOR(name) int32_t WIR_LEVEL_NAME(wir_op_##name, WIR_LEVEL)
/// The end of the names of operators that are compiled for several instruction sets: `_0`, `_1`.
#ifndef WIR_LEVEL
#define WIR_LEVEL
#endif
#define WIR_LEVEL_NAME(name, level) WIR_LEVEL_JOIN(name, level)
#define WIR_LEVEL_JOIN(name, level) name##level
/// The name of an operator, to call it from another one.
#define WIR_OPERATOR_NAME(name) WIR_LEVEL_NAME(wir_op_##name, WIR_LEVEL)

namespace wir {

template <class T> T* data_of(Tensor tensor) { return reinterpret_cast<T*>(tensor->data()); }

// --- element types

/// Calls `body.operator()<T>()` with the C++ type of a dtype of the group; fails with the operator's name for others.
template <class Body> void floats(int32_t dtype, const char* name, const Body& body) {
  switch (dtype) {
    case kF32: return body.template operator()<float>();
    case kF64: return body.template operator()<double>();
#ifndef WIR_WITHOUT_SMALL_FLOATS  // no tensor of the program has them
    case kF16: return body.template operator()<Half>();
    case kBF16: return body.template operator()<BFloat16>();
#endif
    default: fail_dtype(name, dtype);
  }
}
template <class Body> void integers(int32_t dtype, const char* name, const Body& body) {
  switch (dtype) {
    case kI64: return body.template operator()<int64_t>();
    case kI32: return body.template operator()<int32_t>();
    case kI16: return body.template operator()<int16_t>();
    case kI8: return body.template operator()<int8_t>();
    case kU8: return body.template operator()<uint8_t>();
    default: fail_dtype(name, dtype);
  }
}
/// Integers and floats, without bool.
template <class Body> void reals(int32_t dtype, const char* name, const Body& body) {
  const bool is_float = dtype == kF32 || dtype == kF64 || dtype == kF16 || dtype == kBF16;
  return is_float ? floats(dtype, name, body) : integers(dtype, name, body);
}
/// Integers, floats and bool.
template <class Body> void numbers_and_bool(int32_t dtype, const char* name, const Body& body) {
  return dtype == kBool ? body.template operator()<bool>() : reals(dtype, name, body);
}

// --- threads

/// The first exception of the threads of a parallel region, which no exception may leave: memory that is missing.
class Carried {
 public:
  template <class Body> void call(const Body& body) noexcept {
    try {
      body();
    } catch (...) {
      if (!is_set_.exchange(true)) error_ = std::current_exception();
    }
  }
  void rethrow() const { if (error_ != nullptr) [[unlikely]] std::rethrow_exception(error_); }

 private:
  std::exception_ptr error_;
  std::atomic<bool> is_set_{false};
};

/// Calls `body(begin, end)` over parts of [0, count), in parallel if there are more than `grain` items and several threads.
/// If parts throw, throws the exception of one after all have ended.
template <class Body> void parallel_for(int64_t count, int64_t grain, const Body& body) {
#ifdef _OPENMP
  const int64_t threads = std::min<int64_t>(omp_get_max_threads(), (count + grain - 1) / grain);
  if (threads > 1 && !omp_in_parallel()) {
    Carried carried;
#pragma omp parallel num_threads(static_cast<int>(threads))
    {
      const int64_t team = omp_get_num_threads(), part = (count + team - 1) / team, begin = omp_get_thread_num() * part;
      if (begin < count) carried.call([&] { body(begin, std::min(count, begin + part)); });
    }
    return carried.rethrow();
  }
#endif
  if (count > 0) body(int64_t{0}, count);
}

}  // namespace wir
