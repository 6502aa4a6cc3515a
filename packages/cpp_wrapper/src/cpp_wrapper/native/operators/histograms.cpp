// Histograms: counts, or sums of weights, of the points in each bin. Bins contain their left edge; the last one both.
#include "layouts.h"

namespace wir {
namespace {

/// How the bin of a number is found: among all edges, or near the place that equal widths give.
enum class Find { kSearch, kNearby };

/// The edges of the bins along a coordinate; of equal widths if they are not given by a tensor.
template <class T> struct Edges {
  std::vector<T> items;
  T first() const { return items.front(); }
  T last() const { return items.back(); }
  int64_t bins() const { return static_cast<int64_t>(items.size()) - 1; }

  /// Returns the bin of a number, -1 if it is in none.
  int64_t bin_of(T value, Find find) const {
    if (!(value >= first() && value <= last())) return -1;
    const auto number = static_cast<int64_t>(items.size());
    int64_t from = 0, to = number;
    if (find == Find::kNearby) {
      const auto guess = static_cast<int64_t>((value - first()) * static_cast<T>(bins()) / (last() - first()));
      from = std::clamp<int64_t>(guess - 1, 0, number);
      to = std::clamp<int64_t>(guess + 2, from, number);
    }
    const auto found = std::upper_bound(items.begin() + from, items.begin() + to, value) - items.begin() - 1;
    return std::clamp<int64_t>(found, 0, bins() - 1);  // edges of a tensor may be in any order
  }
};

/// Returns `bins` + 1 numbers of equal distances, computed from both ends as by `torch.linspace`.
template <class T> Edges<T> equal_edges(T low, T high, int64_t bins) {
  Edges<T> made;
  const T step = (high - low) / static_cast<T>(bins);
  for (int64_t i = 0; i <= bins; ++i) {
    made.items.push_back(i < (bins + 1) / 2 ? low + step * static_cast<T>(i) : high - step * static_cast<T>(bins - i));
  }
  return made;
}

/// Points: rows of coordinates, and their weights.
template <class T> struct Points {
  const T *items, *weights;  // null: each counts one
  int64_t count, dims;
};

/// The smallest and largest of one coordinate; NaN if there is one.
template <class T> std::pair<T, T> range_of(const Points<T>& points, int64_t dim) {
  T low = std::numeric_limits<T>::infinity(), high = -low;
  for (int64_t i = 0; i < points.count; ++i) {
    const T value = points.items[i * points.dims + dim];
    if (value != value) return {value, value};
    low = std::min(low, value);
    high = std::max(high, value);
  }
  return {low, high};
}

template <class T> void require_finite(T low, T high, const char* name) {
  if (!std::isfinite(low) || !std::isfinite(high)) fail_operator(name, "the range is not finite");
  if (low > high) fail_operator(name, "the range ends before it begins");
}

/// Returns the edges along each coordinate for numbers of bins: over the given range, or that of the points.
template <class T>
std::vector<Edges<T>> edges_of(const Points<T>& points, const int64_t* bins, const double* range, const char* name) {
  std::vector<Edges<T>> made;
  for (int64_t dim = 0; dim < points.dims; ++dim) {
    if (bins[dim] <= 0) fail_operator(name, "the number of bins is not positive");
    std::pair<T, T> ends{T(0), T(1)};
    if (range != nullptr) {
      ends = {static_cast<T>(range[2 * dim]), static_cast<T>(range[2 * dim + 1])};
    } else if (points.count > 0) {
      ends = range_of(points, dim);
    }
    require_finite(ends.first, ends.second, name);
    if (ends.first == ends.second) ends = {ends.first - T(0.5), ends.second + T(0.5)};
    made.push_back(equal_edges(ends.first, ends.second, bins[dim]));
  }
  return made;
}

/// Returns the edges that tensors contain.
template <class T> std::vector<Edges<T>> edges_of(const Tensor* bins, int64_t count, const char* name) {
  std::vector<Edges<T>> made(static_cast<size_t>(count));
  for (int64_t i = 0; i < count; ++i) {
    if (bins[i]->rank != 1) fail_operator(name, "edges do not have one dimension");
    if (bins[i]->count == 0) fail_operator(name, "there are no edges");
    const Owned dense = contiguous(bins[i]);
    const T* items = data_of<T>(dense.get());
    made[static_cast<size_t>(i)].items.assign(items, items + dense->count);
  }
  return made;
}

/// Adds the points to their bins; then divides by the sum and the volumes for a density.
template <class T>
void count_points(const Points<T>& points, const std::vector<Edges<T>>& edges, Find find, bool density, T* hist) {
  int64_t cells = 1;
  for (const Edges<T>& one : edges) cells *= one.bins();
  for (int64_t i = 0; i < points.count; ++i) {
    int64_t cell = 0;
    for (int64_t dim = 0; dim < points.dims && cell >= 0; ++dim) {
      const Edges<T>& along = edges[static_cast<size_t>(dim)];
      const int64_t bin = along.bin_of(points.items[i * points.dims + dim], find);
      cell = bin < 0 ? -1 : cell * along.bins() + bin;
    }
    if (cell >= 0) hist[cell] += points.weights != nullptr ? points.weights[i] : T(1);
  }
  if (!density) return;
  T sum = 0;
  for (int64_t i = 0; i < cells; ++i) sum += hist[i];
  for (int64_t i = 0; i < cells; ++i) {
    hist[i] /= sum;
    int64_t rest = i;
    for (size_t dim = edges.size(); dim-- > 0;) {
      const auto bin = static_cast<size_t>(rest % edges[dim].bins());
      rest /= edges[dim].bins();
      hist[i] /= edges[dim].items[bin + 1] - edges[dim].items[bin];
    }
  }
}

template <class Body> void wide_floats(int32_t dtype, const char* name, const Body& body) {
  if (dtype == kF32) return body.template operator()<float>();
  if (dtype == kF64) return body.template operator()<double>();
  fail_dtype(name, dtype);
}

/// A histogram, and the edges along its first coordinate.
struct Histogram {
  Owned hist, edges;
};

/// Creates a histogram of points with `dims` coordinates. `make_edges(points)` returns the edges along each.
template <class T, class MakeEdges>
Histogram histogram(Tensor self, int64_t dims, Tensor* weight, Find find, bool density, const char* name,
                    const MakeEdges& make_edges) {
  const Owned dense = contiguous(self), weights = weight != nullptr ? contiguous(*weight) : nullptr;
  const T* factors = weights ? data_of<T>(weights.get()) : nullptr;
  const Points<T> points{data_of<T>(dense.get()), factors, self->count / dims, dims};
  if (weights && weights->dtype != self->dtype) fail_operator(name, "points and weights have different types");
  if (weights && weights->count != points.count) fail_operator(name, "the weights have another number of elements");
  const std::vector<Edges<T>> edges = make_edges(points);
  Sizes sizes;
  for (const Edges<T>& one : edges) sizes.push_back(one.bins());
  Histogram made{zeros(sizes, self->dtype), empty({edges.front().bins() + 1}, self->dtype)};
  std::copy(edges.front().items.begin(), edges.front().items.end(), data_of<T>(made.edges.get()));
  if (made.hist->count > 0) count_points(points, edges, find, density, data_of<T>(made.hist.get()));
  return made;
}

int64_t coordinates(Tensor self, int64_t edges, const char* name) {
  if (self->rank < 2) fail_operator(name, "the points have fewer than two dimensions");
  const int64_t dims = self->sizes()[self->rank - 1];
  if (dims != edges || dims == 0) fail_operator(name, "there is not one sequence of bins for each coordinate");
  return dims;
}

const double* checked_range(const double** range, int64_t count, int64_t dims, const char* name) {
  if (range == nullptr) return nullptr;
  if (count != 2 * dims) fail_operator(name, "the range does not have two numbers for each coordinate");
  return *range;
}

/// Counts numbers in bins of equal widths; the counts have the type of the numbers.
template <class T> void count_numbers(Tensor self, Tensor made, double low, double high, const char* name) {
  using Wide = std::conditional_t<is_small_float<T>, float, T>;
  const Owned dense = contiguous(self);
  std::vector<Wide> items(static_cast<size_t>(dense->count));
  for (size_t i = 0; i < items.size(); ++i) items[i] = converted<Wide>(data_of<T>(dense.get())[i]);
  const Points<Wide> points{items.data(), nullptr, dense->count, 1};
  std::pair<Wide, Wide> ends{static_cast<Wide>(low), static_cast<Wide>(high)};
  if (low == high && dense->count > 0) ends = range_of(points, 0);
  require_finite(ends.first, ends.second, name);
  if (ends.first == ends.second) ends = {ends.first - 1, ends.second + 1};
  const auto rounded = [](Wide value) { return converted<Wide>(converted<T>(value)); };  // as torch computes in T
  const Wide first = rounded(ends.first), last = rounded(ends.second);
  const Wide width = rounded(last - first), bins = rounded(static_cast<Wide>(made->count));
  for (const Wide item : items) {
    if (!(item >= first && item <= last)) continue;
    const Wide guess = rounded(rounded(rounded(item - first) * bins) / width);
    const int64_t bin = std::min(static_cast<int64_t>(guess), made->count - 1);
    T& sum = data_of<T>(made)[bin];
    sum = converted<T>(converted<Wide>(sum) + 1);
  }
}

}  // namespace
}  // namespace wir

using namespace wir;

WIR_OPERATOR(histc)(Tensor self, int64_t bins, double min, double max, Tensor* ret0) {
  constexpr const char* kName = "aten::histc";
  if (bins <= 0) fail_operator(kName, "the number of bins is not positive");
  Owned made = zeros({bins}, self->dtype);
  floats(self->dtype, kName, [&]<class T>() { count_numbers<T>(self, made.get(), min, max, kName); });
  *ret0 = made.release();
  return 0;
}

WIR_OPERATOR(histogram_bins_tensor)(Tensor self, Tensor bins, Tensor* weight, int32_t density, Tensor* ret0, Tensor* ret1) {
  constexpr const char* kName = "aten::histogram.bins_tensor";
  if (bins->dtype != self->dtype) fail_operator(kName, "numbers and edges have different types");
  Histogram made;
  wide_floats(self->dtype, kName, [&]<class T>() {
    made = histogram<T>(self, 1, weight, Find::kSearch, density != 0, kName,
                        [&](const Points<T>&) { return edges_of<T>(&bins, 1, kName); });
  });
  *ret0 = made.hist.release();
  *ret1 = made.edges.release();
  return 0;
}

WIR_OPERATOR(histogram_bin_ct)(Tensor self, int64_t bins, const double** range, int64_t range_len_, Tensor* weight,
                               int32_t density, Tensor* ret0, Tensor* ret1) {
  constexpr const char* kName = "aten::histogram.bin_ct";
  const double* ends = checked_range(range, range_len_, 1, kName);
  Histogram made;
  wide_floats(self->dtype, kName, [&]<class T>() {
    made = histogram<T>(self, 1, weight, Find::kNearby, density != 0, kName,
                        [&](const Points<T>& points) { return edges_of(points, &bins, ends, kName); });
  });
  *ret0 = made.hist.release();
  *ret1 = made.edges.release();
  return 0;
}

WIR_OPERATOR(_histogramdd_bin_edges)(Tensor self, const int64_t* bins, int64_t bins_len_, const double** range,
                                     int64_t range_len_, Tensor*, int32_t, Tensor* ret0, int64_t ret0_len_) {
  constexpr const char* kName = "aten::_histogramdd_bin_edges";
  const int64_t dims = coordinates(self, bins_len_, kName);
  const double* ends = checked_range(range, range_len_, dims, kName);
  if (ret0_len_ > dims) fail_operator(kName, "there are fewer results");
  wide_floats(self->dtype, kName, [&]<class T>() {
    const Owned dense = contiguous(self);
    const Points<T> points{data_of<T>(dense.get()), nullptr, self->count / dims, dims};
    const std::vector<Edges<T>> edges = edges_of(points, bins, ends, kName);
    std::vector<Owned> made;
    for (int64_t i = 0; i < ret0_len_; ++i) {
      const std::vector<T>& items = edges[static_cast<size_t>(i)].items;
      made.push_back(empty({static_cast<int64_t>(items.size())}, self->dtype));
      std::copy(items.begin(), items.end(), data_of<T>(made.back().get()));
    }
    for (int64_t i = 0; i < ret0_len_; ++i) ret0[i] = made[static_cast<size_t>(i)].release();
  });
  return 0;
}

WIR_OPERATOR(_histogramdd_from_bin_cts)(Tensor self, const int64_t* bins, int64_t bins_len_, const double** range,
                                        int64_t range_len_, Tensor* weight, int32_t density, Tensor* ret0) {
  constexpr const char* kName = "aten::_histogramdd_from_bin_cts";
  const int64_t dims = coordinates(self, bins_len_, kName);
  const double* ends = checked_range(range, range_len_, dims, kName);
  wide_floats(self->dtype, kName, [&]<class T>() {
    Histogram made = histogram<T>(self, dims, weight, Find::kNearby, density != 0, kName,
                                  [&](const Points<T>& points) { return edges_of(points, bins, ends, kName); });
    *ret0 = made.hist.release();
  });
  return 0;
}

WIR_OPERATOR(_histogramdd_from_bin_tensors)(Tensor self, const Tensor* bins, int64_t bins_len_, Tensor* weight, int32_t density,
                                            Tensor* ret0) {
  constexpr const char* kName = "aten::_histogramdd_from_bin_tensors";
  const int64_t dims = coordinates(self, bins_len_, kName);
  for (int64_t i = 0; i < bins_len_; ++i) {
    if (bins[i]->dtype != self->dtype) fail_operator(kName, "points and edges have different types");
  }
  wide_floats(self->dtype, kName, [&]<class T>() {
    Histogram made = histogram<T>(self, dims, weight, Find::kSearch, density != 0, kName,
                                  [&](const Points<T>&) { return edges_of<T>(bins, bins_len_, kName); });
    *ret0 = made.hist.release();
  });
  return 0;
}

WIR_OPERATOR(bincount)(Tensor self, Tensor* weights, int64_t minlength, Tensor* ret0) {
  constexpr const char* kName = "aten::bincount";
  if (minlength < 0) fail_operator(kName, "the smallest length is negative");
  if (self->rank != 1) fail_operator(kName, "the tensor does not have one dimension");
  if (weights != nullptr && sizes_of(*weights) != sizes_of(self)) fail_operator(kName, "the weights have another size");
  if (self->dtype == kBool) fail_dtype(kName, self->dtype);
  integers(self->dtype, kName, []<class T>() {});
  const Owned dense = contiguous(self, kI64);
  const int64_t* items = data_of<int64_t>(dense.get());
  int64_t length = minlength;
  for (int64_t i = 0; i < self->count; ++i) {
    if (items[i] < 0) fail_operator(kName, "a number is negative");
    length = std::max(length, items[i] + 1);
  }
  const bool is_counted = weights == nullptr || self->count == 0, is_single = !is_counted && (*weights)->dtype == kF32;
  Owned made = zeros({length}, is_counted ? kI64 : is_single ? kF32 : kF64);
  const Owned factors = is_counted ? nullptr : contiguous(*weights, made->dtype);
  for (int64_t i = 0; i < self->count; ++i) {
    if (is_counted) {
      ++data_of<int64_t>(made.get())[items[i]];
    } else if (is_single) {
      data_of<float>(made.get())[items[i]] += data_of<float>(factors.get())[i];
    } else {
      data_of<double>(made.get())[items[i]] += data_of<double>(factors.get())[i];
    }
  }
  *ret0 = made.release();
  return 0;
}
