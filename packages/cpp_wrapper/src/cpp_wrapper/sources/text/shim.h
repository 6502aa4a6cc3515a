// The functions of torch's stable C shim that every library calls, declared without torch's headers.
#pragma once
#include <cstddef>
#include <cstdint>
#include <new>

struct AtenTensorOpaque;
struct StableListOpaque;
struct StringOpaque;
using AtenTensorHandle = AtenTensorOpaque*;
using Tensor = AtenTensorHandle;

extern "C" {
int32_t aoti_torch_device_type_cpu();
int32_t aoti_torch_device_type_cuda();
int32_t aoti_torch_layout_strided();
int32_t aoti_torch_dtype_float8_e5m2();
int32_t aoti_torch_dtype_float8_e4m3fn();
int32_t aoti_torch_dtype_float8_e5m2fnuz();
int32_t aoti_torch_dtype_float8_e4m3fnuz();
int32_t aoti_torch_dtype_bfloat16();
int32_t aoti_torch_dtype_float16();
int32_t aoti_torch_dtype_float32();
int32_t aoti_torch_dtype_float64();
int32_t aoti_torch_dtype_uint8();
int32_t aoti_torch_dtype_uint16();
int32_t aoti_torch_dtype_uint32();
int32_t aoti_torch_dtype_uint64();
int32_t aoti_torch_dtype_int8();
int32_t aoti_torch_dtype_int16();
int32_t aoti_torch_dtype_int32();
int32_t aoti_torch_dtype_int64();
int32_t aoti_torch_dtype_bool();
int32_t aoti_torch_dtype_complex32();
int32_t aoti_torch_dtype_complex64();
int32_t aoti_torch_dtype_complex128();
int32_t torch_dtype_float8_e8m0fnu();
int32_t torch_dtype_float4_e2m1fn_x2();
int32_t aoti_torch_layout_sparse_coo();
int32_t aoti_torch_layout_sparse_csr();
int32_t aoti_torch_layout_sparse_csc();
int32_t aoti_torch_layout_sparse_bsr();
int32_t aoti_torch_layout_sparse_bsc();
int32_t aoti_torch_layout__mkldnn();
int32_t aoti_torch_layout_jagged();
int32_t aoti_torch_memory_format_contiguous_format();
int32_t aoti_torch_memory_format_preserve_format();
int32_t aoti_torch_memory_format_channels_last();
int32_t aoti_torch_memory_format_channels_last_3d();
uint64_t aoti_torch_abi_version();
bool aoti_torch_grad_mode_is_enabled();
void aoti_torch_grad_mode_set_enabled(bool enabled);
size_t aoti_torch_dtype_element_size(int32_t dtype);
int32_t aoti_torch_delete_tensor_object(AtenTensorHandle tensor);
int32_t aoti_torch_new_tensor_handle(AtenTensorHandle orig_handle, AtenTensorHandle* new_handle);
int32_t aoti_torch_get_data_ptr(AtenTensorHandle tensor, void** ret_data_ptr);
int32_t aoti_torch_get_dim(AtenTensorHandle tensor, int64_t* ret_dim);
int32_t aoti_torch_get_numel(AtenTensorHandle tensor, int64_t* ret_numel);
int32_t aoti_torch_get_sizes(AtenTensorHandle tensor, int64_t** ret_sizes);
int32_t aoti_torch_get_size(AtenTensorHandle tensor, int64_t d, int64_t* ret_size);
int32_t aoti_torch_get_strides(AtenTensorHandle tensor, int64_t** ret_strides);
int32_t aoti_torch_get_stride(AtenTensorHandle tensor, int64_t d, int64_t* ret_stride);
int32_t aoti_torch_get_dtype(AtenTensorHandle tensor, int32_t* ret_dtype);
int32_t aoti_torch_get_device_type(AtenTensorHandle tensor, int32_t* ret_device_type);
int32_t aoti_torch_get_device_index(AtenTensorHandle tensor, int32_t* ret_device_index);
int32_t aoti_torch_get_layout(AtenTensorHandle tensor, int32_t* ret_layout);
int32_t aoti_torch_get_storage_offset(AtenTensorHandle tensor, int64_t* ret_storage_offset);
int32_t aoti_torch_get_storage_size(AtenTensorHandle tensor, int64_t* ret_size);
int32_t aoti_torch_is_defined(AtenTensorHandle tensor, bool* ret_is_defined);
int32_t aoti_torch__alloc_from_pool(AtenTensorHandle self, int64_t offset_bytes, int32_t dtype, int64_t ndim, const int64_t* sizes_ptr, const int64_t* strides_ptr, AtenTensorHandle* ret_new_tensor);
int32_t aoti_torch__reinterpret_tensor(AtenTensorHandle self, int64_t ndim, const int64_t* sizes_ptr, const int64_t* strides_ptr, int64_t storage_offset, AtenTensorHandle* ret_new_tensor);
int32_t aoti_torch_empty_strided(int64_t ndim, const int64_t* sizes_ptr, const int64_t* strides_ptr, int32_t dtype, int32_t device_type, int32_t device_index, AtenTensorHandle* ret_new_tensor);
int32_t aoti_torch_empty_strided_pinned(int64_t ndim, const int64_t* sizes_ptr, const int64_t* strides_ptr, int32_t dtype, int32_t device_type, int32_t device_index, AtenTensorHandle* ret_new_tensor);
int32_t aoti_torch_create_tensor_from_blob(void* data, int64_t ndim, const int64_t* sizes_ptr, const int64_t* strides_ptr, int64_t storage_offset, int32_t dtype, int32_t device_type, int32_t device_index, AtenTensorHandle* ret);
int32_t aoti_torch_clone_preserve_strides(AtenTensorHandle self, AtenTensorHandle* ret);
int32_t aoti_torch_copy_(AtenTensorHandle self, AtenTensorHandle src, int32_t non_blocking);
int32_t aoti_torch_zero_(AtenTensorHandle self);
int32_t torch_call_dispatcher(const char* opName, const char* overloadName, uint64_t* stack, uint64_t extension_build_version);
int32_t torch_new_list_reserve_size(size_t size, StableListOpaque** ret);
int32_t torch_list_size(StableListOpaque* list_handle, size_t* size);
int32_t torch_list_get_item(StableListOpaque* list_handle, size_t index, uint64_t* element);
int32_t torch_list_push_back(StableListOpaque* list_handle, uint64_t element);
int32_t torch_delete_list(StableListOpaque* list_handle);
int32_t torch_new_string_handle(const char* data, size_t length, StringOpaque** handle);
// Torch has these functions from 2.13 on.
__attribute__((weak)) const char* torch_exception_get_what_without_backtrace();
__attribute__((weak)) int32_t torch_new_stable_ivalue(uint64_t** ret_value);
__attribute__((weak)) int32_t torch_delete_stable_ivalue(uint64_t* value);
}

namespace wir {

/// Returns memory for a list of a call.
inline void* small_memory(size_t nbytes) { return ::operator new(nbytes); }
inline void free_small_memory(void* memory, size_t) noexcept { ::operator delete(memory); }

}  // namespace wir
