// Plans of direct convolutions: which numbers of the image meet which rows of weights.
#pragma once
#include "convolution.h"

#include <vector>

namespace wir {
namespace {  // each file has its own: files of different instruction sets are linked together

/// Rows of weights that pass together: panels of a tile stay in the second-level cache.
constexpr int64_t kDepth = 1024;

/// Consecutive numbers of the image that meet consecutive rows of weights: `offset` from a position's first number on.
struct Segment {
  int64_t offset, row, length, source;  // `source`: the row before weights are packed
};
/// Segments of at most `kDepth` rows.
struct Block {
  int64_t first, count, depth;
};
/// Positions of the result that see the same positions of the kernel: all, or those of one remainder by the stride of a
/// transposed convolution. Position `j` of an axis is `begin + j * step` of the result, and `j * in_step + begin of the segment`
/// of the image.
struct Sweep {
  int64_t begin[3], step[3], count[3], in_step[3];
  std::vector<Segment> segments;
  std::vector<Block> blocks;
};
/// A position of the kernel along an axis, and its distance in the image.
struct Tap {
  int64_t at, offset;
};

/// Returns the positions of the kernel that a sweep sees; `phase` is its remainder.
std::vector<Tap> taps_of(const Axis& axis, bool transposed, int64_t phase) {
  std::vector<Tap> taps;
  for (int64_t k = 0; k < axis.kernel; ++k) {
    const int64_t distance = transposed ? phase + axis.padding - k * axis.dilation : k * axis.dilation - axis.padding;
    if (!transposed)
      taps.push_back({k, distance});
    else if (distance % axis.stride == 0)
      taps.push_back({k, distance / axis.stride});
  }
  return taps;
}

struct Plan {
  Convolution of;
  int64_t before[3] = {}, sizes[3] = {};  // zeros before the image, and sizes with zeros
  std::vector<Sweep> sweeps;
  std::vector<std::vector<Tap>> taps;  // three for each sweep
};

Plan plan_of(const Convolution& of) {
  Plan plan{of, {}, {}, {}, {}};
  int64_t phases[3], ends[3];
  for (int i = 0; i < 3; ++i) {
    const Axis& axis = of.axes[i];
    phases[i] = of.transposed ? std::min(axis.stride, axis.out) : 1;
    ends[i] = axis.in;
  }
  for (int64_t phase = 0; phase < phases[0] * phases[1] * phases[2]; ++phase) {
    const int64_t at[3] = {phase / (phases[1] * phases[2]), phase / phases[2] % phases[1], phase % phases[2]};
    Sweep sweep{};
    for (int i = 0; i < 3; ++i) {
      const Axis& axis = of.axes[i];
      sweep.begin[i] = at[i];
      sweep.step[i] = of.transposed ? axis.stride : 1, sweep.in_step[i] = of.transposed ? 1 : axis.stride;
      sweep.count[i] = (axis.out - at[i] + sweep.step[i] - 1) / sweep.step[i];
      plan.taps.push_back(taps_of(axis, of.transposed, at[i]));
      for (const Tap& tap : plan.taps.back()) {
        plan.before[i] = std::max(plan.before[i], -tap.offset);
        ends[i] = std::max(ends[i], (sweep.count[i] - 1) * sweep.in_step[i] + tap.offset + 1);
      }
    }
    plan.sweeps.push_back(std::move(sweep));
  }
  for (int i = 0; i < 3; ++i) plan.sizes[i] = plan.before[i] + ends[i];
  return plan;
}

/// Adds the segments of a sweep; `merges`: neighbours along the width follow one another in the image.
void add_segments(const Plan& plan, Sweep& sweep, const std::vector<Tap>* taps, const int64_t* steps, bool merges) {
  const Convolution& of = plan.of;
  const int64_t channels = of.in_channels;
  for (const Tap& z : taps[0]) {
    for (const Tap& y : taps[1]) {
      for (const Tap& x : taps[2]) {
        const int64_t offset = (z.offset + plan.before[0]) * steps[0] + (y.offset + plan.before[1]) * steps[1] +
                               (x.offset + plan.before[2]) * steps[2];
        const int64_t row = ((z.at * of.axes[1].kernel + y.at) * of.axes[2].kernel + x.at) * channels;
        if (merges && x.at > 0)
          sweep.segments.back().length += channels;
        else
          sweep.segments.push_back({offset, row, channels, row});
      }
    }
  }
}

/// Divides the segments of a sweep into blocks. `is_packed`: rows are those of the whole matrix, else those of the block.
void add_blocks(Sweep& sweep, bool is_packed) {
  std::vector<Segment> parts;
  for (const Segment& s : sweep.segments) {
    const int64_t count = (s.length + kDepth - 1) / kDepth;
    for (int64_t i = 0; i < count; ++i) {
      const int64_t begin = s.length * i / count;
      parts.push_back({s.offset + begin, s.row + begin, s.length * (i + 1) / count - begin, s.row + begin});
    }
  }
  Block block{0, 0, 0};
  for (Segment& part : parts) {
    if (block.count > 0 && block.depth + part.length > kDepth) {
      sweep.blocks.push_back(block);
      block = {block.first + block.count, 0, 0};
    }
    if (!is_packed) part.row = block.depth;
    ++block.count, block.depth += part.length;
  }
  sweep.blocks.push_back(block);
  sweep.segments = std::move(parts);
}

}  // namespace
}  // namespace wir
