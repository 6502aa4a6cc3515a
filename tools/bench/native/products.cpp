// Matrix products of the native runtime, for tools/bench/bench_native_products.py.
#include "interleaved.h"
#include "panels.h"

#include <cstdlib>

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

}  // extern "C"
