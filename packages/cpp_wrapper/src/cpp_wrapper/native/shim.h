// The functions of torch's C shim that shared files call, over tensors that are plain values.
#pragma once
#include "memory.h"

inline int32_t aoti_torch_device_type_cpu() { return 0; }
inline int32_t aoti_torch_device_type_cuda() { return 1; }
inline int32_t aoti_torch_layout_strided() { return 0; }
inline int32_t aoti_torch_dtype_float8_e5m2() { return wir::kF8E5M2; }
inline int32_t aoti_torch_dtype_float8_e4m3fn() { return wir::kF8E4M3FN; }
inline int32_t aoti_torch_dtype_float8_e5m2fnuz() { return wir::kF8E5M2FNUZ; }
inline int32_t aoti_torch_dtype_float8_e4m3fnuz() { return wir::kF8E4M3FNUZ; }
inline int32_t aoti_torch_dtype_bfloat16() { return wir::kBF16; }
inline int32_t aoti_torch_dtype_float16() { return wir::kF16; }
inline int32_t aoti_torch_dtype_float32() { return wir::kF32; }
inline int32_t aoti_torch_dtype_float64() { return wir::kF64; }
inline int32_t aoti_torch_dtype_uint8() { return wir::kU8; }
inline int32_t aoti_torch_dtype_uint16() { return wir::kU16; }
inline int32_t aoti_torch_dtype_uint32() { return wir::kU32; }
inline int32_t aoti_torch_dtype_uint64() { return wir::kU64; }
inline int32_t aoti_torch_dtype_int8() { return wir::kI8; }
inline int32_t aoti_torch_dtype_int16() { return wir::kI16; }
inline int32_t aoti_torch_dtype_int32() { return wir::kI32; }
inline int32_t aoti_torch_dtype_int64() { return wir::kI64; }
inline int32_t aoti_torch_dtype_bool() { return wir::kBool; }
inline int32_t aoti_torch_dtype_complex32() { return wir::kC32; }
inline int32_t aoti_torch_dtype_complex64() { return wir::kC64; }
inline int32_t aoti_torch_dtype_complex128() { return wir::kC128; }
inline int32_t torch_dtype_float8_e8m0fnu() { return wir::kF8E8M0FNU; }
inline int32_t torch_dtype_float4_e2m1fn_x2() { return wir::kF4E2M1FNX2; }
// Layouts and memory formats have torch's codes.
inline int32_t aoti_torch_layout_sparse_coo() { return 1; }
inline int32_t aoti_torch_layout_sparse_csr() { return 2; }
inline int32_t aoti_torch_layout__mkldnn() { return 3; }
inline int32_t aoti_torch_layout_sparse_csc() { return 4; }
inline int32_t aoti_torch_layout_sparse_bsr() { return 5; }
inline int32_t aoti_torch_layout_sparse_bsc() { return 6; }
inline int32_t aoti_torch_layout_jagged() { return 7; }
inline int32_t aoti_torch_memory_format_contiguous_format() { return 0; }
inline int32_t aoti_torch_memory_format_preserve_format() { return 1; }
inline int32_t aoti_torch_memory_format_channels_last() { return 2; }
inline int32_t aoti_torch_memory_format_channels_last_3d() { return 3; }

inline bool aoti_torch_grad_mode_is_enabled() { return false; }
inline void aoti_torch_grad_mode_set_enabled(bool) {}
inline size_t aoti_torch_dtype_element_size(int32_t dtype) { return static_cast<size_t>(wir::element_size(dtype)); }

inline int32_t aoti_torch_delete_tensor_object(Tensor tensor) { return wir::free_tensor(tensor), 0; }
inline int32_t aoti_torch_new_tensor_handle(Tensor source, Tensor* made) {
  source->handles.fetch_add(1, std::memory_order_relaxed);
  return *made = source, 0;
}
inline int32_t aoti_torch_get_data_ptr(Tensor tensor, void** found) { return *found = tensor->data(), 0; }
inline int32_t aoti_torch_get_dim(Tensor tensor, int64_t* rank) { return *rank = tensor->rank, 0; }
inline int32_t aoti_torch_get_numel(Tensor tensor, int64_t* count) { return *count = tensor->count, 0; }
inline int32_t aoti_torch_get_sizes(Tensor tensor, int64_t** sizes) { return *sizes = tensor->sizes(), 0; }
inline int32_t aoti_torch_get_size(Tensor tensor, int64_t dim, int64_t* size) { return *size = tensor->sizes()[dim], 0; }
inline int32_t aoti_torch_get_strides(Tensor tensor, int64_t** strides) { return *strides = tensor->strides(), 0; }
inline int32_t aoti_torch_get_stride(Tensor tensor, int64_t dim, int64_t* stride) {
  return *stride = tensor->strides()[dim], 0;
}
inline int32_t aoti_torch_get_dtype(Tensor tensor, int32_t* dtype) { return *dtype = tensor->dtype, 0; }
inline int32_t aoti_torch_get_device_type(Tensor tensor, int32_t* type) {
  return *type = tensor->storage->gpu >= 0 ? aoti_torch_device_type_cuda() : aoti_torch_device_type_cpu(), 0;
}
inline int32_t aoti_torch_get_device_index(Tensor tensor, int32_t* index) {
  return *index = tensor->storage->gpu >= 0 ? tensor->storage->gpu : 0, 0;
}
inline int32_t aoti_torch_get_layout(Tensor, int32_t* layout) { return *layout = aoti_torch_layout_strided(), 0; }
inline int32_t aoti_torch_get_storage_offset(Tensor tensor, int64_t* offset) {
  return *offset = tensor->offset / wir::element_size(tensor->dtype), 0;
}
inline int32_t aoti_torch_get_storage_size(Tensor tensor, int64_t* nbytes) { return *nbytes = tensor->storage->nbytes, 0; }
inline int32_t aoti_torch_is_defined(Tensor, bool* is_defined) { return *is_defined = true, 0; }
inline int32_t aoti_torch__alloc_from_pool(Tensor base, int64_t offset, int32_t dtype, int64_t rank, const int64_t* sizes,
                                           const int64_t* strides, Tensor* made) {
  return *made = wir::new_view(base, offset, rank, sizes, strides, dtype), 0;
}
inline int32_t aoti_torch__reinterpret_tensor(Tensor base, int64_t rank, const int64_t* sizes, const int64_t* strides,
                                              int64_t offset, Tensor* made) {
  const int64_t at = base->offset + offset * wir::element_size(base->dtype);
  return *made = wir::new_view(base, at, rank, sizes, strides, base->dtype), 0;
}
inline int32_t aoti_torch_empty_strided(int64_t rank, const int64_t* sizes, const int64_t* strides, int32_t dtype,
                                        int32_t device, int32_t index, Tensor* made) {
  if (device == aoti_torch_device_type_cpu()) return *made = wir::new_tensor(rank, sizes, strides, dtype), 0;
  return *made = wir::require_device_memory().allocate(rank, sizes, strides, dtype, index), 0;
}
inline int32_t aoti_torch_empty_strided_pinned(int64_t rank, const int64_t* sizes, const int64_t* strides, int32_t dtype,
                                               int32_t, int32_t, Tensor* made) {
  return *made = wir::require_device_memory().allocate_pinned(rank, sizes, strides, dtype), 0;
}
/// Creates a tensor over memory of the host that outlives it.
inline int32_t aoti_torch_create_tensor_from_blob(void* data, int64_t rank, const int64_t* sizes, const int64_t* strides,
                                                  int64_t offset, int32_t dtype, int32_t, int32_t, Tensor* made) {
  return *made = wir::borrow_tensor(static_cast<unsigned char*>(data), offset, rank, sizes, strides, dtype), 0;
}
inline int32_t aoti_torch_clone_preserve_strides(Tensor source, Tensor* made) {
  return *made = wir::clone_with_strides(source), 0;
}
inline int32_t aoti_torch_copy_(Tensor target, Tensor source, int32_t may_return_early) {
  return wir::copy_into(target, source, may_return_early != 0), 0;
}
inline int32_t aoti_torch_zero_(Tensor tensor) { return wir::fill_zero(tensor), 0; }
