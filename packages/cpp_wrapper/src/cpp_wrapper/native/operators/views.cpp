// Views: other sizes and strides over the memory of a tensor.
#include "layouts.h"

namespace wir {
namespace {

/// Creates a view whose element type differs; `offset` and strides count elements of that type.
Owned view_as(Tensor base, const Sizes& sizes, const Sizes& strides, int64_t nbytes_offset, int32_t dtype) {
  return Owned(new_view(base, base->offset + nbytes_offset, static_cast<int64_t>(sizes.size()), sizes.data(), strides.data(), dtype));
}

Owned without(Tensor self, const std::vector<bool>& dropped) {
  Sizes sizes, strides;
  for (int64_t i = 0; i < self->rank; ++i) {
    if (dropped[static_cast<size_t>(i)] && self->sizes()[i] == 1) continue;
    sizes.push_back(self->sizes()[i]);
    strides.push_back(self->strides()[i]);
  }
  return view_of(self, sizes, strides);
}

Owned permuted(Tensor self, const Sizes& dims, const char* name) {
  Sizes sizes, strides;
  std::vector<bool> seen(static_cast<size_t>(self->rank));
  if (static_cast<int64_t>(dims.size()) != self->rank) fail_operator(name, "one index for each dimension is required");
  for (const int64_t given : dims) {
    const int64_t dim = wrap_dim(given, self->rank, name);
    if (seen[static_cast<size_t>(dim)]) fail_operator(name, "a dimension is repeated");
    seen[static_cast<size_t>(dim)] = true;
    sizes.push_back(self->sizes()[dim]);
    strides.push_back(self->strides()[dim]);
  }
  return view_of(self, sizes, strides);
}

Owned transposed(Tensor self, int64_t first, int64_t second, const char* name) {
  Sizes sizes = sizes_of(self), strides = strides_of(self);
  if (self->rank == 0) return view_of(self, sizes, strides);
  const auto a = static_cast<size_t>(wrap_dim(first, self->rank, name)), b = static_cast<size_t>(wrap_dim(second, self->rank, name));
  std::swap(sizes[a], sizes[b]);
  std::swap(strides[a], strides[b]);
  return view_of(self, sizes, strides);
}

/// Replaces a size of -1 by what is missing. Fails if the number of elements differs.
Sizes with_inferred(Tensor self, Sizes sizes, const char* name) {
  int64_t known = 1, unknown = -1;
  for (size_t i = 0; i < sizes.size(); ++i) {
    if (sizes[i] == -1) {
      if (unknown >= 0) fail_operator(name, "two sizes are to be inferred");
      unknown = static_cast<int64_t>(i);
    } else {
      known *= sizes[i];
    }
  }
  if (unknown >= 0) {
    if (known == 0 || self->count % known != 0) fail_operator(name, "the number of elements differs");
    sizes[static_cast<size_t>(unknown)] = self->count / known;
  } else if (known != self->count) {
    fail_operator(name, "the number of elements differs");
  }
  return sizes;
}

/// Returns the strides of a view with other sizes; false if there is none.
bool view_strides(Tensor self, const Sizes& sizes, Sizes& made) {
  made = contiguous_strides(sizes);
  if (self->count == 0) {
    if (sizes == sizes_of(self)) made = strides_of(self);
    return true;
  }
  auto next = static_cast<int64_t>(sizes.size()) - 1;  // of the dimensions of the view
  for (int64_t dim = self->rank - 1; dim >= 0; --dim) {
    // One run of dimensions in memory, from `dim` outwards.
    const int64_t step = self->strides()[dim];
    int64_t count = self->sizes()[dim];
    while (dim > 0 && (self->sizes()[dim - 1] == 1 || self->strides()[dim - 1] == step * count)) count *= self->sizes()[--dim];
    int64_t covered = 1;
    while (next >= 0 && (covered < count || sizes[static_cast<size_t>(next)] == 1)) {
      made[static_cast<size_t>(next)] = covered * step;
      covered *= sizes[static_cast<size_t>(next--)];
    }
    if (covered != count) return false;
  }
  return next < 0 || self->rank == 0;
}

}  // namespace
}  // namespace wir

using namespace wir;

WIR_OPERATOR(slice_Tensor)(Tensor self, int64_t dim, int64_t* start, int64_t* end, int64_t step, Tensor* ret0) {
  *ret0 = sliced(self, dim, start, end, step, "aten::slice.Tensor").release();
  return 0;
}

WIR_OPERATOR(select_int)(Tensor self, int64_t dim, int64_t index, Tensor* ret0) {
  constexpr const char* kName = "aten::select.int";
  if (self->rank == 0) fail_operator(kName, "the tensor has no dimensions");
  dim = wrap_dim(dim, self->rank, kName);
  Sizes sizes = sizes_of(self), strides = strides_of(self);
  const int64_t size = sizes[static_cast<size_t>(dim)];
  if (index < -size || index >= size) fail_text("WIR927", {kName, " failed: index ", index, " of ", size, " elements"});
  const int64_t offset = (index < 0 ? index + size : index) * strides[static_cast<size_t>(dim)];
  sizes.erase(sizes.begin() + dim);
  strides.erase(strides.begin() + dim);
  *ret0 = view_of(self, sizes, strides, offset).release();
  return 0;
}

WIR_OPERATOR(permute)(Tensor self, const int64_t* dims, int64_t dims_len_, Tensor* ret0) {
  *ret0 = permuted(self, Sizes(dims, dims + dims_len_), "aten::permute").release();
  return 0;
}

WIR_OPERATOR(transpose_int)(Tensor self, int64_t dim0, int64_t dim1, Tensor* ret0) {
  *ret0 = transposed(self, dim0, dim1, "aten::transpose.int").release();
  return 0;
}

WIR_OPERATOR(t)(Tensor self, Tensor* ret0) {
  constexpr const char* kName = "aten::t";
  if (self->rank > 2) fail_operator(kName, "the tensor has more than two dimensions");
  *ret0 = (self->rank < 2 ? view_of(self, sizes_of(self), strides_of(self)) : transposed(self, 0, 1, kName)).release();
  return 0;
}

WIR_OPERATOR(unsqueeze)(Tensor self, int64_t dim, Tensor* ret0) {
  dim = wrap_dim(dim, self->rank + 1, "aten::unsqueeze");
  Sizes sizes = sizes_of(self), strides = strides_of(self);
  const auto d = static_cast<size_t>(dim);
  const int64_t stride = dim < self->rank ? sizes[d] * strides[d] : 1;
  sizes.insert(sizes.begin() + dim, 1);
  strides.insert(strides.begin() + dim, stride);
  *ret0 = view_of(self, sizes, strides).release();
  return 0;
}

WIR_OPERATOR(squeeze)(Tensor self, Tensor* ret0) {
  *ret0 = without(self, std::vector<bool>(static_cast<size_t>(self->rank), true)).release();
  return 0;
}

WIR_OPERATOR(squeeze_dims)(Tensor self, const int64_t* dim, int64_t dim_len_, Tensor* ret0) {
  std::vector<bool> dropped(static_cast<size_t>(std::max<int64_t>(self->rank, 1)));
  for (int64_t i = 0; i < dim_len_; ++i) dropped[static_cast<size_t>(wrap_dim(dim[i], self->rank, "aten::squeeze.dims"))] = true;
  *ret0 = without(self, dropped).release();
  return 0;
}

WIR_OPERATOR(squeeze_dim)(Tensor self, int64_t dim, Tensor* ret0) {
  std::vector<bool> dropped(static_cast<size_t>(std::max<int64_t>(self->rank, 1)));
  dropped[static_cast<size_t>(wrap_dim(dim, self->rank, "aten::squeeze.dim"))] = true;
  *ret0 = without(self, dropped).release();
  return 0;
}

WIR_OPERATOR(expand)(Tensor self, const int64_t* size, int64_t size_len_, int32_t, Tensor* ret0) {
  constexpr const char* kName = "aten::expand";
  const int64_t added = size_len_ - self->rank;
  if (added < 0) fail_operator(kName, "the tensor has more dimensions");
  Sizes sizes(size, size + size_len_), strides(sizes.size());
  for (int64_t i = size_len_ - 1; i >= 0; --i) {
    const auto d = static_cast<size_t>(i);
    const int64_t given = i < added ? 1 : self->sizes()[i - added];
    if (sizes[d] == -1 && i >= added) sizes[d] = given;
    if (sizes[d] < 0 || (given != sizes[d] && given != 1)) fail_operator(kName, "the sizes do not fit");
    if (i >= added && given == sizes[d]) {
      strides[d] = self->strides()[i - added];
    } else if (i < added && sizes[d] == 1) {  // as torch computes the stride of a new dimension of size 1
      strides[d] = i + 1 < size_len_ ? sizes[d + 1] * strides[d + 1] : 1;
    }
  }
  *ret0 = view_of(self, sizes, strides).release();
  return 0;
}

WIR_OPERATOR(as_strided)(Tensor self, const int64_t* size, int64_t size_len_, const int64_t* stride, int64_t stride_len_,
                         int64_t* storage_offset, Tensor* ret0) {
  constexpr const char* kName = "aten::as_strided";
  if (size_len_ != stride_len_) fail_operator(kName, "there is not one stride for each size");
  const int64_t element = element_size(self->dtype);
  const int64_t offset = storage_offset != nullptr ? *storage_offset : self->offset / element;
  int64_t last = 0;
  bool is_empty = false;
  for (int64_t i = 0; i < size_len_; ++i) {
    if (size[i] < 0 || stride[i] < 0) fail_operator(kName, "a size or a stride is negative");
    is_empty = is_empty || size[i] == 0;
    last += (size[i] - 1) * stride[i];
  }
  if (offset < 0 || (!is_empty && (offset + last + 1) * element > self->storage->nbytes)) {
    fail_operator(kName, "the view is not within the storage");
  }
  *ret0 = new_view(self, offset * element, size_len_, size, stride, self->dtype);
  return 0;
}

WIR_OPERATOR(unfold)(Tensor self, int64_t dimension, int64_t size, int64_t step, Tensor* ret0) {
  constexpr const char* kName = "aten::unfold";
  const int64_t dim = wrap_dim(dimension, self->rank, kName);
  Sizes sizes = sizes_of(self), strides = strides_of(self);
  const int64_t length = self->rank == 0 ? 1 : sizes[static_cast<size_t>(dim)];
  if (size < 0 || size > length || step <= 0) fail_operator(kName, "the size or the step does not fit the dimension");
  sizes.push_back(size);
  strides.push_back(self->rank == 0 ? 1 : strides[static_cast<size_t>(dim)]);
  if (self->rank > 0) {
    sizes[static_cast<size_t>(dim)] = (length - size) / step + 1;
    strides[static_cast<size_t>(dim)] *= step;
  }
  *ret0 = view_of(self, sizes, strides).release();
  return 0;
}

WIR_OPERATOR(alias)(Tensor self, Tensor* ret0) {
  *ret0 = view_of(self, sizes_of(self), strides_of(self)).release();
  return 0;
}

WIR_OPERATOR(reshape)(Tensor self, const int64_t* shape, int64_t shape_len_, Tensor* ret0) {
  const Sizes sizes = with_inferred(self, Sizes(shape, shape + shape_len_), "aten::reshape");
  Sizes strides;
  if (view_strides(self, sizes, strides)) {
    *ret0 = view_of(self, sizes, strides).release();
    return 0;
  }
  const Owned dense = contiguous(self);
  *ret0 = reshaped(dense.get(), sizes).release();
  return 0;
}

WIR_OPERATOR(view)(Tensor self, const int64_t* size, int64_t size_len_, Tensor* ret0) {
  constexpr const char* kName = "aten::view";
  const Sizes sizes = with_inferred(self, Sizes(size, size + size_len_), kName);
  Sizes strides;
  if (!view_strides(self, sizes, strides)) fail_operator(kName, "no strides give these sizes");
  *ret0 = view_of(self, sizes, strides).release();
  return 0;
}

WIR_OPERATOR(view_dtype)(Tensor self, int32_t dtype, Tensor* ret0) {
  constexpr const char* kName = "aten::view.dtype";
  const int64_t given = element_size(self->dtype), wanted = element_size(dtype);
  Sizes sizes = sizes_of(self), strides = strides_of(self);
  if (given != wanted) {
    if (sizes.empty() || strides.back() != 1) fail_operator(kName, "the elements of a row are not adjacent");
    for (size_t i = 0; i + 1 < sizes.size(); ++i) {
      if (strides[i] * given % wanted != 0) fail_operator(kName, "a stride is not a multiple of the element type's size");
      strides[i] = strides[i] * given / wanted;
    }
    if (sizes.back() * given % wanted != 0 || self->offset % wanted != 0) {
      fail_operator(kName, "a row is not a multiple of the element type's size");
    }
    sizes.back() = sizes.back() * given / wanted;
  }
  *ret0 = view_as(self, sizes, strides, 0, dtype).release();
  return 0;
}

WIR_OPERATOR(view_as_real)(Tensor self, Tensor* ret0) {
  constexpr const char* kName = "aten::view_as_real";
  if (!is_complex(self->dtype)) fail_dtype(kName, self->dtype);
  Sizes sizes = sizes_of(self), strides = strides_of(self);
  for (int64_t& stride : strides) stride *= 2;
  sizes.push_back(2);
  strides.push_back(1);
  *ret0 = view_as(self, sizes, strides, 0, self->dtype == kC32 ? kF16 : self->dtype == kC64 ? kF32 : kF64).release();
  return 0;
}

WIR_OPERATOR(view_as_complex)(Tensor self, Tensor* ret0) {
  constexpr const char* kName = "aten::view_as_complex";
  const int32_t dtype = self->dtype == kF16 ? kC32 : self->dtype == kF32 ? kC64 : kC128;
  if (self->dtype != kF16 && self->dtype != kF32 && self->dtype != kF64) fail_dtype(kName, self->dtype);
  Sizes sizes = sizes_of(self), strides = strides_of(self);
  if (sizes.empty() || sizes.back() != 2 || strides.back() != 1) fail_operator(kName, "the last dimension is not one of pairs");
  sizes.pop_back();
  strides.pop_back();
  for (int64_t& stride : strides) {
    if (stride % 2 != 0) fail_operator(kName, "a stride is odd");
    stride /= 2;
  }
  if (self->offset % element_size(dtype) != 0) fail_operator(kName, "the first element is at an odd offset");
  *ret0 = view_as(self, sizes, strides, 0, dtype).release();
  return 0;
}
