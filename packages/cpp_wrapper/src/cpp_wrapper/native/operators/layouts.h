// Sizes and strides of results, and loops over several tensors.
#pragma once
#include "operator.h"

#include <vector>

namespace wir {

/// Sizes or strides, one for each dimension.
using Sizes = std::vector<int64_t>;

inline Sizes sizes_of(Tensor tensor) { return Sizes(tensor->sizes(), tensor->sizes() + tensor->rank); }
inline Sizes strides_of(Tensor tensor) { return Sizes(tensor->strides(), tensor->strides() + tensor->rank); }
int64_t count_of(const Sizes& sizes);

/// Creates a contiguous tensor.
Owned empty(const Sizes& sizes, int32_t dtype);
/// Creates a tensor with these strides.
Owned empty(const Sizes& sizes, const Sizes& strides, int32_t dtype);
/// As above, in memory of the device that has `like`, or of the host.
Owned empty_beside(Tensor like, const Sizes& sizes, int32_t dtype);
Owned empty_beside(Tensor like, const Sizes& sizes, const Sizes& strides, int32_t dtype);
/// As above, on the device of an operator's optional arguments.
Owned empty_on(const int32_t* device, int32_t index, const Sizes& sizes, const Sizes& strides, int32_t dtype);
/// Creates a view; `offset` counts elements of `base` from its first one.
Owned view_of(Tensor base, const Sizes& sizes, const Sizes& strides, int64_t offset = 0);
/// Creates the view of a slice of a dimension, as torch's `slice`. Fails with the operator's name unless the step is positive.
Owned sliced(Tensor self, int64_t dim, const int64_t* start, const int64_t* end, int64_t step, const char* name);
/// Creates a tensor that contains zeros.
Owned zeros(const Sizes& sizes, int32_t dtype);
/// Returns a contiguous view with other sizes of a contiguous tensor.
Owned reshaped(Tensor tensor, const Sizes& sizes);

/// Returns the strides of a dense result whose dimensions are in the order of the operands' strides, as torch's pointwise
/// operators choose them. Operands have their sizes broadcast to `sizes`.
Sizes dense_strides(const Sizes& sizes, const Tensor* operands, int64_t count);
/// Returns the strides of a result of `empty_like`: those of the tensor if it is dense.
Sizes strides_like(Tensor tensor);
/// Returns strides for a memory format of torch's codes. Fails with the operator's name if the rank does not fit.
Sizes strides_of_format(const Sizes& sizes, int32_t format, const char* name);
Sizes contiguous_strides(const Sizes& sizes);
/// Creates a tensor with the layout of another one, as `empty_like`.
Owned empty_like(Tensor tensor, int32_t dtype);
/// Copies into a tensor with the layout of `empty_like`.
Owned clone_like(Tensor tensor);

/// Fails with the operator's name and a reason.
[[noreturn, gnu::cold]] void fail_operator(const char* name, const char* reason);
/// Returns the sizes to which both broadcast.
Sizes broadcast(const Sizes& first, const Sizes& second, const char* name);

bool is_complex(int32_t dtype);
bool is_float(int32_t dtype);
/// Returns the element type of a result of two operands of these types and ranks, as torch promotes them.
int32_t promoted(Tensor first, Tensor second);

/// A loop over tensors of one shape. Runs of elements are along the innermost dimension.
class Loop {
 public:
  static constexpr int64_t kMaxTensors = 6;

  /// Tensors broadcast to `sizes`; null ones are skipped.
  Loop(const Sizes& sizes, std::initializer_list<Tensor> tensors);
  /// Calls `body(at, steps, count)` for each run: the addresses of its first elements, and the bytes between elements.
  template <class Body> void run(const Body& body) const {
    if (count_ == 0) return;
    unsigned char* at[kMaxTensors];
    std::copy(data_, data_ + tensors_, at);
    std::vector<int64_t> index(sizes_.size());
    for (;;) {
      body(at, steps_.data(), sizes_[0]);
      size_t dim = 1;
      for (; dim < sizes_.size(); ++dim) {
        const int64_t* step = steps_.data() + dim * kMaxTensors;
        for (int64_t i = 0; i < tensors_; ++i) at[i] += step[i];
        if (++index[dim] < sizes_[dim]) break;
        for (int64_t i = 0; i < tensors_; ++i) at[i] -= step[i] * sizes_[dim];
        index[dim] = 0;
      }
      if (dim == sizes_.size()) return;
    }
  }

 private:
  int64_t tensors_ = 0, count_ = 1;
  unsigned char* data_[kMaxTensors];
  std::vector<int64_t> sizes_, steps_;  // from the innermost dimension on
};

/// The lines of tensors along a dimension. Tensors have the same sizes in all other dimensions.
class Lines {
 public:
  static constexpr int64_t kMaxTensors = 4;

  Lines(int64_t dim, std::initializer_list<Tensor> tensors);
  int64_t count() const { return count_; }
  int64_t length(int64_t tensor) const { return lengths_[tensor]; }
  /// Bytes between elements of a line.
  int64_t step(int64_t tensor) const { return steps_[tensor]; }
  /// The address of the first element of a line.
  unsigned char* at(int64_t tensor, int64_t line) const {
    int64_t offset = 0;
    for (size_t i = 0; i < sizes_.size(); ++i) {
      offset += line % sizes_[i] * strides_[i * kMaxTensors + static_cast<size_t>(tensor)];
      line /= sizes_[i];
    }
    return data_[tensor] + offset;
  }
  /// As `at`, with the type of the elements.
  template <class T> T* line(int64_t tensor, int64_t number) const { return reinterpret_cast<T*>(at(tensor, number)); }
  /// Elements between those of a line.
  template <class T> int64_t stride(int64_t tensor) const { return steps_[tensor] / static_cast<int64_t>(sizeof(T)); }

 private:
  int64_t count_ = 1, lengths_[kMaxTensors], steps_[kMaxTensors];
  unsigned char* data_[kMaxTensors];
  std::vector<int64_t> sizes_, strides_;
};

}  // namespace wir
