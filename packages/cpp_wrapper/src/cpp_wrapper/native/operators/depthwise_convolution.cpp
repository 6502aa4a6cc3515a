// Depthwise convolutions: each channel has its own kernel. Vectors are neighbouring channels.
#include "depthwise_convolution.h"

#include "tiles.h"

#include <vector>

namespace wir {
namespace {

using V = Lanes<float>;
constexpr int kStep = kLanes<float>, kParts = kPanelVectors<float>;
/// Positions of a tile along the width, vectors of channels at one position, and multiplications that are worth a thread.
constexpr int kAcross = kVectorBytes == 16 ? 4 : 6, kDeep = 4;
constexpr int64_t kThreadWork = 1 << 17;

V load(const float* at) { return *reinterpret_cast<const V*>(at); }
void store(float* at, V value) { *reinterpret_cast<V*>(at) = value; }

/// A row of the kernel that meets the image: the row's first number of the image, and its weights.
struct KernelRow {
  const float* image;
  const float* weights;
};

/// A row of the result. Distances are in numbers.
struct Row {
  const Convolution& of;
  const std::vector<KernelRow>& rows;
  int64_t step, matrix;  // between positions of the image, between panels of weights
  const float* bias;
  float* result;
  int64_t result_step;
  const float* scale;  // may be null
  float low, high;
};

/// The end of the sums of a vector of channels.
struct End {
  V scale, bias, low, high;
  End(const Row& row, int64_t channel)
      : scale(row.scale ? load(row.scale + channel) : V{} + 1.0f),
        bias(row.bias ? load(row.bias + channel) : V{}),
        low(V{} + row.low),
        high(V{} + row.high) {}
  V operator()(V sum) const { return clamped(sum * scale + bias, low, high); }
};

/// Computes `kCount` positions from `x` on, none of which sees the border, for the vector at `channel` and at `weight` of a
/// panel. `kWidth`: of the kernel, if stride and dilation are 1, which lets positions share what they load; else 0.
template <int kWidth, int kCount> void compute_across(const Row& row, int64_t x, int64_t channel, int64_t weight) {
  const Axis& axis = row.of.axes[2];
  V sums[kCount] = {};
  const int64_t first = (x * axis.stride - axis.padding) * row.step + channel, across = axis.stride * row.step;
  for (const KernelRow& r : row.rows) {
    const float *image = r.image + first, *weights = r.weights + weight;
    if constexpr (kWidth > 0) {
      V seen[kCount];
#pragma GCC unroll 8
      for (int i = 0; i < kCount; ++i) seen[i] = load(image + i * row.step);
#pragma GCC unroll 8
      for (int k = 0; k < kWidth; ++k) {
        const V factor = load(weights + k * kPanel);
#pragma GCC unroll 8
        for (int i = 0; i < kCount; ++i) sums[i] += seen[i] * factor;
        if (k + 1 == kWidth) break;
#pragma GCC unroll 8
        for (int i = 0; i + 1 < kCount; ++i) seen[i] = seen[i + 1];
        seen[kCount - 1] = load(image + (kCount + k) * row.step);
      }
    } else {
      for (int64_t k = 0; k < axis.kernel; ++k) {
        const V factor = load(weights + k * kPanel);
        const float* at = image + k * axis.dilation * row.step;
#pragma GCC unroll 8
        for (int i = 0; i < kCount; ++i) sums[i] += load(at + i * across) * factor;
      }
    }
  }
  const End end(row, channel);
#pragma GCC unroll 8
  for (int i = 0; i < kCount; ++i) store(row.result + (x + i) * row.result_step + channel, end(sums[i]));
}

using Across = void (*)(const Row& row, int64_t x, int64_t channel, int64_t weight);
/// Kernels by their number of positions, from one on.
template <int kWidth> constexpr Across kKernels[] = {compute_across<kWidth, 1>, compute_across<kWidth, 2>, compute_across<kWidth, 3>,
                                                     compute_across<kWidth, 4>, compute_across<kWidth, 5>, compute_across<kWidth, 6>};

/// Computes `kCount` vectors of channels of one position, from vector `v` on. Positions outside of the image are zeros.
template <int kCount> void compute_deep(const Row& row, int64_t x, int64_t v, int64_t begin, int64_t end) {
  const Axis& axis = row.of.axes[2];
  V sums[kCount] = {};
  const float* panels[kCount];
#pragma GCC unroll 8
  for (int i = 0; i < kCount; ++i) panels[i] = nullptr;
  for (const KernelRow& r : row.rows) {
#pragma GCC unroll 8
    for (int i = 0; i < kCount; ++i) panels[i] = r.weights + (v + i) / kParts * row.matrix + (v + i) % kParts * kStep;
    const float* image = r.image + (x * axis.stride - axis.padding) * row.step + v * kStep;
    for (int64_t k = begin; k < end; ++k) {
      const float* at = image + k * axis.dilation * row.step;
#pragma GCC unroll 8
      for (int i = 0; i < kCount; ++i) sums[i] += load(at + i * kStep) * load(panels[i] + k * kPanel);
    }
  }
#pragma GCC unroll 8
  for (int i = 0; i < kCount; ++i) {
    const int64_t channel = (v + i) * kStep;
    store(row.result + x * row.result_step + channel, End(row, channel)(sums[i]));
  }
}

/// Computes the channels of one position that do not fill a vector.
void compute_rest(const Row& row, int64_t x, int64_t begin, int64_t end) {
  const Axis& axis = row.of.axes[2];
  for (int64_t c = row.of.groups / kStep * kStep; c < row.of.groups; ++c) {
    float sum = 0.0f;
    for (const KernelRow& r : row.rows) {
      const float* image = r.image + (x * axis.stride - axis.padding) * row.step + c;
      const float* weights = r.weights + c / kPanel * row.matrix + c % kPanel;
      for (int64_t k = begin; k < end; ++k) sum += image[k * axis.dilation * row.step] * weights[k * kPanel];
    }
    sum = (row.scale ? row.scale[c] : 1.0f) * sum + (row.bias ? row.bias[c] : 0.0f);
    row.result[x * row.result_step + c] = clamped(sum, row.low, row.high);
  }
}

void compute_position(const Row& row, int64_t x) {
  const Axis& axis = row.of.axes[2];
  const int64_t first = x * axis.stride - axis.padding, vectors = row.of.groups / kStep;
  const int64_t begin = first < 0 ? std::min(axis.kernel, (-first + axis.dilation - 1) / axis.dilation) : 0;
  const int64_t room = axis.in - first,
                end = std::max(begin, std::min(axis.kernel, room <= 0 ? 0 : (room + axis.dilation - 1) / axis.dilation));
  int64_t v = 0;
  for (; v + kDeep <= vectors; v += kDeep) compute_deep<kDeep>(row, x, v, begin, end);
  for (; v < vectors; ++v) compute_deep<1>(row, x, v, begin, end);
  if (row.of.groups % kStep != 0) compute_rest(row, x, begin, end);
}

void compute_row(const Row& row) {
  const Axis& axis = row.of.axes[2];
  const int64_t reach = (axis.kernel - 1) * axis.dilation, vectors = row.of.groups / kStep;
  const int64_t left = std::min(axis.out, (axis.padding + axis.stride - 1) / axis.stride), room = axis.in + axis.padding - reach;
  const int64_t right = std::max(left, std::min(axis.out, room <= 0 ? 0 : (room + axis.stride - 1) / axis.stride));
  const bool shares = axis.stride == 1 && axis.dilation == 1;
  const Across* kernels = !shares            ? kKernels<0>
                          : axis.kernel == 3 ? kKernels<3>
                          : axis.kernel == 5 ? kKernels<5>
                          : axis.kernel == 7 ? kKernels<7>
                                             : kKernels<0>;
  const int64_t tiles = (right - left) / kAcross, rest = (right - left) % kAcross;
  for (int64_t v = 0; v < vectors; ++v) {
    const int64_t weight = v / kParts * row.matrix + v % kParts * kStep;
    for (int64_t i = 0; i < tiles; ++i) kernels[kAcross - 1](row, left + i * kAcross, v * kStep, weight);
    if (rest > 0) kernels[rest - 1](row, right - rest, v * kStep, weight);
  }
  for (int64_t x = 0; x < left; ++x) compute_position(row, x);
  for (int64_t x = right; x < axis.out; ++x) compute_position(row, x);
  if (row.of.groups % kStep != 0) {
    for (int64_t x = left; x < right; ++x) compute_rest(row, x, 0, axis.kernel);
  }
}

}  // namespace

void convolve_depthwise(const Convolution& of, const Images<const float>& input, const float* weights, const float* bias,
                        const Epilogue& end, const Images<float>& result) {
  const bool is_done = end.is_short() && !end.has_residual();  // else another pass over each row follows
  const Epilogue inner = is_done ? end : Epilogue{};
  const Axis &depth = of.axes[0], &height = of.axes[1], &width = of.axes[2];
  const int64_t lines = of.batch * depth.out * height.out, work = std::max<int64_t>(1, width.out * of.groups * of.taps());
  parallel_for(lines, std::max<int64_t>(1, kThreadWork / work), [&](int64_t begin, int64_t last) {
    std::vector<KernelRow> rows;
    for (int64_t i = begin; i < last; ++i) {
      const int64_t y = i % height.out, z = i / height.out % depth.out, image = i / height.out / depth.out;
      const float* first = input.data + image * input.image;
      rows.clear();
      for (int64_t kz = 0; kz < depth.kernel; ++kz) {
        const int64_t iz = z * depth.stride - depth.padding + kz * depth.dilation;
        if (iz < 0 || iz >= depth.in) continue;
        for (int64_t ky = 0; ky < height.kernel; ++ky) {
          const int64_t iy = y * height.stride - height.padding + ky * height.dilation;
          if (iy < 0 || iy >= height.in) continue;
          rows.push_back(
              {first + iz * input.steps[0] + iy * input.steps[1], weights + (kz * height.kernel + ky) * width.kernel * kPanel});
        }
      }
      float* to = result.data + image * result.image + z * result.steps[0] + y * result.steps[1];
      compute_row({of, rows, input.steps[2], of.taps() * kPanel, bias, to, result.steps[2], end.scale, inner.low, inner.high});
      for (int64_t x = 0; x < width.out && !is_done; ++x) {
        const Images<const float>& other = end.residual;
        const float* added = other.data + image * other.image + z * other.steps[0] + y * other.steps[1] + x * other.steps[2];
        finish_numbers(end, end.has_residual() ? added : nullptr, of.groups, to + x * result.steps[2]);
      }
    }
  });
}

}  // namespace wir
