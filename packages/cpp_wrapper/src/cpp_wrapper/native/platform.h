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

// Torch's settings, which a native library does not have: matmuls of float32 use full precision.
enum class Backend : int32_t { kGeneric, kCuda, kMkldnn };
enum class Precision : int32_t { kNone, kIeee, kTf32, kBf16, kDefault };
inline constexpr bool knows_precision() { return false; }
inline constexpr Precision matmul_precision(Backend) { return Precision::kIeee; }
/// Opens the cuBLASLt of this name; null if there is none.
void* find_cublas(const char* name);

}  // namespace wir
