// Matrix products of libxsmm, for tools/bench/bench_native_products.py.
#include <libxsmm.h>

#include <algorithm>
#include <cstdint>

/// Computes a @ weights, several times, with blocks of libxsmm, whose matrices have columns: the result is transposed. Nothing
/// is computed if it has no kernel.
extern "C" void run_libxsmm(int64_t times, int64_t m, int64_t n, int64_t k, const float* a, const float* weights, const float*,
                            float* c) {
  constexpr int64_t kColumns = 64, kRows = 64, kDepth = 64;
  for (int64_t i = 0; i < times; ++i) {
    for (int64_t column = 0; column < n; column += kColumns) {
      for (int64_t p = 0; p < k; p += kDepth) {
        for (int64_t row = 0; row < m; row += kRows) {
          const int columns = static_cast<int>(std::min(kColumns, n - column)), rows = static_cast<int>(std::min(kRows, m - row));
          const int depth = static_cast<int>(std::min(kDepth, k - p)), lda = static_cast<int>(n), ldb = static_cast<int>(k);
          const float alpha = 1, beta = p == 0 ? 0 : 1;
          const auto kernel = libxsmm_smmdispatch(columns, rows, depth, &lda, &ldb, &lda, &alpha, &beta, nullptr, nullptr);
          if (kernel == nullptr) return;
          kernel(weights + p * n + column, a + row * k + p, c + row * n + column);
        }
      }
    }
  }
}
