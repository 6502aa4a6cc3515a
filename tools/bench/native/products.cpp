// Matrix products for tools/bench/bench_native_products.py: kernels of the native runtime, and libxsmm's if it is installed.
#include "interleaved.h"
#include "panels.h"

#include <cstdlib>
#if __has_include(<libxsmm.h>)
#include <libxsmm.h>
#define HAS_LIBXSMM 1
#endif

namespace wir {

Scratch::Scratch(int64_t nbytes) : data_(std::aligned_alloc(64, static_cast<size_t>(nbytes + 64) / 64 * 64)), before_(0) {}
Scratch::~Scratch() { std::free(data_); }

}  // namespace wir

using namespace wir;

extern "C" {

void pack_weights(const float* weights, int64_t k, int64_t n, float* packed) { pack_panels(weights, n, 1, k, n, packed); }

/// Computes bias + a @ packed, several times, and returns nothing: the caller measures.
void run_packed(int64_t times, int64_t m, int64_t n, int64_t k, const float* a, const float* packed, const float* bias,
                float* c) {
  Product<float> product{};
  product.m = m, product.n = n, product.k = k, product.a = a, product.a_row = k, product.a_column = 1;
  product.b = packed, product.layout = Layout::kPanels, product.bias = bias, product.c = c, product.c_row = n;
  for (int64_t i = 0; i < times; ++i) multiply_parallel(product);
}

/// As `run_packed`, with weights in rows, which each call packs.
void run_rows(int64_t times, int64_t m, int64_t n, int64_t k, const float* a, const float* weights, const float* bias,
              float* c) {
  Product<float> product{};
  product.m = m, product.n = n, product.k = k, product.a = a, product.a_row = k, product.a_column = 1;
  product.b = weights, product.b_row = n, product.b_column = 1, product.bias = bias, product.c = c, product.c_row = n;
  for (int64_t i = 0; i < times; ++i) multiply_parallel(product);
}

/// Runs `times` * 240 multiply-adds of whole vectors, in registers; returns the floating-point operations of one.
int64_t run_peak(int64_t times) {
  Lanes<float> sums[12] = {};
  const Lanes<float> row = Lanes<float>{} + 1.0f;
  for (int64_t i = 0; i < times * 20; ++i) {
#pragma GCC unroll 12
    for (int j = 0; j < 12; ++j) sums[j] = multiply_add(0.5f, row, sums[j]);
#pragma GCC unroll 12
    for (int j = 0; j < 12; ++j) asm volatile("" : "+v"(sums[j]));
  }
  return 2 * kLanes<float>;
}

#ifdef HAS_LIBXSMM
/// Computes a @ weights with blocks of libxsmm, whose matrices have columns: the result is transposed. Returns 0 if it has no
/// kernel.
int32_t run_libxsmm(int64_t times, int64_t m, int64_t n, int64_t k, const float* a, const float* weights, const float*,
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
          if (kernel == nullptr) return 0;
          kernel(weights + p * n + column, a + row * k + p, c + row * n + column);
        }
      }
    }
  }
  return 1;
}
#endif

}  // extern "C"
