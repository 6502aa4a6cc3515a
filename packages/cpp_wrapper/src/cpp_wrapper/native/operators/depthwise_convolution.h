// Depthwise convolutions in float32.
#pragma once
#include "convolution.h"

namespace wir {

/// Computes a depthwise convolution of images whose channels are contiguous. Weights are packed; `bias` may be null.
void convolve_depthwise(const Convolution& of, const Images<const float>& input, const float* weights, const float* bias,
                        const Epilogue& end, const Images<float>& result);

}  // namespace wir
