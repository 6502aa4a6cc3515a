// Products of matrices of bfloat16 of any strides, by the dot instruction: the right factor is packed, a few panels at a time.
#pragma once
#include "interleaved.h"
#include "row_pairs.h"

#ifdef WIR_HAS_DOTS
namespace wir {
namespace {

/// A matrix, with the steps between rows and columns in elements.
struct PairMatrix {
  const BFloat16* data;
  int64_t row, column;
};
/// The product of an m x k and a k x n matrix.
struct PairFactors {
  int64_t m, n, k;
  PairMatrix a, b;
};

/// Packs a panel of `columns` valid columns, with its rows in pairs.
inline void pack_pair_panel(const PairMatrix& b, int64_t k, int64_t columns, uint32_t* to) {
  constexpr int64_t kStep = 2 * kPanel;
  static_assert(kPanel == kWidth);
  int64_t p = 0;
  if (b.row == 1 && columns == kPanel) {
    for (; p + kStep <= k; p += kStep) {
      Floats block[kPanel];
#pragma GCC unroll 16
      for (int64_t j = 0; j < kPanel; ++j) block[j] = reinterpret_cast<Floats>(load_words(b.data + j * b.column + p));
      transpose_lanes(block);
#pragma GCC unroll 16
      for (int64_t j = 0; j < kPanel; ++j) store_words(to + (p / 2 + j) * kPanel, reinterpret_cast<WordLanes>(block[j]));
    }
  }
  for (; p < k; p += 2) {
    const BFloat16* low = b.data + p * b.row;
    join_rows(low, p + 1 < k ? low + b.row : nullptr, b.column, columns, to + p / 2 * kPanel);
  }
}

/// Computes a product; `finish` receives its tiles, as `SumsTile`.
template <class Finish> void multiply_pairs(const PairFactors& of, const Finish& finish) {
  constexpr int64_t kPackedWords = 1 << 15;  // they stay in the second-level cache
  const int64_t words = words_of(of.k), panels = parts_of(of.n, kPanel), tiles = parts_of(of.m, tile_rows<float>());
  const int64_t width = tile_panels<float>(static_cast<int>(parts_of(of.m, tiles)));
  const int64_t group = std::max<int64_t>(1, kPackedWords / std::max<int64_t>(1, words * kPanel * width)) * width;
  const bool in_place = of.a.column == 1 && of.k % 2 == 0;
  const int64_t step = in_place ? of.a.row * 2 : whole_vectors(words) * 4;
  const Scratch copied(in_place ? 0 : of.m * step);
  for (int64_t i = 0; !in_place && i < of.m; ++i) {
    copy_pairs(of.a.data + i * of.a.row, of.a.column, of.k, copied.as<unsigned char>() + i * step);
  }
  const auto* rows = in_place ? reinterpret_cast<const unsigned char*>(of.a.data) : copied.as<unsigned char>();
  split_product(panels, tiles, of.m * of.n * of.k, [&](const ProductPart& part) {
    const int64_t row = of.m * part.first_tile / tiles, end = of.m * part.last_tile / tiles;
    const Scratch packed(std::min(group, part.last_panel - part.first_panel) * words * kPanel * 4);
    auto* to = packed.as<uint32_t>();
    for (int64_t first = part.first_panel; first < part.last_panel; first += group) {
      const int64_t last = std::min(first + group, part.last_panel), column = first * kPanel;
      for (int64_t panel = first; panel < last; ++panel) {
        const PairMatrix from{of.b.data + panel * kPanel * of.b.column, of.b.row, of.b.column};
        pack_pair_panel(from, of.k, std::min(kPanel, of.n - panel * kPanel), to + (panel - first) * words * kPanel);
      }
      const InterleavedProduct product{end - row, std::min(of.n, last * kPanel) - column, of.k, rows + row * step, step, to};
      multiply_interleaved<BFloatDots>(product, 2, [&](SumsTile<float> tile) {
        tile.row += row, tile.column += column;
        finish(tile);
      });
    }
  });
}

}  // namespace
}  // namespace wir
#endif
