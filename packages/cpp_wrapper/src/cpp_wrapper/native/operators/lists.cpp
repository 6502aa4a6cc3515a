// Operators whose results are lists: the parts of a tensor along a dimension.
#include "layouts.h"

namespace wir {
namespace {

/// Where the program takes the first tensors of a list.
struct List {
  Tensor* to;
  int64_t count;
};

/// Returns a view of `length` indices of a dimension, from `begin` on.
Owned part_of(Tensor self, int64_t dim, int64_t begin, int64_t length) {
  Sizes sizes = sizes_of(self);
  sizes[static_cast<size_t>(dim)] = length;
  return view_of(self, sizes, strides_of(self), begin * self->strides()[dim]);
}

int64_t checked_dim(Tensor self, int64_t dim, const char* name) {
  if (self->rank == 0) fail_operator(name, "the tensor has no dimensions");
  return wrap_dim(dim, self->rank, name);
}

/// Writes the tensors that the program takes: `make(i)` for each index.
template <class Make> void give(const List& list, int64_t available, const char* name, const Make& make) {
  if (list.count > available) fail_operator(name, "the program takes more tensors than the list has");
  std::vector<Owned> made;
  for (int64_t i = 0; i < list.count; ++i) made.push_back(make(i));
  for (int64_t i = 0; i < list.count; ++i) list.to[i] = made[static_cast<size_t>(i)].release();
}

/// Makes each part of a list a tensor of its own.
Owned owned_or_copied(Owned part, bool copies) {
  if (!copies) return part;
  Owned made = empty(sizes_of(part.get()), part->dtype);
  copy_into(made.get(), part.get());
  return made;
}

/// Parts of `size` indices; the last one has the rest.
void split_evenly(const List& list, Tensor self, int64_t size, int64_t dim, bool copies, const char* name) {
  dim = checked_dim(self, dim, name);
  const int64_t length = self->sizes()[dim];
  if (size < 0 || (size == 0 && length > 0)) fail_operator(name, "the size of a part is not positive");
  const int64_t parts = size == 0 ? 1 : std::max<int64_t>(1, (length + size - 1) / size);
  give(list, parts, name, [&](int64_t i) {
    return owned_or_copied(part_of(self, dim, i * size, i + 1 < parts ? size : length - i * size), copies);
  });
}

void split_by_sizes(const List& list, Tensor self, const int64_t* sizes, int64_t count, int64_t dim, bool copies, const char* name) {
  dim = checked_dim(self, dim, name);
  std::vector<int64_t> begins(1, 0);
  for (int64_t i = 0; i < count; ++i) {
    if (sizes[i] < 0) fail_operator(name, "the size of a part is negative");
    begins.push_back(begins.back() + sizes[i]);
  }
  if (begins.back() != self->sizes()[dim]) fail_operator(name, "the sizes of the parts do not add up to the dimension's");
  give(list, count, name, [&](int64_t i) {
    return owned_or_copied(part_of(self, dim, begins[static_cast<size_t>(i)], sizes[i]), copies);
  });
}

/// As many parts as `chunks`, or less, all but the last of one size.
void split_in_chunks(const List& list, Tensor self, int64_t chunks, int64_t dim, const char* name) {
  dim = checked_dim(self, dim, name);
  if (chunks <= 0) fail_operator(name, "the number of parts is not positive");
  const int64_t length = self->sizes()[dim], size = (length + chunks - 1) / chunks;
  if (size > 0) return split_evenly(list, self, size, dim, false, name);
  give(list, chunks, name, [&](int64_t) { return part_of(self, dim, 0, 0); });  // of nothing, all parts
}

/// As many parts as `sections`, whose sizes differ by at most 1.
void split_in_sections(const List& list, Tensor self, int64_t sections, int64_t dim, const char* name) {
  dim = checked_dim(self, dim, name);
  if (sections <= 0) fail_operator(name, "the number of parts is not positive");
  const int64_t length = self->sizes()[dim], size = length / sections, larger = length % sections;
  give(list, sections, name, [&](int64_t i) {
    return part_of(self, dim, i * size + std::min(i, larger), size + (i < larger ? 1 : 0));
  });
}

/// The tensors at each index of a dimension.
void unbind(const List& list, Tensor self, int64_t dim, bool copies, const char* name) {
  dim = checked_dim(self, dim, name);
  Sizes sizes = sizes_of(self), strides = strides_of(self);
  sizes.erase(sizes.begin() + dim);
  strides.erase(strides.begin() + dim);
  give(list, self->sizes()[dim], name, [&](int64_t i) {
    return owned_or_copied(view_of(self, sizes, strides, i * self->strides()[dim]), copies);
  });
}

}  // namespace
}  // namespace wir

using namespace wir;

WIR_OPERATOR(split_Tensor)(Tensor self, int64_t split_size, int64_t dim, Tensor* ret0, int64_t ret0_len_) {
  split_evenly({ret0, ret0_len_}, self, split_size, dim, false, "aten::split.Tensor");
  return 0;
}

WIR_OPERATOR(unsafe_split_Tensor)(Tensor self, int64_t split_size, int64_t dim, Tensor* ret0, int64_t ret0_len_) {
  split_evenly({ret0, ret0_len_}, self, split_size, dim, false, "aten::unsafe_split.Tensor");
  return 0;
}

WIR_OPERATOR(split_copy_Tensor)(Tensor self, int64_t split_size, int64_t dim, Tensor* ret0, int64_t ret0_len_) {
  split_evenly({ret0, ret0_len_}, self, split_size, dim, true, "aten::split_copy.Tensor");
  return 0;
}

WIR_OPERATOR(split_with_sizes)
(Tensor self, const int64_t* split_sizes, int64_t split_sizes_len_, int64_t dim, Tensor* ret0, int64_t ret0_len_) {
  split_by_sizes({ret0, ret0_len_}, self, split_sizes, split_sizes_len_, dim, false, "aten::split_with_sizes");
  return 0;
}

WIR_OPERATOR(unsafe_split_with_sizes)
(Tensor self, const int64_t* split_sizes, int64_t split_sizes_len_, int64_t dim, Tensor* ret0, int64_t ret0_len_) {
  split_by_sizes({ret0, ret0_len_}, self, split_sizes, split_sizes_len_, dim, false, "aten::unsafe_split_with_sizes");
  return 0;
}

WIR_OPERATOR(split_with_sizes_copy)
(Tensor self, const int64_t* split_sizes, int64_t split_sizes_len_, int64_t dim, Tensor* ret0, int64_t ret0_len_) {
  split_by_sizes({ret0, ret0_len_}, self, split_sizes, split_sizes_len_, dim, true, "aten::split_with_sizes_copy");
  return 0;
}

WIR_OPERATOR(chunk)(Tensor self, int64_t chunks, int64_t dim, Tensor* ret0, int64_t ret0_len_) {
  split_in_chunks({ret0, ret0_len_}, self, chunks, dim, "aten::chunk");
  return 0;
}

WIR_OPERATOR(unsafe_chunk)(Tensor self, int64_t chunks, int64_t dim, Tensor* ret0, int64_t ret0_len_) {
  split_in_chunks({ret0, ret0_len_}, self, chunks, dim, "aten::unsafe_chunk");
  return 0;
}

WIR_OPERATOR(tensor_split_sections)(Tensor self, int64_t sections, int64_t dim, Tensor* ret0, int64_t ret0_len_) {
  split_in_sections({ret0, ret0_len_}, self, sections, dim, "aten::tensor_split.sections");
  return 0;
}

WIR_OPERATOR(tensor_split_indices)
(Tensor self, const int64_t* indices, int64_t indices_len_, int64_t dim, Tensor* ret0, int64_t ret0_len_) {
  constexpr const char* kName = "aten::tensor_split.indices";
  dim = checked_dim(self, dim, kName);
  const int64_t length = self->sizes()[dim];
  const auto bounded = [&](int64_t at) { return std::clamp<int64_t>(at < 0 ? at + length : at, 0, length); };
  give({ret0, ret0_len_}, indices_len_ + 1, kName, [&](int64_t i) {
    const int64_t begin = i == 0 ? 0 : bounded(indices[i - 1]), end = i < indices_len_ ? bounded(indices[i]) : length;
    return part_of(self, dim, begin, std::max<int64_t>(0, end - begin));
  });
  return 0;
}

WIR_OPERATOR(unbind_int)(Tensor self, int64_t dim, Tensor* ret0, int64_t ret0_len_) {
  unbind({ret0, ret0_len_}, self, dim, false, "aten::unbind.int");
  return 0;
}

WIR_OPERATOR(unbind_copy_int)(Tensor self, int64_t dim, Tensor* ret0, int64_t ret0_len_) {
  unbind({ret0, ret0_len_}, self, dim, true, "aten::unbind_copy.int");
  return 0;
}
