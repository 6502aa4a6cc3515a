// Matrix products over plain pointers, for operators of this library.
#pragma once
#include "operator.h"
#include "packers.h"

namespace wir {

constexpr int64_t parts_of(int64_t count, int64_t size) { return (count + size - 1) / size; }

/// A thread's part of a product: panels of columns, and tiles of rows.
struct ProductPart {
  int64_t first_panel, last_panel, first_tile, last_tile;
};
/// Calls `body` for parts of a product of `work` multiplications, on the threads of OpenMP if that pays.
template <class Body> void split_product(int64_t panels, int64_t tiles, int64_t work, const Body& body) {
#ifdef _OPENMP
  constexpr int64_t kThreadWork = 1 << 18;
  const int64_t threads = omp_in_parallel() ? 1 : omp_get_max_threads();
  if (threads > 1 && work >= 2 * kThreadWork) {
    const auto longest = [&](int64_t count) { return parts_of(count, threads) * threads; };
    const bool by_panels = longest(panels) * tiles <= longest(tiles) * panels;
    const int64_t count = by_panels ? panels : tiles;
    parallel_for(count, std::max<int64_t>(1, kThreadWork * count / work), [&](int64_t begin, int64_t end) {
      body(by_panels ? ProductPart{begin, end, 0, tiles} : ProductPart{0, panels, begin, end});
    });
    return;
  }
#endif
  static_cast<void>(work);
  body(ProductPart{0, panels, 0, tiles});
}

/// Computes a product on the calling thread. T: float, double, uint32_t, uint64_t.
template <class T> void multiply(const Product<T>& product);
/// Computes a product on the threads of OpenMP if it is large enough and no parallel region is active.
template <class T> void multiply_parallel(const Product<T>& product);

}  // namespace wir
