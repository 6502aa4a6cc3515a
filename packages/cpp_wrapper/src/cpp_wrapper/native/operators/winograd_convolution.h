// Convolutions in float32 with kernels of 3 x 3, by Winograd's minimal filtering.
#pragma once
#include "convolution.h"

namespace wir {

/// Returns whether a convolution can be computed so, and is faster.
bool suits_winograd(const Convolution& of);
/// Computes a convolution as `convolve` does.
void convolve_winograd(const Convolution& of, const Images<const float>& input, const Weights<float>& weights, const float* bias,
                       const Epilogue& end, const Images<float>& result);

}  // namespace wir
