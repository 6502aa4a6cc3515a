// Matrix products of Eigen, for tools/bench/bench_native_products.py.
#define EIGEN_DONT_PARALLELIZE
#define EIGEN_NO_DEBUG
#include <Eigen/Core>

#include <cstdint>

/// Computes a @ weights, several times.
extern "C" void run_eigen(int64_t times, int64_t m, int64_t n, int64_t k, const float* a, const float* weights, const float*,
                          float* c) {
  using Matrix = Eigen::Matrix<float, Eigen::Dynamic, Eigen::Dynamic, Eigen::RowMajor>;
  const Eigen::Map<const Matrix> left(a, m, k), right(weights, k, n);
  Eigen::Map<Matrix> result(c, m, n);
  for (int64_t i = 0; i < times; ++i) result.noalias() = left * right;
}
