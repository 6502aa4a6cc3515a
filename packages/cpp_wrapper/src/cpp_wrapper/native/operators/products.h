// Products of tensors, for operators.
#pragma once
#include "memory.h"

namespace wir {

/// Operands of out = beta * self + alpha * a @ b. With beta = 0, `self` is not read; it may be null.
struct Operands {
  Tensor self, a, b;
  double beta = 1, alpha = 1;
  bool conjugates = false;  // of complex numbers: `a` is conjugated
};

/// Multiplies tensors of `rank` dimensions: matrices, or batches of them.
int32_t multiply_matrices(const char* name, Tensor out, const Operands& of, int64_t rank);
/// Multiplies a matrix, or a vector as its only row, with a vector.
int32_t multiply_vector(const char* name, Tensor out, const Operands& of);

}  // namespace wir
