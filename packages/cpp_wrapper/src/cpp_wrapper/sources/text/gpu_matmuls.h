// Matmuls on a CUDA device by cuBLASLt, which is opened by name.
#pragma once
#include <array>
#include <map>
#include <memory>

#include "gpu.h"

namespace wir {

/// What determines a matmul's algorithm: types, sizes, layouts, alignments.
using MatmulKey = std::array<int64_t, 23>;
struct PreparedMatmul;

/// cuBLASLt with a dedicated workspace, for calls of one stream, one at a time. Torch may free its own workspace while
/// graphs still use it.
class Matmuls {
 public:
  Matmuls();
  Matmuls(const Matmuls&) = delete;
  ~Matmuls();
  /// `out = beta * bias + alpha * first @ second`, batched for three dimensions. Returns an error, or "".
  const char* multiply(const Run& run, Tensor out, const Tensor* bias, Tensor first, Tensor second, double beta, double alpha);

 private:
  bool prepare(const Run& run);

  void* handle_ = nullptr;
  Tensor workspace_ = nullptr;
  std::map<MatmulKey, std::unique_ptr<PreparedMatmul>> prepared_;
};

}  // namespace wir
