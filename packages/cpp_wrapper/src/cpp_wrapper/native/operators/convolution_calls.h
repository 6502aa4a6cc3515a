// What operators of convolutions share: arguments, layouts and element types.
#pragma once
#include "convolution.h"
#include "convolution_arguments.h"

namespace wir {

/// The operands of a convolution.
template <class T> struct Operands {
  Images<const T> input;
  Weights<T> weights;
  const T* bias;
  Images<T> result;
  Epilogue end = {};  // of float only
};

/// Returns whether torch's result is channels-last.
bool has_last_result(const Convolution& of, Tensor input, Tensor weight);
/// Returns a copy in float32, in the order of memory of the tensor.
Owned widened(Tensor tensor);
/// Returns whether an element type is computed in float32.
inline bool is_small(int32_t dtype) { return dtype == kBF16 || dtype == kF16; }

/// Returns a tensor as images; `Of` is its element type.
template <class T, class Of> Images<T> images_of(Tensor tensor) {
  const int64_t rank = tensor->rank, *strides = tensor->strides();
  Images<T> images{data_of<Of>(tensor), strides[0], strides[1], {0, 0, 0}};
  for (int64_t i = 2; i < rank; ++i) images.steps[3 - rank + i] = strides[i];
  return images;
}

/// Returns a tensor as weights of all groups.
template <class T> Weights<T> weights_of(const Convolution& of, Tensor weight) {
  const int64_t rank = weight->rank, *strides = weight->strides();
  Weights<T> made{data_of<T>(weight), false};
  made.row = strides[of.transposed ? 0 : 1], made.column = strides[of.transposed ? 1 : 0];
  made.group = strides[0] * (of.transposed ? of.in_channels : of.out_channels);
  for (int64_t i = 2; i < rank; ++i) made.steps[3 - rank + i] = strides[i];
  return made;
}

/// Calls `body` with the C++ type in which a convolution of a dtype is computed.
template <class Body> void with_type(int32_t dtype, const char* name, const Body& body) {
  switch (dtype) {
    case kF32: return body.template operator()<float>();
    case kF64: return body.template operator()<double>();
    default: integers(dtype, name, body);
  }
}

/// The type in which numbers of a type are summed: integers modulo 2^64.
template <class T> using Sum = std::conditional_t<std::is_integral_v<T>, uint64_t, T>;

/// Computes a convolution, into images of any layout. Only float has packed weights.
template <class T> void run(const Convolution& of, const Operands<T>& with);
/// Computes a convolution of tensors whose sizes have been checked. Small floats are computed in float32.
void run_tensors(const Convolution& of, Tensor input, Tensor weight, Tensor bias, Tensor out, const char* name);

}  // namespace wir
