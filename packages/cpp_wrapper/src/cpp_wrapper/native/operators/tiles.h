// Inner kernels of matrix products: a tile of the result in registers, over panels of 16 columns.
#pragma once
#include <cstdint>
#include <type_traits>
#include <utility>
#if defined(__AVX512F__) || defined(__FMA__)
#include <immintrin.h>
#elif defined(__aarch64__)
#include <arm_neon.h>
#endif

namespace wir {
namespace {  // each file has its own: files of different instruction sets are linked together

/// Columns of a panel. A matrix of `k` rows and `n` columns is packed as ceil(n / 16) panels of k x 16 numbers, padded with
/// zeros.
constexpr int64_t kPanel = 16;

/// Bytes of a vector, and vectors of a tile: what fits the registers beside a row of the panels and one factor.
#if defined(__AVX512F__)
constexpr int kVectorBytes = 64, kTileVectors = 24, kTileRows = 8;
#elif defined(__AVX2__)
constexpr int kVectorBytes = 32, kTileVectors = 12, kTileRows = 6;
#elif defined(__aarch64__)
constexpr int kVectorBytes = 16, kTileVectors = 24, kTileRows = 6;
#else
constexpr int kVectorBytes = 16, kTileVectors = 12, kTileRows = 2;
#endif

template <class T> constexpr int kLanes = kVectorBytes / static_cast<int>(sizeof(T));
/// Vectors of one row of a panel.
template <class T> constexpr int kPanelVectors = static_cast<int>(kPanel) / kLanes<T>;
/// A vector at any address.
template <class T> using Lanes __attribute__((vector_size(kVectorBytes), aligned(alignof(T)), may_alias)) = T;

/// Panels of a tile with a number of rows: at most four, one of other types than float.
template <class T> constexpr int tile_panels(int rows) {
  if (!std::is_same_v<T, float>) return 1;
  const int panels = kTileVectors / (rows * kPanelVectors<T>);
  return panels > 4 ? 4 : panels < 1 ? 1 : panels;
}
/// Rows of the highest tile.
template <class T> constexpr int tile_rows() {
  const int rows = kTileVectors / kPanelVectors<T>;
  return rows > kTileRows ? kTileRows : rows < 1 ? 1 : rows;
}

/// Returns `factor * row + sum`, in one rounding if the instruction set has it.
template <class T, class Vector> inline Vector multiply_add(T factor, Vector row, Vector sum) { return sum + factor * row; }
#if defined(__AVX512F__)
inline Lanes<float> multiply_add(float factor, Lanes<float> row, Lanes<float> sum) {
  return (Lanes<float>)_mm512_fmadd_ps(_mm512_set1_ps(factor), (__m512)row, (__m512)sum);
}
inline Lanes<double> multiply_add(double factor, Lanes<double> row, Lanes<double> sum) {
  return (Lanes<double>)_mm512_fmadd_pd(_mm512_set1_pd(factor), (__m512d)row, (__m512d)sum);
}
#elif defined(__AVX2__) && defined(__FMA__)
inline Lanes<float> multiply_add(float factor, Lanes<float> row, Lanes<float> sum) {
  return (Lanes<float>)_mm256_fmadd_ps(_mm256_set1_ps(factor), (__m256)row, (__m256)sum);
}
inline Lanes<double> multiply_add(double factor, Lanes<double> row, Lanes<double> sum) {
  return (Lanes<double>)_mm256_fmadd_pd(_mm256_set1_pd(factor), (__m256d)row, (__m256d)sum);
}
#elif defined(__aarch64__)
inline Lanes<float> multiply_add(float factor, Lanes<float> row, Lanes<float> sum) {
  return (Lanes<float>)vfmaq_n_f32((float32x4_t)sum, (float32x4_t)row, factor);
}
#endif

/// Operands of a tile. Each row of `a` is contiguous. Element (p, j) of `b` is `b[j / 16 * panel_step + p * row_step + j % 16]`.
/// The tile starts with `init` (null: zeros; step 0: the same row for all), and is stored in `c`.
template <class T> struct Tile {
  const T* a;
  int64_t a_step;
  const T* b;
  int64_t panel_step, row_step, k;
  const T* init;
  int64_t init_step;
  T* c;
  int64_t c_step;
};

template <class T> using TileKernel = void (*)(const Tile<T>&);

template <class T, int kRows, int kPanels> void compute_tile(const Tile<T>& t) {
  constexpr int kWidth = kPanels * kPanelVectors<T>;
  Lanes<T> sums[kRows][kWidth];
#pragma GCC unroll 32
  for (int i = 0; i < kRows; ++i) {
#pragma GCC unroll 32
    for (int j = 0; j < kWidth; ++j) {
      sums[i][j] = t.init ? *reinterpret_cast<const Lanes<T>*>(t.init + i * t.init_step + j * kLanes<T>) : Lanes<T>{};
    }
  }
  const int64_t a_step = t.a_step, row_step = t.row_step;
  const T* a = t.a;
  const T* panels[4] = {t.b, t.b + t.panel_step, t.b + 2 * t.panel_step, t.b + 3 * t.panel_step};
  for (int64_t p = t.k; p > 0; --p) {
    Lanes<T> row[kWidth];
#pragma GCC unroll 32
    for (int j = 0; j < kWidth; ++j) {
      row[j] = *reinterpret_cast<const Lanes<T>*>(panels[j / kPanelVectors<T>] + j % kPanelVectors<T> * kLanes<T>);
    }
#pragma GCC unroll 32
    for (int i = 0; i < kRows; ++i) {
      const T factor = a[i * a_step];
#pragma GCC unroll 32
      for (int j = 0; j < kWidth; ++j) sums[i][j] = multiply_add(factor, row[j], sums[i][j]);
    }
    ++a;
#pragma GCC unroll 4
    for (int j = 0; j < kPanels; ++j) panels[j] += row_step;
  }
#pragma GCC unroll 32
  for (int i = 0; i < kRows; ++i) {
#pragma GCC unroll 32
    for (int j = 0; j < kWidth; ++j) *reinterpret_cast<Lanes<T>*>(t.c + i * t.c_step + j * kLanes<T>) = sums[i][j];
  }
}

/// Kernels by rows and panels, both counted from one; null where a tile would not fit the registers.
template <class T> struct TileKernels {
  TileKernel<T> by_size[kTileRows][4] = {};
  constexpr TileKernels() { add(std::make_integer_sequence<int, tile_rows<T>() * 4>()); }

 private:
  template <int... kIndices> constexpr void add(std::integer_sequence<int, kIndices...>) {
    (add_one<kIndices / 4 + 1, kIndices % 4 + 1>(), ...);
  }
  template <int kRows, int kPanels> constexpr void add_one() {
    if constexpr (kPanels <= tile_panels<T>(kRows)) by_size[kRows - 1][kPanels - 1] = compute_tile<T, kRows, kPanels>;
  }
};
template <class T> constexpr TileKernels<T> kTileKernels;

}  // namespace
}  // namespace wir
