// Reads and writes along one dimension, at indices that a tensor contains.
#include "indices.h"

namespace wir {
namespace {

// --- one index for each element

/// Visits each element of `index`: `body(at, position)`, where `at[i]` is the address for tensor `i` at the element's place, and
/// for tensor 0 at index 0 of `dim`.
template <class Body> void for_indices(Tensor self, Tensor index, Tensor other, int64_t dim, const Body& body) {
  Sizes sizes = sizes_of(index), self_strides(sizes.size()), other_strides(sizes.size());
  for (size_t i = 0; i < sizes.size(); ++i) {
    self_strides[i] = static_cast<int64_t>(i) == dim ? 0 : self->strides()[i];
    other_strides[i] = other == nullptr ? 0 : other->strides()[i];
  }
  // Views of the size of `index`, so that loops and bounds are those of `index`.
  const Owned first = view_of(self, sizes, self_strides);
  const Owned second = other == nullptr ? Owned() : view_of(other, sizes, other_strides);
  Loop(sizes, {first.get(), index, second.get()}).run([&](unsigned char* const* at, const int64_t* steps, int64_t count) {
    for (int64_t i = 0; i < count; ++i) {
      body(at[0] + i * steps[0], load_index(at[1] + i * steps[1], index->dtype), second ? at[2] + i * steps[2] : nullptr);
    }
  });
}

void require_fit(Tensor self, Tensor index, Tensor source, int64_t dim, const char* name) {
  require_indices(index, name);
  const int64_t self_rank = std::max<int64_t>(self->rank, 1), rank = std::max<int64_t>(index->rank, 1);
  if (index->count == 0) return;
  if (self_rank != rank || (source != nullptr && std::max<int64_t>(source->rank, 1) != rank)) {
    fail_operator(name, "the tensors have different ranks");
  }
  for (int64_t i = 0; i < index->rank; ++i) {
    const int64_t size = index->sizes()[i];
    if (i != dim && self->rank > 0 && size > self->sizes()[i]) fail_operator(name, "the indices have more elements than the tensor");
    if (source != nullptr && source->rank > 0 && size > source->sizes()[i]) {
      fail_operator(name, "the indices have more elements than the source");
    }
  }
}

/// A tensor without dimensions as one with one.
Owned with_dimension(Tensor tensor) {
  return tensor->rank > 0 ? Owned(same(tensor)) : view_of(tensor, {1}, {1});
}

Owned gathered(Tensor self, int64_t dim, Tensor index, const char* name) {
  dim = wrap_dim(dim, self->rank, name);
  require_fit(self, index, nullptr, dim, name);
  Owned made = empty(sizes_of(index), self->dtype);
  if (index->count == 0) return made;
  const Owned from = with_dimension(self), at = with_dimension(index), to = with_dimension(made.get());
  const int64_t length = from->sizes()[dim], size = element_size(self->dtype), step = from->strides()[dim] * size;
  for_indices(from.get(), at.get(), to.get(), dim, [&](unsigned char* base, int64_t found, unsigned char* target) {
    if (found < -length || found >= length) fail_index(name, found, length);
    std::memcpy(target, base + (found < 0 ? found + length : found) * step, static_cast<size_t>(size));
  });
  return made;
}

/// Combines elements of `self` with those of `source`, or with a number.
void scatter(Tensor self, int64_t dim, Tensor index, Tensor source, const unsigned char* number, Reduce reduce, bool include_self,
             const char* name) {
  dim = wrap_dim(dim, self->rank, name);
  require_fit(self, index, source, dim, name);
  if (index->count == 0) return;
  const Owned to = with_dimension(self), at = with_dimension(index);
  const Owned from = source == nullptr ? Owned() : with_dimension(source);
  if (source != nullptr && source->dtype != self->dtype) fail_dtype(name, source->dtype);
  const int64_t length = to->sizes()[dim], size = element_size(self->dtype), step = to->strides()[dim] * size;
  const auto place = [&](unsigned char* base, int64_t found) {
    if (found < -length || found >= length) fail_index(name, found, length);
    return base + (found < 0 ? found + length : found) * step;
  };
  if (!include_self && reduce != Reduce::kReplace) {
    const Number first = first_of(reduce, self->dtype);
    for_indices(to.get(), at.get(), nullptr, dim, [&](unsigned char* base, int64_t found, unsigned char*) {
      store_number(place(base, found), self->dtype, first);
    });
  }
  const Combine combine = combine_of(self->dtype, name);
  for_indices(to.get(), at.get(), from.get(), dim, [&](unsigned char* base, int64_t found, unsigned char* value) {
    combine(place(base, found), number != nullptr ? number : value, reduce);
  });
  if (reduce != Reduce::kMean) return;
  Owned counts = zeros(sizes_of(to.get()), kI64);
  for_indices(counts.get(), at.get(), nullptr, dim, [&](unsigned char* base, int64_t found, unsigned char*) {
    ++*reinterpret_cast<int64_t*>(base + (found < 0 ? found + length : found) * counts->strides()[dim] * 8);
  });
  Loop(sizes_of(to.get()), {to.get(), counts.get()}).run([&](unsigned char* const* item, const int64_t* steps, int64_t count) {
    for (int64_t i = 0; i < count; ++i) {
      const int64_t found = *reinterpret_cast<int64_t*>(item[1] + i * steps[1]);
      const int64_t divisor = found + (include_self ? 1 : 0);
      if (found > 0) divide(item[0] + i * steps[0], self->dtype, divisor);
    }
  });
}

// --- one index for each slice

/// The slice at an index of a dimension.
Owned slice_at(Tensor tensor, int64_t dim, int64_t index) {
  Sizes sizes = sizes_of(tensor), strides = strides_of(tensor);
  if (sizes.empty()) return Owned(same(tensor));
  const int64_t offset = index * strides[static_cast<size_t>(dim)];
  sizes.erase(sizes.begin() + dim);
  strides.erase(strides.begin() + dim);
  return view_of(tensor, sizes, strides, offset);
}

Sizes read_indices(Tensor index, int64_t length, const char* name) {
  require_indices(index, name);
  if (index->rank > 1) fail_operator(name, "the indices have more than one dimension");
  const Owned dense = contiguous(index, kI64);
  Sizes found(data_of<int64_t>(dense.get()), data_of<int64_t>(dense.get()) + dense->count);
  for (int64_t& item : found) {
    if (item < -length || item >= length) fail_index(name, item, length);
    if (item < 0) item += length;
  }
  return found;
}

Owned selected(Tensor self, int64_t dim, Tensor index, const char* name) {
  dim = wrap_dim(dim, self->rank, name);
  const Sizes indices = read_indices(index, self->rank == 0 ? 1 : self->sizes()[dim], name);
  Sizes sizes = sizes_of(self);
  if (!sizes.empty()) sizes[static_cast<size_t>(dim)] = static_cast<int64_t>(indices.size());
  Owned made = empty(sizes, self->dtype);
  for (size_t i = 0; i < indices.size(); ++i) {
    const Owned to = slice_at(made.get(), dim, static_cast<int64_t>(i)), from = slice_at(self, dim, indices[i]);
    copy_into(to.get(), from.get());
  }
  return made;
}

/// Combines slices of `self` with those of `source`, each multiplied by `alpha`.
void combine_slices(Tensor self, int64_t dim, Tensor index, Tensor source, Reduce reduce, bool include_self, const char* name) {
  dim = wrap_dim(dim, self->rank, name);
  const Sizes indices = read_indices(index, self->rank == 0 ? 1 : self->sizes()[dim], name);
  if (source->dtype != self->dtype) fail_dtype(name, source->dtype);
  const int64_t count = source->rank == 0 ? 1 : source->sizes()[dim];
  if (count != static_cast<int64_t>(indices.size())) fail_operator(name, "there is not one index for each slice");
  const Combine combine = combine_of(self->dtype, name);
  Sizes counts(static_cast<size_t>(self->rank == 0 ? 1 : self->sizes()[dim]), 0);
  for (size_t i = 0; i < indices.size(); ++i) {
    const Owned to = slice_at(self, dim, indices[i]), from = slice_at(source, dim, static_cast<int64_t>(i));
    if (!include_self && counts[static_cast<size_t>(indices[i])] == 0) {
      const Number first = first_of(reduce, self->dtype);
      Loop(sizes_of(to.get()), {to.get()}).run([&](unsigned char* const* at, const int64_t* steps, int64_t number) {
        for (int64_t j = 0; j < number; ++j) store_number(at[0] + j * steps[0], self->dtype, first);
      });
    }
    ++counts[static_cast<size_t>(indices[i])];
    Loop(sizes_of(to.get()), {to.get(), from.get()}).run([&](unsigned char* const* at, const int64_t* steps, int64_t number) {
      for (int64_t j = 0; j < number; ++j) combine(at[0] + j * steps[0], at[1] + j * steps[1], reduce);
    });
  }
  for (size_t i = 0; reduce == Reduce::kMean && i < counts.size(); ++i) {
    const int64_t divisor = counts[i] + (include_self ? 1 : 0);
    if (counts[i] == 0) continue;
    const Owned to = slice_at(self, dim, static_cast<int64_t>(i));
    Loop(sizes_of(to.get()), {to.get()}).run([&](unsigned char* const* at, const int64_t* steps, int64_t number) {
      for (int64_t j = 0; j < number; ++j) divide(at[0] + j * steps[0], self->dtype, divisor);
    });
  }
}

}  // namespace
}  // namespace wir

using namespace wir;

WIR_OPERATOR(gather)(Tensor self, int64_t dim, Tensor index, int32_t, Tensor* ret0) {
  *ret0 = gathered(self, dim, index, "aten::gather").release();
  return 0;
}

WIR_OPERATOR(scatter_src_out)(Tensor out, Tensor self, int64_t dim, Tensor index, Tensor src) {
  copy_into(out, self);
  scatter(out, dim, index, src, nullptr, Reduce::kReplace, true, "aten::scatter.src_out");
  return 0;
}

WIR_OPERATOR(scatter_value_out)(Tensor out, Tensor self, int64_t dim, Tensor index, double value) {
  copy_into(out, self);
  const bool is_whole = !is_float(out->dtype) && !is_complex(out->dtype);
  unsigned char number[16];
  store_number(number, out->dtype, {value, 0, is_whole ? static_cast<int64_t>(value) : 0, is_whole, false});
  scatter(out, dim, index, nullptr, number, Reduce::kReplace, true, "aten::scatter.value_out");
  return 0;
}

WIR_OPERATOR(scatter_add_)(Tensor self, int64_t dim, Tensor index, Tensor src) {
  scatter(self, dim, index, src, nullptr, Reduce::kSum, true, "aten::scatter_add_");
  return 0;
}

WIR_OPERATOR(scatter_reduce__two)(Tensor self, int64_t dim, Tensor index, Tensor src, const char* reduce, int32_t include_self) {
  constexpr const char* kName = "aten::scatter_reduce_.two";
  scatter(self, dim, index, src, nullptr, reduce_of(reduce, kName), include_self != 0, kName);
  return 0;
}

WIR_OPERATOR(scatter_reduce_two)(Tensor self, int64_t dim, Tensor index, Tensor src, const char* reduce, int32_t include_self,
                                 Tensor* ret0) {
  constexpr const char* kName = "aten::scatter_reduce.two";
  Owned made = clone_like(self);
  scatter(made.get(), dim, index, src, nullptr, reduce_of(reduce, kName), include_self != 0, kName);
  *ret0 = made.release();
  return 0;
}

WIR_OPERATOR(index_select)(Tensor self, int64_t dim, Tensor index, Tensor* ret0) {
  *ret0 = selected(self, dim, index, "aten::index_select").release();
  return 0;
}

WIR_OPERATOR(index_reduce)(Tensor self, int64_t dim, Tensor index, Tensor source, const char* reduce, int32_t include_self,
                           Tensor* ret0) {
  constexpr const char* kName = "aten::index_reduce";
  Owned made = empty(sizes_of(self), self->dtype);
  copy_into(made.get(), self);
  combine_slices(made.get(), dim, index, source, reduce_of(reduce, kName), include_self != 0, kName);
  *ret0 = made.release();
  return 0;
}
