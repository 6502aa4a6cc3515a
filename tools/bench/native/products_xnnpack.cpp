// Matrix products of XNNPACK, for tools/bench/bench_native_products.py.
#include <xnnpack.h>

#include <cmath>
#include <cstdint>

/// Packs weights; returns the operator, or null.
extern "C" void* open_xnnpack(int64_t k, int64_t n, const float* weights, const float* bias) {
  xnn_operator_t packed = nullptr;
  if (xnn_initialize(nullptr) != xnn_status_success) return nullptr;
  xnn_create_fully_connected_nc_f32(static_cast<size_t>(k), static_cast<size_t>(n), static_cast<size_t>(k), static_cast<size_t>(n),
                                    weights, bias, -INFINITY, INFINITY, XNN_FLAG_TRANSPOSE_WEIGHTS, &packed);
  return packed;
}

/// Computes bias + a @ packed, several times, in the caller's thread.
extern "C" void run_xnnpack(int64_t times, int64_t m, int64_t, int64_t, const float* a, void* packed, const float*, float* c) {
  const auto product = static_cast<xnn_operator_t>(packed);
  xnn_setup_fully_connected_nc_f32(product, static_cast<size_t>(m), a, c, nullptr);
  for (int64_t i = 0; i < times; ++i) xnn_run_operator(product, nullptr);
}

extern "C" void close_xnnpack(void* packed) { xnn_delete_operator(static_cast<xnn_operator_t>(packed)); }
