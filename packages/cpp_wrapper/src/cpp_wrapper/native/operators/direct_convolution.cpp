// Convolutions as products of matrices whose left factor is never built: its rows are read from the image at each position of the
// kernel. Weights are panels of 16 output channels.
#include "direct_convolution.h"

#include "convolution_plan.h"
#include "packers.h"

namespace wir {
namespace {

/// Positions whose part of the image is read by all output channels before the next.
constexpr int64_t kPositions = 1024;
/// Numbers of the images that are padded together.
constexpr int64_t kPaddedNumbers = 1 << 21;
/// Multiplications that are worth a thread.
constexpr int64_t kThreadWork = 1 << 18;

// --- a tile

/// A tile of the result: rows are positions, columns those of one to four panels.
struct IndirectTile {
  const float* rows[kTileRows];
  const float* inits[kTileRows];  // null: zeros
  float* results[kTileRows];
  const float* residuals[kTileRows];  // null: zeros
  const float *scale, *bias;          // null: the sums stay
  bool clamps;
  float low, high;
  const Segment* segments;
  int64_t count;
  const float* panels;
  int64_t panel_step;
};

template <int kRows, int kPanels> void compute(const IndirectTile& t) {
  constexpr int kWidth = kPanels * kPanelVectors<float>, kParts = kPanelVectors<float>, kStep = kLanes<float>;
  using V = Lanes<float>;
  V sums[kRows][kWidth];
#pragma GCC unroll 32
  for (int i = 0; i < kRows; ++i) {
#pragma GCC unroll 32
    for (int j = 0; j < kWidth; ++j) sums[i][j] = t.inits[0] ? *reinterpret_cast<const V*>(t.inits[i] + j * kStep) : V{};
  }
  for (const Segment *s = t.segments, *end = s + t.count; s != end; ++s) {
    const float* rows[kRows];
#pragma GCC unroll 32
    for (int i = 0; i < kRows; ++i) rows[i] = t.rows[i] + s->offset;
    const float* panels[kPanels];
#pragma GCC unroll 4
    for (int j = 0; j < kPanels; ++j) panels[j] = t.panels + j * t.panel_step + s->row * kPanel;
    for (int64_t k = 0; k < s->length; ++k) {
      V row[kWidth];
#pragma GCC unroll 32
      for (int j = 0; j < kWidth; ++j) row[j] = *reinterpret_cast<const V*>(panels[j / kParts] + j % kParts * kStep);
#pragma GCC unroll 32
      for (int i = 0; i < kRows; ++i) {
        const float factor = rows[i][k];
#pragma GCC unroll 32
        for (int j = 0; j < kWidth; ++j) sums[i][j] = multiply_add(factor, row[j], sums[i][j]);
      }
#pragma GCC unroll 4
      for (int j = 0; j < kPanels; ++j) panels[j] += kPanel;
    }
  }
  const auto change = [&](const auto& next) {
#pragma GCC unroll 32
    for (int i = 0; i < kRows; ++i) {
#pragma GCC unroll 32
      for (int j = 0; j < kWidth; ++j) sums[i][j] = next(sums[i][j], i, j * kStep);
    }
  };
  const auto load = [](const float* at) { return *reinterpret_cast<const V*>(at); };
  if (t.scale) change([&](V sum, int, int j) { return sum * load(t.scale + j) + load(t.bias + j); });
  if (t.residuals[0]) change([&](V sum, int i, int j) { return sum + load(t.residuals[i] + j); });
  const V low = V{} + t.low, high = V{} + t.high;
  if (t.clamps) change([&](V sum, int, int) { return clamped(sum, low, high); });
  change([&](V sum, int i, int j) { return *reinterpret_cast<V*>(t.results[i] + j) = sum; });
}

using Kernel = void (*)(const IndirectTile&);
struct Kernels {
  Kernel by_size[kTileRows][4] = {};
  constexpr Kernels() { add(std::make_integer_sequence<int, tile_rows<float>() * 4>()); }

 private:
  template <int... kIndices> constexpr void add(std::integer_sequence<int, kIndices...>) {
    (add_one<kIndices / 4 + 1, kIndices % 4 + 1>(), ...);
  }
  template <int kRows, int kPanels> constexpr void add_one() {
    if constexpr (kPanels <= tile_panels<float>(kRows)) by_size[kRows - 1][kPanels - 1] = compute<kRows, kPanels>;
  }
};
constexpr Kernels kKernels;

// --- a sweep

/// What the tasks of a sweep share. Rows are positions of several images, one image after another.
struct Work {
  const Convolution& of;
  const Sweep& sweep;
  Images<const float> input;
  Images<float> result;
  const Weights<float>& weights;
  const float *scale, *bias;  // padded to whole panels, of one group after another; may be null
  const Epilogue& end;
  int64_t panels;     // of a group
  bool is_linear;     // rows of weights, not packed, have equal distances
};

/// The part of a task: some rows, and panels of a group.
struct Slice {
  int64_t begin, end, group, panel, panels;
};

/// Packs the weights of a block.
void pack(const Work& work, const Block& block, const Slice& part, float* to) {
  const Convolution& of = work.of;
  const Weights<float>& w = work.weights;
  const float* from = w.data + part.group * w.group;
  for (int64_t j = 0; j < part.panels; ++j, to += block.depth * kPanel) {
    const int64_t column = (part.panel + j) * kPanel, columns = std::min(kPanel, of.out_channels - column);
    for (int64_t i = 0; i < block.count; ++i) {
      const Segment& s = work.sweep.segments[static_cast<size_t>(block.first + i)];
      if (work.is_linear) {
        pack_panels(from + s.source * w.row + column * w.column, w.row, w.column, s.length, columns, to + s.row * kPanel);
        continue;
      }
      for (int64_t done = 0; done < s.length;) {
        const int64_t tap = (s.source + done) / of.in_channels, channel = (s.source + done) % of.in_channels;
        const int64_t x = tap % of.axes[2].kernel, y = tap / of.axes[2].kernel % of.axes[1].kernel;
        const int64_t z = tap / of.axes[2].kernel / of.axes[1].kernel;
        const int64_t count = std::min(s.length - done, of.in_channels - channel);
        const float* first = from + z * w.steps[0] + y * w.steps[1] + x * w.steps[2] + channel * w.row + column * w.column;
        pack_panels(first, w.row, w.column, count, columns, to + (s.row + done) * kPanel);
        done += count;
      }
    }
  }
}

/// A walk over positions: where each has its part of the image, its result, and its residual (null if there is none).
class Walk {
 public:
  Walk(const Work& work, const Slice& part) : work_(work), group_(part.group) {
    const int64_t* count = work.sweep.count;
    const int64_t per_image = count[0] * count[1] * count[2], rest = part.begin % per_image;
    image_ = part.begin / per_image, z_ = rest / (count[1] * count[2]), y_ = rest / count[2] % count[1], x_ = rest % count[2];
    go();
  }
  void next() {
    if (++x_ == work_.sweep.count[2]) {
      x_ = 0;
      if (++y_ == work_.sweep.count[1]) {
        y_ = 0;
        if (++z_ == work_.sweep.count[0]) z_ = 0, ++image_;
      }
      return go();
    }
    const int64_t step = work_.sweep.step[2];
    input += work_.sweep.in_step[2] * work_.input.steps[2], result += step * work_.result.steps[2];
    if (residual) residual += step * work_.end.residual.steps[2];
  }
  const float *input, *residual;
  float* result;

 private:
  void go() {
    const Sweep& s = work_.sweep;
    const int64_t from[3] = {z_ * s.in_step[0], y_ * s.in_step[1], x_ * s.in_step[2]};
    const int64_t at[3] = {s.begin[0] + z_ * s.step[0], s.begin[1] + y_ * s.step[1], s.begin[2] + x_ * s.step[2]};
    const int64_t channel = group_ * work_.of.out_channels;
    input = work_.input.data + group_ * work_.of.in_channels + place_of(work_.input, image_, from);
    result = work_.result.data + channel + place_of(work_.result, image_, at);
    const Images<const float>& added = work_.end.residual;
    residual = added.data ? added.data + channel + place_of(added, image_, at) : nullptr;
  }
  const Work& work_;
  int64_t group_, image_, z_, y_, x_;
};

/// The positions of a tile.
struct Positions {
  int64_t count;
  const float *inputs[kTileRows], *residuals[kTileRows];
  float* results[kTileRows];
};

/// Copies a few numbers: a call of memcpy would take longer.
inline void copy_few(const float* from, int64_t count, float* to) {
  typedef float Eight __attribute__((vector_size(32), aligned(4), may_alias));
  int64_t i = 0;
  for (; i + 8 <= count; i += 8) *reinterpret_cast<Eight*>(to + i) = *reinterpret_cast<const Eight*>(from + i);
  for (; i < count; ++i) to[i] = from[i];
}

/// Computes the part of the result at some positions. `tile` has what all tiles of the block share.
void compute_tile(const Work& work, const Positions& at, const Slice& part, bool is_first, bool is_last, IndirectTile& tile) {
  const int64_t column = part.panel * kPanel, columns = std::min(work.of.out_channels, column + part.panels * kPanel) - column;
  const int64_t width = part.panels * kPanel, padded = (part.group * work.panels + part.panel) * kPanel;
  const bool is_whole = columns == width, is_short = work.end.is_short();
  const bool adds = is_last && is_short && work.end.has_residual();
  const float* bias = work.bias && !work.scale ? work.bias + padded : nullptr;
  alignas(64) float sums[kTileRows * 4 * kPanel], added[kTileRows * 4 * kPanel];
  if (is_last && work.scale) tile.scale = work.scale + padded, tile.bias = work.bias + padded;
  for (int64_t r = 0; r < at.count; ++r) {
    float *result = at.results[r] + column, *own = sums + r * width;
    if (!is_first && !is_whole) copy_few(result, columns, own);
    tile.rows[r] = at.inputs[r], tile.results[r] = is_whole ? result : own;
    tile.inits[r] = is_first ? bias : tile.results[r];
    if (!adds) continue;
    tile.residuals[r] = at.residuals[r] + column;
    if (is_whole) continue;
    copy_few(tile.residuals[r], columns, added + r * width);
    tile.residuals[r] = added + r * width;
  }
  kKernels.by_size[at.count - 1][part.panels - 1](tile);
  for (int64_t r = 0; r < at.count && !is_whole; ++r) copy_few(sums + r * width, columns, at.results[r] + column);
  for (int64_t r = 0; r < at.count && is_last && !is_short; ++r) {
    finish_numbers(work.end, at.residuals[r] ? at.residuals[r] + column : nullptr, columns, at.results[r] + column);
  }
}

/// Computes the rows of a part, for one block of the weights.
void multiply_block(const Work& work, const Block& block, const Slice& part, const float* panels, int64_t panel_step) {
  const bool is_first = block.first == 0;
  const bool is_last = block.first + block.count == static_cast<int64_t>(work.sweep.segments.size());
  const int64_t rows = part.end - part.begin, tiles = (rows + tile_rows<float>() - 1) / tile_rows<float>();
  IndirectTile tile{};
  tile.clamps = is_last && work.end.clamps(), tile.low = work.end.low, tile.high = work.end.high;
  tile.segments = work.sweep.segments.data() + block.first, tile.count = block.count;
  tile.panels = panels, tile.panel_step = panel_step;
  Walk walk(work, part);
  Positions at{};
  for (int64_t i = 0, row = 0; i < tiles; ++i) {
    const int64_t next_row = rows * (i + 1) / tiles;
    for (at.count = 0; row < next_row; ++row, ++at.count, walk.next()) {
      at.inputs[at.count] = walk.input, at.results[at.count] = walk.result, at.residuals[at.count] = walk.residual;
    }
    compute_tile(work, at, part, is_first, is_last, tile);
  }
}

void run_sweep(const Work& work, int64_t images) {
  const Convolution& of = work.of;
  const Sweep& sweep = work.sweep;
  const int64_t rows = images * sweep.count[0] * sweep.count[1] * sweep.count[2];
  if (rows == 0) return;
  const int64_t tiles = (rows + tile_rows<float>() - 1) / tile_rows<float>(), highest = (rows + tiles - 1) / tiles;
  const int64_t width = tile_panels<float>(static_cast<int>(highest)), columns = (work.panels + width - 1) / width;
  int64_t parts = (rows + kPositions - 1) / kPositions, depth = 0, deepest = 0;
  for (const Block& block : sweep.blocks) depth += block.depth, deepest = std::max(deepest, block.depth);
  const int64_t multiplications = rows * depth * of.groups * work.panels * kPanel;
#ifdef _OPENMP
  const int64_t threads = omp_get_max_threads();
  if (threads > 1 && multiplications >= 2 * kThreadWork) {
    const int64_t wanted = (4 * threads + of.groups * columns - 1) / (of.groups * columns);
    parts = std::max(parts, std::min(tiles, wanted));
  }
#endif
  const int64_t tasks = parts * of.groups * columns;
  parallel_for(
      tasks, std::max<int64_t>(1, kThreadWork * tasks / std::max<int64_t>(multiplications, 1)), [&](int64_t begin, int64_t end) {
        Scratch scratch(work.weights.is_packed ? 0 : deepest * width * kPanel * static_cast<int64_t>(sizeof(float)));
        for (int64_t task = begin; task < end; ++task) {
          const int64_t p = task / columns / of.groups, c = task % columns, first = work.panels * c / columns;
          const Slice part{rows * p / parts, rows * (p + 1) / parts, task / columns % of.groups, first,
                           work.panels * (c + 1) / columns - first};
          for (const Block& block : sweep.blocks) {
            if (work.weights.is_packed) {
              const int64_t matrix = of.taps() * of.in_channels * kPanel;
              multiply_block(work, block, part, work.weights.data + (part.group * work.panels + part.panel) * matrix, matrix);
            } else {
              pack(work, block, part, scratch.as<float>());
              multiply_block(work, block, part, scratch.as<float>(), block.depth * kPanel);
            }
          }
        }
      });
}

}  // namespace

void convolve(const Convolution& of, const Images<const float>& input, const Weights<float>& weights, const float* bias,
              const Epilogue& end, const Images<float>& result) {
  Plan plan = plan_of(of);
  const int64_t channels = of.groups * of.in_channels, panels = (of.out_channels + kPanel - 1) / kPanel;
  bool is_padded = input.channel != 1 && channels > 1;
  for (int i = 0; i < 3; ++i) is_padded = is_padded || plan.sizes[i] != of.axes[i].in;
  Images<const float> read = input;
  int64_t chunk = of.batch;
  if (is_padded) {
    read.steps[2] = channels, read.steps[1] = read.steps[2] * plan.sizes[2], read.steps[0] = read.steps[1] * plan.sizes[1];
    read.image = read.steps[0] * plan.sizes[0], read.channel = 1;
    chunk = std::clamp<int64_t>(kPaddedNumbers / std::max<int64_t>(read.image, 1), 1, of.batch);
  }
  const bool merges = !of.transposed && of.groups == 1 && of.axes[2].dilation == 1 && read.steps[2] == channels;
  for (size_t i = 0; i < plan.sweeps.size(); ++i) {
    add_segments(plan, plan.sweeps[i], &plan.taps[3 * i], read.steps, merges);
    add_blocks(plan.sweeps[i], weights.is_packed);
  }
  Scratch padded(is_padded ? chunk * read.image * static_cast<int64_t>(sizeof(float)) : 0);
  const int64_t nbytes = of.groups * panels * kPanel * static_cast<int64_t>(sizeof(float));
  Scratch biases(bias || end.scale ? nbytes : 0), scales(end.scale ? nbytes : 0);
  if (end.scale) pad_channels(of.groups, of.out_channels, end.scale, scales.as<float>());
  if (bias || end.scale) pad_channels(of.groups, of.out_channels, bias, biases.as<float>());
  bool is_linear = true;
  int64_t step = weights.row * of.in_channels;
  for (int i = 2; i >= 0; --i) {
    is_linear = is_linear && (of.axes[i].kernel == 1 || weights.steps[i] == step);
    step *= of.axes[i].kernel;
  }
  for (int64_t first = 0; first < of.batch; first += chunk) {
    const int64_t images = std::min(chunk, of.batch - first);
    Images<const float> part = input;
    part.data += first * input.image;
    if (is_padded) {
      const int64_t sizes[3] = {of.axes[0].in, of.axes[1].in, of.axes[2].in};
      pad_images(images, channels, sizes, plan.before, plan.sizes, part, padded.as<float>());
      part = read, part.data = padded.as<float>();
    }
    Images<float> written = result;
    written.data += first * result.image;
    Epilogue ending = end;
    if (end.has_residual()) ending.residual.data += first * end.residual.image;
    const float *scale = end.scale ? scales.as<float>() : nullptr, *start = bias || scale ? biases.as<float>() : nullptr;
    for (const Sweep& sweep : plan.sweeps) {
      run_sweep({of, sweep, part, written, weights, scale, start, ending, panels, is_linear}, images);
    }
  }
}

}  // namespace wir
