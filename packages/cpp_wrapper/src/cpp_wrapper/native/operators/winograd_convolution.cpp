// Winograd's F(2 x 2, 3 x 3): a square of 2 x 2 results takes 16 products a channel instead of 36 (A. Lavin, S. Gray, "Fast
// algorithms for convolutional neural networks", 2015). All coefficients are 0, 1, -1 and 1/2, so errors are near those of the
// direct sum. Squares of 4 x 4 pixels and the weights are transformed; then each of the 16 numbers is a product of matrices.
#include "winograd_convolution.h"

#include "packers.h"
#include "tiles.h"

namespace wir {
namespace {

using V = Lanes<float>;
constexpr int kStep = kLanes<float>, kNumbers = 16;
/// Panels of output channels that pass together.
constexpr int kPanels = tile_panels<float>(tile_rows<float>()) > 1 ? 2 : 1;
/// Numbers of transformed squares that pass together: they stay in the second-level cache. Squares that pay for the transformed
/// weights.
constexpr int64_t kBlockNumbers = 1 << 18, kLeastSquares = 12, kLeastChannels = 32;

V load(const float* at) { return *reinterpret_cast<const V*>(at); }
void store(float* at, V value) { *reinterpret_cast<V*>(at) = value; }

/// What all parts of a convolution share. Squares are counted over all images.
struct Winograd {
  const Convolution& of;
  int64_t across, down, squares;  // squares of an image along the width and the height, and of all images
  int64_t padded[3];
  const float* input;  // padded
  const Weights<float>& weights;
  const float *scale, *bias;  // padded to whole panels; may be null
  const Epilogue& end;
  const Images<float>& result;
};

/// Transforms `count` squares of pixels from `first` on. Number `i` of square `s` and channel `c` is `to[(i * count + s) *
/// channels + c]`.
void transform_squares(const Winograd& with, int64_t first, int64_t count, float* to) {
  const int64_t channels = with.of.in_channels, row = with.padded[2] * channels;
  const auto transform = [&]<class T>(const float* from, float* at) {
    const auto get = [&](int y, int x) { return *reinterpret_cast<const T*>(from + y * row + x * channels); };
    T lines[4][4];
#pragma GCC unroll 4
    for (int x = 0; x < 4; ++x) {
      const T a = get(0, x), b = get(1, x), c = get(2, x), d = get(3, x);
      lines[0][x] = a - c, lines[1][x] = b + c, lines[2][x] = c - b, lines[3][x] = b - d;
    }
#pragma GCC unroll 4
    for (int y = 0; y < 4; ++y) {
      const T *l = lines[y], made[4] = {l[0] - l[2], l[1] + l[2], l[2] - l[1], l[1] - l[3]};
#pragma GCC unroll 4
      for (int x = 0; x < 4; ++x) *reinterpret_cast<T*>(at + (y * 4 + x) * count * channels) = made[x];
    }
  };
  parallel_for(count, 16, [&](int64_t begin, int64_t end) {
    for (int64_t s = begin; s < end; ++s) {
      const int64_t at = first + s, x = at % with.across, y = at / with.across % with.down, image = at / with.across / with.down;
      const float* from = with.input + (image * with.padded[1] + 2 * y) * row + 2 * x * channels;
      float* into = to + s * channels;
      int64_t c = 0;
      for (; c + kStep <= channels; c += kStep) transform.template operator()<V>(from + c, into + c);
      for (; c < channels; ++c) transform.template operator()<float>(from + c, into + c);
    }
  });
}

/// Transforms the weights of a panel. Number `i` of channel `c` is row `i * channels + c` of the result.
void transform_weights(int64_t channels, const float* panel, float* to) {
  const int64_t tap = channels * kPanel;
  for (int64_t i = 0; i < tap; i += kStep) {
    V lines[4][3];
#pragma GCC unroll 3
    for (int x = 0; x < 3; ++x) {
      const V a = load(panel + x * tap + i), b = load(panel + (3 + x) * tap + i), c = load(panel + (6 + x) * tap + i);
      const V sum = (a + c) * 0.5f, half = b * 0.5f;
      lines[0][x] = a, lines[1][x] = sum + half, lines[2][x] = sum - half, lines[3][x] = c;
    }
#pragma GCC unroll 4
    for (int y = 0; y < 4; ++y) {
      const V *l = lines[y], sum = (l[0] + l[2]) * 0.5f, half = l[1] * 0.5f, made[4] = {l[0], sum + half, sum - half, l[2]};
#pragma GCC unroll 4
      for (int x = 0; x < 4; ++x) store(to + (y * 4 + x) * tap + i, made[x]);
    }
  }
}

/// Returns the weights of a panel: packed ones, or packed into `room`.
const float* panel_of(const Winograd& with, int64_t panel, float* room) {
  const int64_t channels = with.of.in_channels, column = panel * kPanel,
                columns = std::min(kPanel, with.of.out_channels - column);
  const Weights<float>& w = with.weights;
  if (w.is_packed) return w.data + panel * 9 * channels * kPanel;
  for (int64_t tap = 0; tap < 9; ++tap) {
    const float* from = w.data + tap / 3 * w.steps[1] + tap % 3 * w.steps[2] + column * w.column;
    pack_panels(from, w.row, w.column, channels, columns, room + tap * channels * kPanel);
  }
  return room;
}

/// Writes the results of squares from their 16 products each, which are `step` numbers apart; those of squares are `next`.
void finish(const Winograd& with, int64_t first, int64_t count, int64_t panel, const float* products, int64_t next,
            int64_t step) {
  const int64_t column = panel * kPanel, columns = std::min(kPanel, with.of.out_channels - column);
  for (int64_t s = 0; s < count; ++s) {
    const int64_t at = first + s, x = at % with.across, y = at / with.across % with.down, image = at / with.across / with.down;
    alignas(64) float made[4][kPanel];
    for (int part = 0; part < kPanelVectors<float>; ++part) {
      const float* from = products + s * next + part * kStep;
      const V bias = with.bias ? load(with.bias + column + part * kStep) : V{};
      const V scale = with.scale ? load(with.scale + column + part * kStep) : V{} + 1.0f;
      V lines[2][4];
#pragma GCC unroll 4
      for (int i = 0; i < 4; ++i) {
        const V a = load(from + i * step), b = load(from + (4 + i) * step), c = load(from + (8 + i) * step),
                d = load(from + (12 + i) * step);
        lines[0][i] = a + b + c, lines[1][i] = b - c - d;
      }
#pragma GCC unroll 2
      for (int i = 0; i < 2; ++i) {
        const V* l = lines[i];
        store(made[2 * i] + part * kStep, (l[0] + l[1] + l[2]) * scale + bias);
        store(made[2 * i + 1] + part * kStep, (l[1] - l[2] - l[3]) * scale + bias);
      }
    }
    for (int64_t i = 0; i < 4; ++i) {
      const int64_t row = 2 * y + i / 2, place = 2 * x + i % 2;
      if (row >= with.of.axes[1].out || place >= with.of.axes[2].out) continue;
      const auto at = [&](const auto& of) { return image * of.image + row * of.steps[1] + place * of.steps[2] + column; };
      float* to = with.result.data + at(with.result);
      const float* residual = with.end.has_residual() ? with.end.residual.data + at(with.end.residual) : nullptr;
      if (columns == kPanel && with.end.is_short()) {
        for (int part = 0; part < kPanelVectors<float>; ++part) {
          V value = load(made[i] + part * kStep);
          if (residual) value += load(residual + part * kStep);
          store(to + part * kStep, clamped(value, V{} + with.end.low, V{} + with.end.high));
        }
        continue;
      }
      std::memcpy(to, made[i], static_cast<size_t>(columns) * sizeof(float));
      finish_numbers(with.end, residual, columns, to);
    }
  }
}

/// Computes the results of transformed squares for one or more panels of output channels.
void multiply_squares(const Winograd& with, int64_t first, int64_t count, int64_t panel, int64_t panels, const float* squares,
                      const float* weights) {
  constexpr int kRows = tile_rows<float>();
  alignas(64) float products[kNumbers * kRows * kPanels * kPanel];
  const int64_t channels = with.of.in_channels, tiles = (count + kRows - 1) / kRows, matrix = channels * kPanel;
  for (int64_t t = 0; t < tiles; ++t) {
    const int64_t begin = count * t / tiles, rows = count * (t + 1) / tiles - begin, step = panels * kPanel;
    for (int64_t i = 0; i < kNumbers; ++i) {
      const float* a = squares + (i * count + begin) * channels;
      kTileKernels<float>.by_size[rows - 1][panels - 1]({a, channels, weights + i * matrix, kNumbers * matrix, kPanel, channels,
                                                         nullptr, 0, products + i * kRows * step, step});
    }
    for (int64_t p = 0; p < panels; ++p) finish(with, first + begin, rows, panel + p, products + p * kPanel, step, kRows * step);
  }
}

}  // namespace

bool suits_winograd(const Convolution& of) {
  const Axis &z = of.axes[0], &y = of.axes[1], &x = of.axes[2];
  if (of.transposed || of.groups != 1 || z.in != 1 || z.kernel != 1 || z.out != 1) return false;
  for (const Axis* axis : {&y, &x}) {
    if (axis->kernel != 3 || axis->stride != 1 || axis->dilation != 1) return false;
  }
  const int64_t squares = of.batch * ((y.out + 1) / 2) * ((x.out + 1) / 2);
  return of.in_channels >= kLeastChannels && of.out_channels >= kLeastChannels && squares >= kLeastSquares;
}

void convolve_winograd(const Convolution& of, const Images<const float>& input, const Weights<float>& weights, const float* bias,
                       const Epilogue& end, const Images<float>& result) {
  constexpr int64_t kSize = sizeof(float);
  const Axis &y = of.axes[1], &x = of.axes[2];
  const int64_t channels = of.in_channels, panels = (of.out_channels + kPanel - 1) / kPanel;
  const int64_t across = (x.out + 1) / 2, down = (y.out + 1) / 2, squares = of.batch * across * down;
  const int64_t sizes[3] = {1, y.in, x.in}, before[3] = {0, y.padding, x.padding};
  const int64_t padded[3] = {1, std::max(2 * down + 2, y.padding + y.in), std::max(2 * across + 2, x.padding + x.in)};
  const int64_t most = std::max<int64_t>(kLeastSquares, kBlockNumbers / (kNumbers * channels)),
                blocks = (squares + most - 1) / most;
  const int64_t block = (squares + blocks - 1) / blocks;
  const Scratch image(of.batch * padded[1] * padded[2] * channels * kSize), transformed(kNumbers * block * channels * kSize);
  const Scratch biases(bias ? panels * kPanel * kSize : 0), scales(end.scale ? panels * kPanel * kSize : 0);
  pad_images(of.batch, channels, sizes, before, padded, input, image.as<float>());
  if (bias) pad_channels(1, of.out_channels, bias, biases.as<float>());
  if (end.scale) pad_channels(1, of.out_channels, end.scale, scales.as<float>());
  const Winograd with{of,
                      across,
                      down,
                      squares,
                      {1, padded[1], padded[2]},
                      image.as<float>(),
                      weights,
                      end.scale ? scales.as<float>() : nullptr,
                      bias ? biases.as<float>() : nullptr,
                      end,
                      result};
  for (int64_t b = 0; b < blocks; ++b) {
    const int64_t first = squares * b / blocks, count = squares * (b + 1) / blocks - first;
    transform_squares(with, first, count, transformed.as<float>());
    parallel_for((panels + kPanels - 1) / kPanels, 1, [&](int64_t begin, int64_t end) {
      const int64_t matrices = channels * kPanel * kNumbers;
      const Scratch own(kPanels * matrices * kSize), room(weights.is_packed ? 0 : 9 * channels * kPanel * kSize);
      for (int64_t panel = begin * kPanels; panel < std::min(panels, end * kPanels); panel += kPanels) {
        const int64_t width = std::min<int64_t>(kPanels, panels - panel);
        for (int64_t p = 0; p < width; ++p) {
          transform_weights(channels, panel_of(with, panel + p, room.as<float>()), own.as<float>() + p * matrices);
        }
        multiply_squares(with, first, count, panel, width, transformed.as<float>(), own.as<float>());
      }
    });
  }
}

}  // namespace wir
