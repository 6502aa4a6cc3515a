// Reads and writes at indices of several dimensions, and at positions of true elements.
#include "indices.h"

namespace wir {
namespace {

/// What `self[indices]` reads or writes: the sizes of the result, and a view of `self` whose elements its offsets count from.
struct Indexed {
  Sizes sizes;         // those of the result
  Owned base;          // of these sizes: the dimensions that no tensor indexes have strides, the others 0
  Owned offsets;       // bytes to add for the indexed dimensions, of the same sizes by broadcasting
};

/// The positions of true elements, one tensor of indices for each dimension.
std::vector<Owned> positions_of(Tensor mask) {
  const Owned dense = contiguous(mask, kBool);
  int64_t count = 0;
  for (int64_t i = 0; i < dense->count; ++i) count += dense->data()[i] != 0 ? 1 : 0;
  std::vector<Owned> made;
  for (int64_t d = 0; d < mask->rank; ++d) made.push_back(empty({count}, kI64));
  int64_t next = 0;
  for (int64_t i = 0; i < dense->count; ++i) {
    if (dense->data()[i] == 0) continue;
    int64_t rest = i;
    for (int64_t d = mask->rank - 1; d >= 0; --d) {
      data_of<int64_t>(made[static_cast<size_t>(d)].get())[next] = rest % mask->sizes()[d];
      rest /= mask->sizes()[d];
    }
    ++next;
  }
  return made;
}

Indexed indexed(Tensor self, const Tensor* const* indices, int64_t count, const char* name, bool wraps = true) {
  std::vector<Owned> owned;
  std::vector<Tensor> by_dim;  // null: the dimension is not indexed
  for (int64_t i = 0; i < count; ++i) {
    const Tensor index = indices[i] == nullptr ? nullptr : *indices[i];
    if (index != nullptr && (index->dtype == kBool || index->dtype == kU8)) {
      for (Owned& one : positions_of(index)) {
        by_dim.push_back(one.get());
        owned.push_back(std::move(one));
      }
    } else {
      if (index != nullptr) require_indices(index, name);
      by_dim.push_back(index);
    }
  }
  if (static_cast<int64_t>(by_dim.size()) > self->rank) fail_operator(name, "there are more indices than dimensions");
  by_dim.resize(static_cast<size_t>(self->rank), nullptr);
  Sizes common;
  int64_t first = -1, last = -1, used = 0;
  for (size_t d = 0; d < by_dim.size(); ++d) {
    if (by_dim[d] == nullptr) continue;
    common = broadcast(common, sizes_of(by_dim[d]), name);
    if (first < 0) first = static_cast<int64_t>(d);
    last = static_cast<int64_t>(d);
    ++used;
  }
  const bool adjacent = used > 0 && last - first + 1 == used;
  Indexed made;
  Sizes base, offset_sizes;
  const auto add_common = [&] {
    made.sizes.insert(made.sizes.end(), common.begin(), common.end());
    offset_sizes.insert(offset_sizes.end(), common.begin(), common.end());
    base.insert(base.end(), common.size(), 0);
  };
  if (!adjacent) add_common();
  for (size_t d = 0; d < by_dim.size(); ++d) {
    if (adjacent && static_cast<int64_t>(d) == first) add_common();
    if (by_dim[d] != nullptr) continue;
    made.sizes.push_back(self->sizes()[d]);
    offset_sizes.push_back(1);
    base.push_back(self->strides()[d]);
  }
  made.base = view_of(self, made.sizes, base);
  Owned total = zeros(common, kI64);
  for (size_t d = 0; d < by_dim.size(); ++d) {
    if (by_dim[d] == nullptr) continue;
    const int64_t length = self->sizes()[d], step = self->strides()[d] * element_size(self->dtype);
    Loop(common, {total.get(), by_dim[d]}).run([&](unsigned char* const* at, const int64_t* steps, int64_t number) {
      for (int64_t i = 0; i < number; ++i) {
        const int64_t found = load_index(at[1] + i * steps[1], by_dim[d]->dtype);
        if (found >= length || found < (wraps ? -length : 0)) fail_index(name, found, length);
        *reinterpret_cast<int64_t*>(at[0] + i * steps[0]) += (found < 0 ? found + length : found) * step;
      }
    });
  }
  made.offsets = reshaped(total.get(), offset_sizes);
  return made;
}

Owned read_indexed(Tensor self, const Tensor* const* indices, int64_t count, const char* name) {
  const Indexed at = indexed(self, indices, count, name);
  // Torch moves the indexed dimensions to the front; the result has the order of strides of that.
  Owned made = empty(at.sizes, self->dtype);
  const auto size = static_cast<size_t>(element_size(self->dtype));
  Loop(at.sizes, {made.get(), at.base.get(), at.offsets.get()})
      .run([&](unsigned char* const* item, const int64_t* steps, int64_t number) {
        for (int64_t i = 0; i < number; ++i) {
          const int64_t offset = *reinterpret_cast<int64_t*>(item[2] + i * steps[2]);
          std::memcpy(item[0] + i * steps[0], item[1] + i * steps[1] + offset, size);
        }
      });
  return made;
}

void write_indexed(Tensor self, const Tensor* const* indices, int64_t count, Tensor values, bool accumulate, const char* name) {
  if (values->dtype != self->dtype) fail_dtype(name, values->dtype);
  const Indexed at = indexed(self, indices, count, name);
  if (broadcast(at.sizes, sizes_of(values), name) != at.sizes) fail_operator(name, "the values have more elements than the indices");
  const Combine combine = combine_of(self->dtype, name);
  const Owned apart = clone_like(values);  // it may be a part of `self`
  Loop(at.sizes, {apart.get(), at.base.get(), at.offsets.get()})
      .run([&](unsigned char* const* item, const int64_t* steps, int64_t number) {
        for (int64_t i = 0; i < number; ++i) {
          const int64_t offset = *reinterpret_cast<int64_t*>(item[2] + i * steps[2]);
          combine(item[1] + i * steps[1] + offset, item[0] + i * steps[0], accumulate ? Reduce::kSum : Reduce::kReplace);
        }
      });
}

/// Indices, each limited to the size of its dimension.
class Limited {
 public:
  Limited(Tensor self, const Tensor* const* indices, int64_t count, const char* name) {
    if (count > self->rank) fail_operator(name, "there are more indices than dimensions");
    for (int64_t d = 0; d < count; ++d) {
      if (indices[d] == nullptr) {
        owned_.push_back(nullptr);
        continue;
      }
      require_indices(*indices[d], name);
      Owned made = empty(sizes_of(*indices[d]), kI64);
      copy_into(made.get(), *indices[d]);
      const int64_t size = self->sizes()[d], last = std::max<int64_t>(size - 1, -size);
      int64_t* items = data_of<int64_t>(made.get());
      for (int64_t i = 0; i < made->count; ++i) items[i] = std::clamp(items[i], -size, last);
      owned_.push_back(std::move(made));
    }
    for (const Owned& one : owned_) handles_.push_back(one.get());
    for (const Tensor& one : handles_) pointers_.push_back(one == nullptr ? nullptr : &one);
  }
  const Tensor* const* data() const { return pointers_.data(); }

 private:
  std::vector<Owned> owned_;
  std::vector<Tensor> handles_;
  std::vector<const Tensor*> pointers_;
};

/// Sets the elements whose flag is false to a number.
void fill_unset(Tensor tensor, Tensor mask, double fill, const char* name) {
  if (mask->dtype != kBool) fail_dtype(name, mask->dtype);
  if (broadcast(sizes_of(tensor), sizes_of(mask), name) != sizes_of(tensor)) fail_operator(name, "the mask has more elements");
  const int64_t size = element_size(tensor->dtype);
  unsigned char value[sizeof(double) * 2];
  const bool is_whole = !is_float(tensor->dtype) && !is_complex(tensor->dtype);
  store_number(value, tensor->dtype, {fill, 0, is_whole ? converted<int64_t>(fill) : 0, is_whole, false});
  Loop(sizes_of(tensor), {tensor, mask}).run([&](unsigned char* const* at, const int64_t* steps, int64_t count) {
    for (int64_t i = 0; i < count; ++i) {
      if (*(at[1] + i * steps[1]) == 0) std::memcpy(at[0] + i * steps[0], value, static_cast<size_t>(size));
    }
  });
}

}  // namespace
}  // namespace wir

using namespace wir;

WIR_OPERATOR(index_Tensor)(Tensor self, const Tensor** indices, int64_t indices_len_, Tensor* ret0) {
  *ret0 = read_indexed(self, indices, indices_len_, "aten::index.Tensor").release();
  return 0;
}

WIR_OPERATOR(_unsafe_index_Tensor)(Tensor self, const Tensor** indices, int64_t indices_len_, Tensor* ret0) {
  *ret0 = read_indexed(self, indices, indices_len_, "aten::_unsafe_index.Tensor").release();
  return 0;
}

WIR_OPERATOR(index_put_)(Tensor self, const Tensor** indices, int64_t indices_len_, Tensor values, int32_t accumulate) {
  write_indexed(self, indices, indices_len_, values, accumulate != 0, "aten::index_put_");
  return 0;
}

WIR_OPERATOR(index_put)(Tensor self, const Tensor** indices, int64_t indices_len_, Tensor values, int32_t accumulate, Tensor* ret0) {
  Owned made = clone_like(self);
  write_indexed(made.get(), indices, indices_len_, values, accumulate != 0, "aten::index_put");
  *ret0 = made.release();
  return 0;
}

WIR_OPERATOR(embedding)(Tensor weight, Tensor indices, int64_t, int32_t, int32_t, Tensor* ret0) {
  constexpr const char* kName = "aten::embedding";
  if (weight->rank != 2) fail_operator(kName, "the weight does not have two dimensions");
  const Tensor* const rows[] = {&indices};
  *ret0 = read_indexed(weight, rows, 1, kName).release();
  return 0;
}

WIR_OPERATOR(masked_scatter)(Tensor self, Tensor mask, Tensor source, Tensor* ret0) {
  constexpr const char* kName = "aten::masked_scatter";
  if (mask->dtype != kBool) fail_dtype(kName, mask->dtype);
  if (source->dtype != self->dtype) fail_dtype(kName, source->dtype);
  const Sizes sizes = broadcast(sizes_of(self), sizes_of(mask), kName);
  Owned made = empty(sizes, self->dtype);
  copy_into(made.get(), self);
  const Owned values = contiguous(source);
  const int64_t size = element_size(self->dtype);
  int64_t next = 0;
  Loop(sizes, {made.get(), mask}).run([&](unsigned char* const* at, const int64_t* steps, int64_t count) {
    for (int64_t i = 0; i < count; ++i) {
      if (*(at[1] + i * steps[1]) == 0) continue;
      if (next == values->count) fail_operator(kName, "the source has fewer elements than the mask");
      std::memcpy(at[0] + i * steps[0], values->data() + next++ * size, static_cast<size_t>(size));
    }
  });
  *ret0 = made.release();
  return 0;
}

WIR_OPERATOR(nonzero_static)(Tensor self, int64_t size, int64_t fill_value, Tensor* ret0) {
  constexpr const char* kName = "aten::nonzero_static";
  if (size < 0) fail_operator(kName, "the size is negative");
  const std::vector<Owned> found = positions_of(self);
  const int64_t count = found.empty() ? 0 : std::min(size, found[0]->count);
  Owned made = empty({size, self->rank}, kI64);
  for (int64_t i = 0; i < size; ++i) {
    for (int64_t d = 0; d < self->rank; ++d) {
      const int64_t value = i < count ? data_of<int64_t>(found[static_cast<size_t>(d)].get())[i] : fill_value;
      data_of<int64_t>(made.get())[i * self->rank + d] = value;
    }
  }
  *ret0 = made.release();
  return 0;
}

WIR_OPERATOR(nonzero)(Tensor self, Tensor* ret0) {
  std::vector<Owned> found;
  int64_t count = 0;
  if (self->rank == 0) {
    const Owned flag = contiguous(self, kBool);
    count = *flag->data() != 0 ? 1 : 0;
  } else {
    found = positions_of(self);
    count = found[0]->count;
  }
  Owned made = empty({count, self->rank}, {1, count}, kI64);  // torch's result is transposed
  for (int64_t d = 0; d < self->rank; ++d) {
    const int64_t* items = data_of<int64_t>(found[static_cast<size_t>(d)].get());
    std::copy(items, items + count, data_of<int64_t>(made.get()) + d * count);
  }
  *ret0 = made.release();
  return 0;
}

WIR_OPERATOR(repeat_interleave_Tensor)(Tensor repeats, int64_t* output_size, Tensor* ret0) {
  constexpr const char* kName = "aten::repeat_interleave.Tensor";
  if (repeats->dtype != kI64 && repeats->dtype != kI32) fail_dtype(kName, repeats->dtype);
  if (repeats->rank != 1) fail_operator(kName, "the tensor does not have one dimension");
  const Owned dense = contiguous(repeats, kI64);
  const int64_t* counts = data_of<int64_t>(dense.get());
  int64_t total = 0;
  for (int64_t i = 0; i < dense->count; ++i) {
    if (counts[i] < 0) fail_operator(kName, "a count is negative");
    total += counts[i];
  }
  if (output_size != nullptr && *output_size != total) fail_operator(kName, "the counts do not give the output size");
  Owned made = empty({total}, repeats->dtype);
  int64_t next = 0;
  for (int64_t i = 0; i < dense->count; ++i) {
    for (int64_t k = 0; k < counts[i]; ++k, ++next) {
      if (made->dtype == kI64) {
        data_of<int64_t>(made.get())[next] = i;
      } else {
        data_of<int32_t>(made.get())[next] = static_cast<int32_t>(i);
      }
    }
  }
  *ret0 = made.release();
  return 0;
}

WIR_OPERATOR(_unsafe_masked_index)(Tensor self, Tensor mask, const Tensor** indices, int64_t indices_len_, double fill,
                                   Tensor* ret0) {
  constexpr const char* kName = "aten::_unsafe_masked_index";
  const Limited limited(self, indices, indices_len_, kName);
  Owned made = read_indexed(self, limited.data(), indices_len_, kName);
  fill_unset(made.get(), mask, fill, kName);
  *ret0 = made.release();
  return 0;
}

WIR_OPERATOR(_unsafe_masked_index_put_accumulate)(Tensor self, Tensor mask, const Tensor** indices, int64_t indices_len_,
                                                  Tensor values, Tensor* ret0) {
  constexpr const char* kName = "aten::_unsafe_masked_index_put_accumulate";
  const Limited limited(self, indices, indices_len_, kName);
  const Owned set = clone_like(values);
  fill_unset(set.get(), mask, 0, kName);
  Owned made = clone_like(self);
  write_indexed(made.get(), limited.data(), indices_len_, set.get(), true, kName);
  *ret0 = made.release();
  return 0;
}
