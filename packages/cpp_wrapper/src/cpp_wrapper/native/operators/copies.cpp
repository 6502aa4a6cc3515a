// Copies: into new layouts, joined, padded and filled.
#include "layouts.h"

namespace wir {
namespace {

Owned with_format(Tensor self, const int32_t* format, const char* name) {
  if (format == nullptr || *format == 1) return clone_like(self);
  const Sizes sizes = sizes_of(self);
  Owned made = empty_beside(self, sizes, strides_of_format(sizes, *format, name), self->dtype);
  copy_into(made.get(), self);
  return made;
}

/// Returns the code of the memory format that the strides of a tensor suggest.
int32_t suggested_format(Tensor tensor) {
  if (tensor->rank != 4 && tensor->rank != 5) return 0;
  const int32_t format = tensor->rank == 4 ? 2 : 3;
  const int64_t *sizes = tensor->sizes(), *strides = tensor->strides();
  if (strides[1] == 0) return 0;
  int64_t least = 0;
  for (int64_t i = 0; i < tensor->rank; ++i) {
    const int64_t dim = i == 0 ? 1 : i == tensor->rank - 1 ? 0 : tensor->rank - i;
    if (sizes[dim] == 0 || strides[dim] < least) return 0;
    if (dim == 0 && least == strides[1]) return 0;  // without width and height the order is not known
    least = strides[dim] * (sizes[dim] > 1 ? sizes[dim] : 1);
  }
  return format;
}

/// Sets all elements to a number, converted to the element type.
void fill_number(Tensor tensor, const Number& value) {
  Owned one = empty({}, tensor->dtype);
  store_number(one->data(), tensor->dtype, value);
  copy_into(tensor, one.get());
}

/// A number that is passed as a double: whole for integers.
Number number_of(double value, int32_t dtype) {
  const bool is_whole = !is_float(dtype) && !is_complex(dtype) && value == std::floor(value) && std::fabs(value) <= 0x1p53;
  if (is_whole) return {value, 0, static_cast<int64_t>(value), true, false};
  return {value, 0, 0, false, false};
}

bool is_skipped(Tensor tensor) { return tensor->rank == 1 && tensor->count == 0; }

Owned joined(const Tensor* tensors, int64_t count, int64_t dim, const char* name) {
  if (count == 0) fail_operator(name, "there are no tensors");
  Tensor first = nullptr;
  int32_t dtype = tensors[0]->dtype, format = suggested_format(tensors[0]);
  Tensor widest = tensors[0];
  Owned kept;
  for (int64_t i = 0; i < count; ++i) {
    if (first == nullptr && !is_skipped(tensors[i])) first = tensors[i];
    if (i > 0) {
      kept = empty(widest->rank == 0 ? Sizes{} : Sizes{0}, promoted(widest, tensors[i]));
      widest = kept.get();
      dtype = widest->dtype;
    }
    if (suggested_format(tensors[i]) != format) format = 0;
  }
  if (first == nullptr) return empty_beside(tensors[0], sizes_of(tensors[0]), dtype);
  dim = wrap_dim(dim, first->rank, name);
  Sizes sizes = sizes_of(first);
  if (sizes.empty()) fail_operator(name, "tensors without dimensions cannot be joined");
  const auto d = static_cast<size_t>(dim);
  sizes[d] = 0;
  for (int64_t i = 0; i < count; ++i) {
    if (is_skipped(tensors[i])) continue;
    if (tensors[i]->rank != first->rank) fail_operator(name, "the tensors have different ranks");
    for (int64_t j = 0; j < first->rank; ++j) {
      if (j != dim && tensors[i]->sizes()[j] != first->sizes()[j]) fail_operator(name, "the sizes of the tensors differ");
    }
    sizes[d] += tensors[i]->sizes()[dim];
  }
  Owned made = empty_beside(first, sizes, strides_of_format(sizes, format, name), dtype);
  int64_t begin = 0;
  for (int64_t i = 0; i < count; ++i) {
    if (is_skipped(tensors[i])) continue;
    const Owned part = view_of(made.get(), sizes_of(tensors[i]), strides_of(made.get()), begin * made->strides()[dim]);
    copy_into(part.get(), tensors[i]);
    begin += tensors[i]->sizes()[dim];
  }
  return made;
}

Owned padded(Tensor self, const int64_t* pad, int64_t count, double value, const char* name) {
  if (count % 2 != 0 || count / 2 > self->rank) fail_operator(name, "the amounts do not fit the tensor's rank");
  Sizes sizes = sizes_of(self), part = sizes;
  int64_t from = 0, to = 0;
  bool is_wider = false;
  Sizes begins(sizes.size(), 0);
  for (int64_t i = 0; i < count / 2; ++i) {
    const auto d = static_cast<size_t>(self->rank - 1 - i);
    const int64_t before = pad[2 * i], after = pad[2 * i + 1];
    is_wider = is_wider || before > 0 || after > 0;
    sizes[d] += before + after;
    part[d] += std::min<int64_t>(before, 0) + std::min<int64_t>(after, 0);
    if (sizes[d] < 0 || part[d] < 0) fail_operator(name, "a size becomes negative");
    from += std::max<int64_t>(-before, 0) * self->strides()[d];
    begins[d] = std::max<int64_t>(before, 0);
  }
  const Owned source = view_of(self, part, strides_of(self), from);
  if (!is_wider) return clone_like(source.get());
  Owned made = empty_beside(self, sizes, strides_of_format(sizes, suggested_format(self), name), self->dtype);
  fill_number(made.get(), number_of(value, self->dtype));
  for (size_t i = 0; i < begins.size(); ++i) to += begins[i] * made->strides()[i];
  if (source->count == 0) return made;
  const Owned target = view_of(made.get(), part, strides_of(made.get()), to);
  copy_into(target.get(), source.get());
  return made;
}

}  // namespace
}  // namespace wir

using namespace wir;

WIR_OPERATOR(clone)(Tensor self, int32_t* memory_format, Tensor* ret0) {
  *ret0 = with_format(self, memory_format, "aten::clone").release();
  return 0;
}

WIR_OPERATOR(contiguous)(Tensor self, int32_t memory_format, Tensor* ret0) {
  *ret0 = memory_format == 0 ? contiguous(self).release() : with_format(self, &memory_format, "aten::contiguous").release();
  return 0;
}

WIR_OPERATOR(copy)(Tensor self, Tensor src, int32_t, Tensor* ret0) {
  bool has_zero = false;
  for (int64_t i = 0; i < self->rank; ++i) has_zero = has_zero || (self->strides()[i] == 0 && self->sizes()[i] > 1);
  Owned made = has_zero ? empty_like(self, self->dtype) : empty_beside(self, sizes_of(self), strides_of(self), self->dtype);
  copy_into(made.get(), src);
  *ret0 = made.release();
  return 0;
}

WIR_OPERATOR(copy_)(Tensor self, Tensor src, int32_t) {
  copy_into(self, src);
  return 0;
}

WIR_OPERATOR(convert_element_type)(Tensor a, int32_t dtype, Tensor* ret0) {
  Owned made = empty_like(a, dtype);
  copy_into(made.get(), a);
  *ret0 = made.release();
  return 0;
}

WIR_OPERATOR(_to_copy)(Tensor self, int32_t* dtype, int32_t*, int32_t*, int32_t, int32_t*, int32_t, int32_t* memory_format,
                       Tensor* ret0) {
  constexpr const char* kName = "aten::_to_copy";
  constexpr int32_t kPreserve = 1;
  const int32_t to = dtype != nullptr ? *dtype : self->dtype;
  const bool is_like = memory_format == nullptr || *memory_format == kPreserve;
  Owned made = is_like ? empty_like(self, to) : empty(sizes_of(self), strides_of_format(sizes_of(self), *memory_format, kName), to);
  copy_into(made.get(), self);
  *ret0 = made.release();
  return 0;
}

WIR_OPERATOR(as_strided_copy)(Tensor self, const int64_t* size, int64_t size_len_, const int64_t* stride, int64_t stride_len_,
                              int64_t* storage_offset, Tensor* ret0) {
  constexpr const char* kName = "aten::as_strided_copy";
  if (size_len_ != stride_len_) fail_operator(kName, "there is not one stride for each size");
  const int64_t offset = storage_offset != nullptr ? *storage_offset * element_size(self->dtype) : self->offset;
  const Owned view(new_view(self, offset, size_len_, size, stride, self->dtype));
  Owned made = empty_beside(self, Sizes(size, size + size_len_), self->dtype);
  copy_into(made.get(), view.get());
  *ret0 = made.release();
  return 0;
}

WIR_OPERATOR(cat)(const Tensor* tensors, int64_t tensors_len_, int64_t dim, Tensor* ret0) {
  *ret0 = joined(tensors, tensors_len_, dim, "aten::cat").release();
  return 0;
}

WIR_OPERATOR(constant_pad_nd)(Tensor self, const int64_t* pad, int64_t pad_len_, double value, Tensor* ret0) {
  *ret0 = padded(self, pad, pad_len_, value, "aten::constant_pad_nd").release();
  return 0;
}

WIR_OPERATOR(slice_scatter)(Tensor self, Tensor src, int64_t dim, int64_t* start, int64_t* end, int64_t step, Tensor* ret0) {
  Owned made = empty_beside(self, sizes_of(self), strides_like(self), self->dtype);
  const Owned part = sliced(made.get(), dim, start, end, step, "aten::slice_scatter");
  copy_into(made.get(), self);
  copy_into(part.get(), src);
  *ret0 = made.release();
  return 0;
}

WIR_OPERATOR(full)(const int64_t* size, int64_t size_len_, double fill_value, int32_t* dtype, int32_t*, int32_t* device,
                   int32_t device_index_, int32_t*, Tensor* ret0) {
  const Sizes sizes(size, size + size_len_);
  Owned made = empty_on(device, device_index_, sizes, contiguous_strides(sizes), dtype != nullptr ? *dtype : kF32);
  fill_number(made.get(), number_of(fill_value, made->dtype));
  *ret0 = made.release();
  return 0;
}

WIR_OPERATOR(fill__Scalar)(Tensor self, double value) {
  fill_number(self, number_of(value, self->dtype));
  return 0;
}

WIR_OPERATOR(fill__Tensor)(Tensor self, Tensor value) {
  if (value->rank != 0) fail_operator("aten::fill_.Tensor", "the value has dimensions");
  copy_into(self, value);
  return 0;
}

WIR_OPERATOR(zero_)(Tensor self) {
  fill_zero(self);
  return 0;
}

WIR_OPERATOR(empty_memory_format)(const int64_t* size, int64_t size_len_, int32_t* dtype, int32_t*, int32_t* device,
                                  int32_t device_index_, int32_t*, int32_t* memory_format, Tensor* ret0) {
  const Sizes sizes(size, size + size_len_);
  const int32_t format = memory_format != nullptr ? *memory_format : 0;
  const Sizes strides = strides_of_format(sizes, format, "aten::empty.memory_format");
  *ret0 = empty_on(device, device_index_, sizes, strides, dtype != nullptr ? *dtype : kF32).release();
  return 0;
}
