// Matmuls of float32 on a CPU: small ones call BLAS as torch does, without torch's overhead.
#include "container.h"
#include "matrices.h"
#include "platform.h"

#include <climits>
#include <cstring>

extern "C" {
int32_t aoti_torch_cpu_addmm_out(AtenTensorHandle out, AtenTensorHandle self, AtenTensorHandle mat1, AtenTensorHandle mat2, double beta, double alpha);
int32_t aoti_torch_cpu_mm_out(AtenTensorHandle out, AtenTensorHandle self, AtenTensorHandle mat2);
/// BLAS of torch's library. Its integers have 32 or 64 bits; small ones of 64 bits can be read as either.
__attribute__((weak)) void sgemm_(const char* transa, const char* transb, const int64_t* m, const int64_t* n, const int64_t* k,
                                  const float* alpha, const float* a, const int64_t* lda, const float* b, const int64_t* ldb,
                                  const float* beta, float* c, const int64_t* ldc);
}

namespace wir {
namespace {

/// Supported versions: aten/src/ATen/native/LinearAlgebra.cpp and CPUBlas.cpp, which this follows, are the same.
constexpr uint64_t kOldest = 2ull << 56 | 11ull << 48, kNewest = 2ull << 56 | 16ull << 48;
/// From this size on torch copies in parallel, and its overhead is small.
constexpr int64_t kSmall = 32768;
/// Up to this size torch computes in full precision for any setting.
constexpr int64_t kTiny = 16 * 16 * 16;

bool is_known() {
#if defined(__x86_64__)
  static const bool known = &sgemm_ != nullptr && knows_precision() &&
                            aoti_torch_abi_version() >= kOldest && aoti_torch_abi_version() < kNewest;
  return known;
#else
  return false;  // torch tries oneDNN first
#endif
}

bool is_full_precision() {
  const Precision set = matmul_precision(Backend::kMkldnn);
  return set == Precision::kNone || set == Precision::kIeee || set == Precision::kDefault;
}

using Matrix = MatrixOf<float>;

/// Returns the layout of a matrix, or of a vector as a row if allowed.
bool read_matrix(Tensor tensor, Matrix& made, bool may_be_row = false) {
  const auto [rank, sizes, strides] = Dims(tensor);
  const bool is_row = may_be_row && rank == 1;
  if (rank != 2 && !is_row) return false;
  made = {nullptr, is_row ? 1 : sizes[0], sizes[rank - 1], is_row ? 0 : strides[0], strides[rank - 1]};
  return true;
}
float* numbers_of(Tensor tensor) { return static_cast<float*>(data(tensor)); }

/// Copies `bias` into `out` with broadcasting. Returns false if torch must do it.
bool fill(const Matrix& out, const Matrix& bias) {
  const int64_t width = out.columns, step = bias.rows == 1 ? 0 : bias.row_stride;
  if ((bias.rows != 1 && bias.rows != out.rows) || bias.columns != width || out.column_stride != 1 || step < 0) return false;
  if (bias.column_stride != 1 && width != 1) return false;
  const auto begin = [](const Matrix& one) { return reinterpret_cast<uintptr_t>(one.data); };
  const auto end = [width](const Matrix& one, int64_t rows, int64_t stride) {
    return reinterpret_cast<uintptr_t>(one.data + (rows - 1) * stride + width);
  };
  if (begin(bias) < end(out, out.rows, out.row_stride) && begin(out) < end(bias, out.rows, step)) return false;
  for (int64_t i = 0; i < out.rows; ++i) {
    std::memcpy(out.data + i * out.row_stride, bias.data + i * step, static_cast<size_t>(width) * sizeof(float));
  }
  return true;
}

/// Computes `out = beta * bias + alpha * first @ second`. Returns false if torch must do it.
bool multiply(Tensor to, const Tensor* bias, Tensor mat1, Tensor mat2, float beta, float alpha) {
  Matrix out, first, second, added;
  if (!is_known() || !read_matrix(to, out) || !read_matrix(mat1, first) || !read_matrix(mat2, second)) return false;
  int64_t m = out.rows, n = out.columns, k = first.columns;
  if (first.rows != m || second.rows != k || second.columns != n || m < 1 || n < 1 || k < 1) return false;
  if (m >= kSmall || n >= kSmall || k > INT_MAX || m * n >= kSmall) return false;
  if (m * n * k > kTiny && !is_full_precision()) return false;
  const bool copies = bias != nullptr && beta != 0;
  if (copies && !read_matrix(*bias, added, true)) return false;
  out.data = numbers_of(to), first.data = numbers_of(mat1), second.data = numbers_of(mat2);
  Matrix c = out, a = first, b = second;
  if (!c.is_written()) {
    c = out.transposed(), a = second.transposed(), b = first.transposed();
    std::swap(m, n);
  }
  const Factor how_a = read_factor(a), how_b = read_factor(b);
  const int64_t ldc = n == 1 ? m : c.column_stride;
  if (!c.is_written() || how_a.how == 0 || how_b.how == 0 || std::max({how_a.leading, how_b.leading, ldc}) > INT_MAX) return false;
  if (copies) added.data = numbers_of(*bias);
  if (copies && !fill(out, added)) return false;
  sgemm_(&how_a.how, &how_b.how, &m, &n, &k, &alpha, a.data, &how_a.leading, b.data, &how_b.leading, &beta, c.data, &ldc);
  return true;
}

}  // namespace

void addmm(Tensor out, Tensor self, Tensor mat1, Tensor mat2, double beta, double alpha) {
  if (multiply(out, &self, mat1, mat2, static_cast<float>(beta), static_cast<float>(alpha))) return;
  ok(aoti_torch_cpu_addmm_out(out, self, mat1, mat2, beta, alpha), "aten::addmm.out");
}

void mm(Tensor out, Tensor mat1, Tensor mat2) {
  if (multiply(out, nullptr, mat1, mat2, 0, 1)) return;
  ok(aoti_torch_cpu_mm_out(out, mat1, mat2), "aten::mm.out");
}

}  // namespace wir
