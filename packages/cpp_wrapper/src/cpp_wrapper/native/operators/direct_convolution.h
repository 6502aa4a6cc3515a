// Convolutions in float32, except depthwise ones.
#pragma once
#include "convolution.h"

namespace wir {

/// Computes a convolution. `bias` may be null. Channels of the result are contiguous; images overlap no other operand.
void convolve(const Convolution& of, const Images<const float>& input, const Weights<float>& weights, const float* bias,
              const Epilogue& end, const Images<float>& result);

}  // namespace wir
