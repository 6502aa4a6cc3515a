// Sums, means and maxima of rows of an embedding, their gradients, and limits of the norms of rows.
#include "indices.h"

namespace wir {
namespace {

constexpr int64_t kGrain = 1 << 14;  // elements for which a thread is worth it

enum class Mode { kSum, kMean, kMax };

/// Calls `body.operator()<W>()` with the type in which rows of a dtype are summed.
template <class Body> void summed(int32_t dtype, const char* name, const Body& body) {
  if (!is_float(dtype)) fail_dtype(name, dtype);
  return dtype == kF64 ? body.template operator()<double>() : body.template operator()<float>();
}
int32_t wide(int32_t dtype) { return dtype == kF64 ? kF64 : kF32; }
Owned as_result(Owned made, int32_t dtype) { return made->dtype == dtype ? std::move(made) : contiguous(made.get(), dtype); }

/// Bags of rows: numbers of rows of the weight, and the begin of each bag among them.
struct Bags {
  Sizes rows, begins;  // `begins` has an end
  int64_t padding;     // rows of this number are left out; negative: none

  int64_t count() const { return static_cast<int64_t>(begins.size()) - 1; }
  int64_t size_of(int64_t bag) const {
    int64_t found = 0;
    for (int64_t i = begins[static_cast<size_t>(bag)]; i < begins[static_cast<size_t>(bag) + 1]; ++i) found += rows[static_cast<size_t>(i)] != padding;
    return found;
  }
};

Sizes read(Tensor tensor, const char* name) {
  if (tensor->dtype != kI64 && tensor->dtype != kI32) fail_dtype(name, tensor->dtype);
  if (tensor->rank != 1) fail_operator(name, "indices and offsets must have one dimension");
  const Owned dense = contiguous(tensor, kI64);
  return Sizes(data_of<int64_t>(dense.get()), data_of<int64_t>(dense.get()) + dense->count);
}
Sizes read_rows(Tensor indices, int64_t rows, const char* name) {
  Sizes found = read(indices, name);
  for (const int64_t row : found) {
    if (row < 0 || row >= rows) fail_index(name, row, rows);
  }
  return found;
}

Bags bags_of(Tensor indices, Tensor offsets, int64_t rows, bool has_last, int64_t padding, const char* name) {
  Bags made{read_rows(indices, rows, name), read(offsets, name), padding};
  const auto end = static_cast<int64_t>(made.rows.size());
  if (!has_last) made.begins.push_back(end);
  if (made.begins.empty()) fail_operator(name, "there are no offsets");
  if (made.begins[0] != 0 && made.count() > 0) fail_operator(name, "the first bag does not begin at index 0");
  for (size_t i = 1; i < made.begins.size(); ++i) {
    if (made.begins[i] < made.begins[i - 1] || made.begins[i] > end) fail_operator(name, "the offsets do not increase, or exceed the indices");
  }
  if (has_last && made.count() > 0) made.begins.back() = end;
  return made;
}

/// A call: rows of `weight`, with a factor for each index if `factors` is not null.
struct Call {
  const char* name;
  Tensor weight;
  Owned factors;
  Mode mode;
};

Call call_of(Tensor weight, Tensor* factors, int64_t mode, int64_t indices, const char* name) {
  if (weight->rank != 2) fail_operator(name, "the weight does not have two dimensions");
  if (mode < 0 || mode > 2) fail_operator(name, "an unknown mode");
  Call call{name, weight, nullptr, static_cast<Mode>(mode)};
  if (factors == nullptr) return call;
  if (call.mode != Mode::kSum) fail_operator(name, "weights of samples need the mode of sums");
  if ((*factors)->dtype != weight->dtype) fail_dtype(name, (*factors)->dtype);
  if ((*factors)->rank != 1 || (*factors)->count != indices) fail_operator(name, "there is not one weight for each index");
  call.factors = contiguous(*factors, wide(weight->dtype));
  return call;
}

/// Combines the rows of a bag. `largest` receives the rows of the largest elements.
template <class T, class W> void combine_bag(const Call& call, const Bags& bags, int64_t bag, W* to, int64_t* largest) {
  const int64_t columns = call.weight->sizes()[1], row_step = call.weight->strides()[0], step = call.weight->strides()[1];
  int64_t taken = 0;
  for (int64_t i = bags.begins[static_cast<size_t>(bag)]; i < bags.begins[static_cast<size_t>(bag) + 1]; ++i) {
    const int64_t row = bags.rows[static_cast<size_t>(i)];
    if (row == bags.padding) continue;
    const T* from = data_of<T>(call.weight) + row * row_step;
    const bool is_first = taken++ == 0;
    if (call.mode == Mode::kMax) {
      for (int64_t c = 0; c < columns; ++c) {
        const W value = static_cast<W>(from[c * step]);
        if (is_first || value > to[c]) to[c] = value, largest[c] = row;
      }
    } else {
      const W factor = call.factors ? data_of<W>(call.factors.get())[i] : W(1);
      for (int64_t c = 0; c < columns; ++c) to[c] += static_cast<W>(from[c * step]) * factor;
    }
  }
  if (call.mode != Mode::kMean || taken == 0) return;
  for (int64_t c = 0; c < columns; ++c) to[c] /= static_cast<W>(taken);
}

/// Returns the results, with torch's shapes of those that gradients use: `offset2bag` and the sizes of bags have values if torch's
/// operator computes them.
void give_bags(const Call& call, const Bags& bags, Tensor indices, Tensor offsets, bool is_forward, Tensor* results) {
  const int64_t columns = call.weight->sizes()[1], count = bags.count();
  Owned sums = zeros({count, columns}, wide(call.weight->dtype));
  const bool is_max = call.mode == Mode::kMax;
  Owned largest = zeros(is_max ? Sizes{count, columns} : Sizes{0}, kI64);
  summed(call.weight->dtype, call.name, [&]<class W>() {
    floats(call.weight->dtype, call.name, [&]<class T>() {
      if constexpr (std::is_same_v<W, double> == std::is_same_v<T, double>) {
        const int64_t rows = count == 0 ? 1 : 1 + static_cast<int64_t>(bags.rows.size()) / count;
        parallel_for(count, std::max<int64_t>(1, kGrain / (rows * std::max<int64_t>(columns, 1))), [&](int64_t begin, int64_t end) {
          for (int64_t bag = begin; bag < end; ++bag) {
            combine_bag<T>(call, bags, bag, data_of<W>(sums.get()) + bag * columns,
                           is_max ? data_of<int64_t>(largest.get()) + bag * columns : nullptr);
          }
        });
      }
    });
  });
  const bool is_fast = call.mode == Mode::kSum && bags.padding < 0 && call.weight->dtype != kF64 && call.weight->strides()[1] == 1;
  Owned bag_of = zeros({is_fast ? 0 : indices->count}, kI64);
  for (int64_t bag = 0; bag < count && !is_fast; ++bag) {
    const auto begin = bags.begins[static_cast<size_t>(bag)], end = bags.begins[static_cast<size_t>(bag) + 1];
    std::fill(data_of<int64_t>(bag_of.get()) + begin, data_of<int64_t>(bag_of.get()) + end, bag);
  }
  Owned sizes = zeros({is_forward && call.mode == Mode::kSum ? offsets->count : count}, kI64);
  for (int64_t bag = 0; bag < count && call.mode != Mode::kSum; ++bag) data_of<int64_t>(sizes.get())[bag] = bags.size_of(bag);
  results[0] = as_result(std::move(sums), call.weight->dtype).release();
  Owned others[] = {contiguous(bag_of.get(), indices->dtype), contiguous(sizes.get(), indices->dtype),
                    contiguous(is_max ? largest.get() : sizes.get(), indices->dtype)};
  if (!is_max && indices->dtype == kI64) others[2].reset(clone_with_strides(others[2].get()));
  for (int64_t i = 0; i < 3; ++i) results[1 + i] = others[i].release();
}

// --- gradients

/// What the gradients of a bag go to.
struct Gradient {
  Tensor grad, indices, bag_of, sizes, largest;  // `bag_of`: the bag of each index
  int64_t rows, padding;
  Mode mode;
  Tensor* factors;
};

Owned bag_numbers(Tensor bag_of, Tensor indices, Tensor offsets, const char* name) {
  if (bag_of->count == indices->count) return contiguous(bag_of, kI64);
  const Sizes begins = read(offsets, name);
  Owned made = zeros({indices->count}, kI64);
  int64_t* to = data_of<int64_t>(made.get());
  for (size_t bag = 0; bag < begins.size(); ++bag) {
    const int64_t end = bag + 1 < begins.size() ? begins[bag + 1] : indices->count;
    if (begins[bag] < 0 || end < begins[bag] || end > indices->count) fail_operator(name, "the offsets do not increase, or exceed the indices");
    std::fill(to + begins[bag], to + end, static_cast<int64_t>(bag));
  }
  return made;
}

void require_bags(const Owned& numbers, Tensor grad, const char* name) {
  if (grad->rank != 2) fail_operator(name, "the gradient does not have two dimensions");
  for (int64_t i = 0; i < numbers->count; ++i) {
    const int64_t bag = data_of<int64_t>(numbers.get())[i];
    if (bag < 0 || bag >= grad->sizes()[0]) fail_index(name, bag, grad->sizes()[0]);
  }
}

template <class W> void add_largest(const Gradient& call, const W* grad, W* to, const char* name) {
  const int64_t bags = call.grad->sizes()[0], columns = call.grad->sizes()[1];
  const Owned rows = contiguous(call.largest, kI64), sizes = contiguous(call.sizes, kI64);
  if (rows->count != bags * columns || sizes->count != bags) fail_operator(name, "the results of the forward operator have other shapes");
  for (int64_t bag = 0; bag < bags; ++bag) {
    if (data_of<int64_t>(sizes.get())[bag] == 0) continue;
    for (int64_t c = 0; c < columns; ++c) {
      const int64_t row = data_of<int64_t>(rows.get())[bag * columns + c];
      if (row < 0 || row >= call.rows) fail_index(name, row, call.rows);
      to[row * columns + c] += grad[bag * columns + c];
    }
  }
}

template <class W> void add_rows(const Gradient& call, const W* grad, W* to, const char* name) {
  const int64_t columns = call.grad->sizes()[1];
  const Sizes rows = read_rows(call.indices, call.rows, name);
  const Owned sizes = contiguous(call.sizes, kI64);
  const Owned factors = call.factors == nullptr ? Owned() : contiguous(*call.factors, wide(call.grad->dtype));
  if (factors && factors->count != call.indices->count) fail_operator(name, "there is not one weight for each index");
  for (size_t i = 0; i < rows.size(); ++i) {
    if (rows[i] == call.padding) continue;
    const int64_t bag = data_of<int64_t>(call.bag_of)[i];
    W factor = factors ? data_of<W>(factors.get())[i] : W(1);
    if (call.mode == Mode::kMean) {
      if (bag >= sizes->count) fail_operator(name, "the results of the forward operator have other shapes");
      factor /= static_cast<W>(data_of<int64_t>(sizes.get())[bag]);
    }
    for (int64_t c = 0; c < columns; ++c) to[rows[i] * columns + c] += grad[bag * columns + c] * factor;
  }
}

Owned weight_gradient(const Gradient& call, const char* name) {
  Owned sums = zeros({call.rows, call.grad->sizes()[1]}, wide(call.grad->dtype));
  const Owned grad = contiguous(call.grad, wide(call.grad->dtype));
  summed(call.grad->dtype, name, [&]<class W>() {
    const auto add = call.mode == Mode::kMax ? add_largest<W> : add_rows<W>;
    add(call, data_of<W>(grad.get()), data_of<W>(sums.get()), name);
  });
  return as_result(std::move(sums), call.grad->dtype);
}

/// Torch divides gradients of rows by the frequency of other rows.
void require_unscaled(bool by_frequency, const char* name) {
  if (by_frequency) fail_operator(name, "gradients scaled by frequency are not supported");
}

Mode mode_of(int64_t mode, const char* name) {
  if (mode < 0 || mode > 2) fail_operator(name, "an unknown mode");
  return static_cast<Mode>(mode);
}

// --- norms

/// Divides rows of a weight whose norm exceeds a limit.
template <class T> void limit_norms(Tensor weight, Sizes rows, double limit, double power) {
  using W = std::conditional_t<std::is_same_v<T, double>, double, float>;
  std::sort(rows.begin(), rows.end());
  rows.erase(std::unique(rows.begin(), rows.end()), rows.end());
  const int64_t columns = weight->sizes()[1], step = weight->strides()[1];
  for (const int64_t row : rows) {
    T* at = data_of<T>(weight) + row * weight->strides()[0];
    double norm = 0;
    for (int64_t c = 0; c < columns; ++c) {
      const double size = std::fabs(static_cast<double>(static_cast<W>(at[c * step])));
      if (std::isinf(power)) {
        norm = c == 0 ? size : power > 0 ? std::max(norm, size) : std::min(norm, size);
      } else {
        norm += power == 0 ? (size != 0 ? 1 : 0) : power == 1 ? size : power == 2 ? size * size : std::pow(size, power);
      }
    }
    if (!std::isinf(power) && power != 0 && power != 1) norm = power == 2 ? std::sqrt(norm) : std::pow(norm, 1 / power);
    if (!(norm > limit)) continue;
    const auto factor = static_cast<W>(limit / (norm + 1e-7));
    for (int64_t c = 0; c < columns; ++c) at[c * step] = static_cast<T>(static_cast<W>(at[c * step]) * factor);
  }
}

void renorm(Tensor weight, Tensor indices, double limit, double power, const char* name) {
  if (weight->rank != 2) fail_operator(name, "the weight does not have two dimensions");
  if (indices->dtype != kI64 && indices->dtype != kI32) fail_dtype(name, indices->dtype);
  const Owned dense = contiguous(indices, kI64), flat = reshaped(dense.get(), {dense->count});
  const Sizes rows = read_rows(flat.get(), weight->sizes()[0], name);
  floats(weight->dtype, name, [&]<class T>() { limit_norms<T>(weight, rows, limit, power); });
}

}  // namespace
}  // namespace wir

using namespace wir;

WIR_OPERATOR(_embedding_bag)
(Tensor weight, Tensor indices, Tensor offsets, int32_t, int64_t mode, int32_t, Tensor* per_sample_weights, int32_t include_last_offset,
 int64_t padding_idx, Tensor* ret0, Tensor* ret1, Tensor* ret2, Tensor* ret3) {
  constexpr const char* kName = "aten::_embedding_bag";
  const Call call = call_of(weight, per_sample_weights, mode, indices->count, kName);
  const Bags bags = bags_of(indices, offsets, weight->sizes()[0], include_last_offset != 0, padding_idx, kName);
  Tensor results[4];
  give_bags(call, bags, indices, offsets, false, results);
  *ret0 = results[0], *ret1 = results[1], *ret2 = results[2], *ret3 = results[3];
  return 0;
}

WIR_OPERATOR(_embedding_bag_forward_only)
(Tensor weight, Tensor indices, Tensor offsets, int32_t, int64_t mode, int32_t, Tensor* per_sample_weights, int32_t include_last_offset,
 int64_t padding_idx, Tensor* ret0, Tensor* ret1, Tensor* ret2, Tensor* ret3) {
  constexpr const char* kName = "aten::_embedding_bag_forward_only";
  const Call call = call_of(weight, per_sample_weights, mode, indices->count, kName);
  const Bags bags = bags_of(indices, offsets, weight->sizes()[0], include_last_offset != 0, padding_idx, kName);
  Tensor results[4];
  give_bags(call, bags, indices, offsets, true, results);
  *ret0 = results[0], *ret1 = results[1], *ret2 = results[2], *ret3 = results[3];
  return 0;
}

WIR_OPERATOR(_embedding_bag_backward)
(Tensor grad, Tensor indices, Tensor offsets, Tensor offset2bag, Tensor bag_size, Tensor maximum_indices, int64_t num_weights,
 int32_t scale_grad_by_freq, int64_t mode, int32_t sparse, Tensor* per_sample_weights, int64_t padding_idx, Tensor* ret0) {
  constexpr const char* kName = "aten::_embedding_bag_backward";
  if (sparse != 0) fail_operator(kName, "sparse gradients are not supported");
  require_unscaled(scale_grad_by_freq != 0, kName);
  const Owned numbers = bag_numbers(offset2bag, indices, offsets, kName);
  require_bags(numbers, grad, kName);
  const Gradient call{grad, indices, numbers.get(), bag_size, maximum_indices, num_weights, padding_idx, mode_of(mode, kName),
                      per_sample_weights};
  *ret0 = weight_gradient(call, kName).release();
  return 0;
}

WIR_OPERATOR(_embedding_bag_dense_backward)
(Tensor grad, Tensor indices, Tensor offset2bag, Tensor bag_size, Tensor maximum_indices, int64_t num_weights, int32_t scale_grad_by_freq,
 int64_t mode, Tensor* per_sample_weights, int64_t padding_idx, Tensor* ret0) {
  constexpr const char* kName = "aten::_embedding_bag_dense_backward";
  require_unscaled(scale_grad_by_freq != 0, kName);
  if (offset2bag->count != indices->count) fail_operator(kName, "there is not one bag for each index");
  const Owned numbers = contiguous(offset2bag, kI64);
  require_bags(numbers, grad, kName);
  const Gradient call{grad, indices, numbers.get(), bag_size, maximum_indices, num_weights, padding_idx, mode_of(mode, kName),
                      per_sample_weights};
  *ret0 = weight_gradient(call, kName).release();
  return 0;
}

WIR_OPERATOR(_embedding_bag_per_sample_weights_backward)
(Tensor grad, Tensor weight, Tensor indices, Tensor offsets, Tensor offset2bag, int64_t mode, int64_t padding_idx, Tensor* ret0) {
  constexpr const char* kName = "aten::_embedding_bag_per_sample_weights_backward";
  if (mode != 0) fail_operator(kName, "weights of samples need the mode of sums");
  if (weight->rank != 2 || grad->dtype != weight->dtype) fail_operator(kName, "the weight does not fit the gradient");
  const Owned numbers = bag_numbers(offset2bag, indices, offsets, kName);
  require_bags(numbers, grad, kName);
  const int64_t columns = weight->sizes()[1];
  if (grad->sizes()[1] != columns) fail_operator(kName, "the weight does not fit the gradient");
  const Sizes rows = read_rows(indices, weight->sizes()[0], kName);
  const int32_t dtype = wide(grad->dtype);
  const Owned given = contiguous(grad, dtype);
  Owned made = zeros({indices->count}, dtype);
  floats(grad->dtype, kName, [&]<class T>() {
    using W = std::conditional_t<std::is_same_v<T, double>, double, float>;
    for (size_t i = 0; i < rows.size(); ++i) {
      if (rows[i] == padding_idx) continue;
      const W* from = data_of<W>(given.get()) + data_of<int64_t>(numbers.get())[i] * columns;
      const T* row = data_of<T>(weight) + rows[i] * weight->strides()[0];
      W sum = 0;
      for (int64_t c = 0; c < columns; ++c) sum += from[c] * static_cast<W>(row[c * weight->strides()[1]]);
      data_of<W>(made.get())[i] = sum;
    }
  });
  *ret0 = as_result(std::move(made), grad->dtype).release();
  return 0;
}

WIR_OPERATOR(embedding_renorm)(Tensor self, Tensor indices, double max_norm, double norm_type, Tensor* ret0) {
  Owned made = clone_like(self);
  renorm(made.get(), indices, max_norm, norm_type, "aten::embedding_renorm");
  *ret0 = made.release();
  return 0;
}

WIR_OPERATOR(embedding_renorm_)(Tensor self, Tensor indices, double max_norm, double norm_type) {
  renorm(self, indices, max_norm, norm_type, "aten::embedding_renorm_");
  return 0;
}
