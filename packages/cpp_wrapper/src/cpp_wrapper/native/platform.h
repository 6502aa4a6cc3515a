// What only one of the runtimes has: the native one has no dispatcher, and no memory of process groups.
#pragma once
#include "runtime.h"

int32_t wir_op_addmm_out(Tensor out, Tensor self, Tensor mat1, Tensor mat2, double beta, double alpha);
int32_t wir_op_mm_out(Tensor out, Tensor self, Tensor mat2);

namespace wir {

inline void addmm(Tensor out, Tensor self, Tensor mat1, Tensor mat2, double beta, double alpha) {
  wir_op_addmm_out(out, self, mat1, mat2, beta, alpha);
}
inline void mm(Tensor out, Tensor mat1, Tensor mat2) { wir_op_mm_out(out, mat1, mat2); }

}  // namespace wir
