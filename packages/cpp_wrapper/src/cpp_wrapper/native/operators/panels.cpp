// Blocking and threads of matrix products; `tiles.h` has the inner kernels.
#include "panels.h"

namespace wir {
namespace {

/// Depth of a block: the panels of a tile stay in the second-level cache while the rows of `a` pass.
constexpr int64_t kDepth = 1024;
/// Most rows of products that copy nothing of their right factor: tiles, dot products, and sums of rows.
constexpr int64_t kUncopiedRows = 32, kDotRows = 4, kStretchRows = 1;

/// A tile of the result, and the step between rows of its sums.
struct Area {
  int64_t row, column, rows, columns, sums_step;
};

/// Writes `alpha * sums` to the valid columns of a tile of `c`, with the other terms of the first block.
template <class T>
[[gnu::noinline]] void finish(const Product<T>& of, const T* sums, const Area& area, bool is_first) {
  const int64_t columns = area.columns, column = area.column;
  for (int64_t i = 0; i < area.rows; ++i) {
    T* c = of.c + (area.row + i) * of.c_row + column;
    const T* from = sums + i * area.sums_step;
    const T beta = is_first ? of.beta : T{1};
    if (beta == T{0}) {
      for (int64_t j = 0; j < columns; ++j) c[j] = of.alpha * from[j];
    } else {
      for (int64_t j = 0; j < columns; ++j) c[j] = beta * c[j] + of.alpha * from[j];
    }
    if (is_first && of.bias) {
      for (int64_t j = 0; j < columns; ++j) c[j] += of.bias[column + j];
    }
  }
}

template <class T> void apply_relu(T* c, int64_t step, int64_t rows, int64_t columns) {
  for (int64_t i = 0; i < rows; ++i) {
    for (int64_t j = 0; j < columns; ++j) c[i * step + j] = c[i * step + j] < T{0} ? T{0} : c[i * step + j];
  }
}

/// A block of a product: `depth` of its `k` numbers from `begin` on, and columns of a group of panels.
struct Block {
  int64_t begin, depth, column, columns, panels;
};

/// Computes all rows of a block. `b`, `panel_step` and `row_step` are those of `Tile`.
template <class T>
void multiply_block(const Product<T>& of, const Block& block, const T* b, int64_t panel_step, int64_t row_step) {
  const bool is_first = block.begin == 0, is_whole = block.columns == block.panels * kPanel;
  const bool keeps = of.beta == T{1} && !of.bias;
  const bool direct = is_whole && of.alpha == T{1} && (!is_first || of.beta == T{0} || keeps);
  const int64_t tiles = parts_of(of.m, tile_rows<T>());
  Tile<T> tile{nullptr, of.a_row, b, panel_step, row_step, block.depth, nullptr, 0, nullptr, 0};
  alignas(64) T sums[kTileRows * 4 * kPanel];
  for (int64_t i = 0; i < tiles; ++i) {
    const int64_t row = of.m * i / tiles, rows = of.m * (i + 1) / tiles - row;
    T* c = of.c + row * of.c_row + block.column;
    tile.a = of.a + row * of.a_row + block.begin;
    const auto kernel = kTileKernels<T>.by_size[rows - 1][block.panels - 1];
    if (direct) {
      const bool adds = !is_first || keeps;
      tile.init = adds ? c : of.bias ? of.bias + block.column : nullptr;
      tile.init_step = adds ? of.c_row : 0;
      tile.c = c, tile.c_step = of.c_row;
      kernel(tile);
    } else {
      tile.c = sums, tile.c_step = block.panels * kPanel;
      kernel(tile);
      finish(of, sums, {row, block.column, rows, block.columns, tile.c_step}, is_first);
    }
    if (of.relu && block.begin + block.depth == of.k) apply_relu(c, of.c_row, rows, block.columns);
  }
}

/// Computes a product whose rows of `a` are contiguous.
template <class T> void multiply_rows(const Product<T>& of) {
  const int64_t panels = parts_of(of.n, kPanel), highest = parts_of(of.m, parts_of(of.m, tile_rows<T>()));
  const int64_t width = tile_panels<T>(static_cast<int>(highest)), groups = parts_of(panels, width);
  const int64_t parts = std::max<int64_t>(1, parts_of(of.k, kDepth)), depth = parts_of(of.k, parts);
  const bool packed = of.layout == Layout::kPanels;
  const bool in_place = !packed && !of.packer && of.b_column == 1 && of.m <= kUncopiedRows;
  Scratch scratch(packed ? 0 : depth * width * kPanel * static_cast<int64_t>(sizeof(T)));
  T* copied = scratch.as<T>();
  for (int64_t g = 0; g < groups; ++g) {
    const int64_t first = panels * g / groups, end = panels * (g + 1) / groups;
    Block block{0, 0, first * kPanel, std::min(of.n, end * kPanel) - first * kPanel, end - first};
    for (int64_t part = 0; part < parts; ++part) {
      block.begin = part * depth, block.depth = std::min(depth, of.k - block.begin);
      if (packed) {
        multiply_block(of, block, of.b + first * kPanel * of.k + block.begin * kPanel, of.k * kPanel, kPanel);
      } else if (in_place && block.columns == block.panels * kPanel) {
        multiply_block(of, block, of.b + block.begin * of.b_row + block.column, kPanel, of.b_row);
      } else if (of.packer) {
        of.packer(of, block.begin, of.first_column + block.column, block.depth, block.columns, copied);
        multiply_block(of, block, copied, block.depth * kPanel, kPanel);
      } else {
        const T* from = of.b + block.begin * of.b_row + block.column * of.b_column;
        pack_panels(from, of.b_row, of.b_column, block.depth, block.columns, copied);
        multiply_block(of, block, copied, block.depth * kPanel, kPanel);
      }
    }
  }
}

template <class T> T sum_lanes(const Lanes<T>& lanes) {
  T sum = lanes[0];
  for (int i = 1; i < kLanes<T>; ++i) sum += lanes[i];
  return sum;
}

/// Computes dot products of `kRows` rows of `a` with `kColumns` columns of `b`, both contiguous.
template <class T, int kRows, int kColumns> void dots(const Product<T>& of, int64_t row, int64_t column) {
  Lanes<T> sums[kRows][kColumns] = {};
  const T *a = of.a + row * of.a_row, *b = of.b + column * of.b_column;
  int64_t p = 0;
  for (; p + kLanes<T> <= of.k; p += kLanes<T>) {
#pragma GCC unroll 8
    for (int i = 0; i < kRows; ++i) {
      const Lanes<T> left = *reinterpret_cast<const Lanes<T>*>(a + i * of.a_row + p);
#pragma GCC unroll 8
      for (int j = 0; j < kColumns; ++j) sums[i][j] += left * *reinterpret_cast<const Lanes<T>*>(b + j * of.b_column + p);
    }
  }
  for (int i = 0; i < kRows; ++i) {
    for (int j = 0; j < kColumns; ++j) {
      T sum = sum_lanes<T>(sums[i][j]);
      for (int64_t q = p; q < of.k; ++q) sum += a[i * of.a_row + q] * b[j * of.b_column + q];
      finish(of, &sum, {row + i, column + j, 1, 1, 1}, true);
    }
  }
}

template <class T, int kRows> void dot_columns(const Product<T>& of, int64_t row) {
  int64_t column = 0;
  for (; column + 4 <= of.n; column += 4) dots<T, kRows, 4>(of, row, column);
  for (; column < of.n; ++column) dots<T, kRows, 1>(of, row, column);
}

/// Computes a product of few rows with a matrix whose columns are contiguous: no column is copied.
template <class T> void multiply_dots(const Product<T>& of) {
  int64_t row = 0;
  for (; row + 2 <= of.m; row += 2) dot_columns<T, 2>(of, row);
  if (row < of.m) dot_columns<T, 1>(of, row);
  if (of.relu) apply_relu(of.c, of.c_row, of.m, of.n);
}

/// Adds four rows of `b`, times a factor each, to the sums of their columns.
template <class T> void add_rows(const T* b, int64_t step, const T* factors, int64_t columns, T* sums) {
  int64_t j = 0;
  for (; j + kLanes<T> <= columns; j += kLanes<T>) {
    Lanes<T>& sum = *reinterpret_cast<Lanes<T>*>(sums + j);
    Lanes<T> next = sum;
#pragma GCC unroll 4
    for (int p = 0; p < 4; ++p) {
      next = multiply_add(factors[p], *reinterpret_cast<const Lanes<T>*>(b + p * step + j), next);
    }
    sum = next;
  }
  for (; j < columns; ++j) {
    for (int p = 0; p < 4; ++p) sums[j] += factors[p] * b[p * step + j];
  }
}

/// Computes a product of few rows with a matrix whose rows are contiguous: it is read once, in order, for a stretch of columns.
template <class T> void multiply_stretches(const Product<T>& of) {
  constexpr int64_t kStretch = 8192 / sizeof(T);
  alignas(64) T sums[kStretch];
  for (int64_t column = 0; column < of.n; column += kStretch) {
    const int64_t columns = std::min(kStretch, of.n - column);
    for (int64_t i = 0; i < of.m; ++i) {
      const T *factors = of.a + i * of.a_row, *b = of.b + column;
      std::fill_n(sums, columns, T{0});
      int64_t p = 0;
      for (; p + 4 <= of.k; p += 4) add_rows(b + p * of.b_row, of.b_row, factors + p, columns, sums);
      for (; p < of.k; ++p) {
        for (int64_t j = 0; j < columns; ++j) sums[j] += factors[p] * b[p * of.b_row + j];
      }
      finish(of, sums, {i, column, 1, columns, columns}, true);
    }
  }
  if (of.relu) apply_relu(of.c, of.c_row, of.m, of.n);
}

}  // namespace

template <class T> void multiply(const Product<T>& of) {
  if (of.m <= 0 || of.n <= 0) return;
  if (of.a_column == 1 || of.k <= 1) {
    const bool may_stay = of.layout == Layout::kStrided && !of.packer;
    if (may_stay && of.b_row == 1 && of.m <= kDotRows && of.k >= 4 * kLanes<T>) return multiply_dots(of);
    if (may_stay && of.b_column == 1 && of.m <= kStretchRows && of.n >= 4 * kPanel) return multiply_stretches(of);
    return multiply_rows(of);
  }
  // Rows of `a` that are not contiguous are copied, as many as stay in the second-level cache.
  const int64_t most = std::max<int64_t>(64, 65536 / of.k), rows = std::min(of.m, most);
  Scratch scratch(rows * of.k * static_cast<int64_t>(sizeof(T)));
  T* copied = scratch.as<T>();
  for (int64_t row = 0; row < of.m; row += rows) {
    Product<T> part = of;
    part.m = std::min(rows, of.m - row), part.a = copied, part.a_row = of.k, part.a_column = 1, part.c += row * of.c_row;
    for (int64_t p = 0; p < of.k; ++p) {
      const T* from = of.a + row * of.a_row + p * of.a_column;
      for (int64_t i = 0; i < part.m; ++i) copied[i * of.k + p] = from[i * of.a_row];
    }
    multiply(part);
  }
}

template <class T> void multiply_parallel(const Product<T>& of) {
  const int64_t panels = parts_of(of.n, kPanel), tiles = parts_of(of.m, tile_rows<T>());
  split_product(panels, tiles, of.m * of.n * of.k, [&](const ProductPart& at) {
    const int64_t column = at.first_panel * kPanel, row = of.m * at.first_tile / tiles;
    Product<T> part = of;
    part.m = of.m * at.last_tile / tiles - row, part.n = std::min(of.n, at.last_panel * kPanel) - column;
    part.a += row * of.a_row, part.c += row * of.c_row + column, part.first_column += column;
    if (!of.packer) part.b += of.layout == Layout::kPanels ? column * of.k : column * of.b_column;
    if (of.bias) part.bias += column;
    multiply(part);
  });
}

#define WIR_PRODUCTS_OF(T)                                                                                        \
  template void multiply<T>(const Product<T>&);                                                                   \
  template void multiply_parallel<T>(const Product<T>&);
WIR_PRODUCTS_OF(float)
WIR_PRODUCTS_OF(double)
WIR_PRODUCTS_OF(uint32_t)
WIR_PRODUCTS_OF(uint64_t)

}  // namespace wir
