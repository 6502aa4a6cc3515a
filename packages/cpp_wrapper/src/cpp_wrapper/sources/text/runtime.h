// What emitted programs call: the C shim (`shim.h`), and checked helpers over it. No header of torch is needed.
#pragma once
#include "integers.h"
#include "shim.h"

#include <initializer_list>

namespace wir {

[[noreturn, gnu::cold]] void fail(const char* code, const char* message);
[[noreturn, gnu::cold]] void fail_call(const char* what);

/// Fails with torch's message if a call of the shim failed.
inline void ok(int32_t error, const char* what) {
  if (error != 0) [[unlikely]] fail_call(what);
}

using Ints = std::initializer_list<Int>;
inline const int64_t* ints(Ints values) { return reinterpret_cast<const int64_t*>(values.begin()); }
/// Returns the address of a value that lives until the end of the full expression, for an optional argument.
template <class T> T* opt(const T& value) { return const_cast<T*>(&value); }
inline const Tensor* tensors(std::initializer_list<Tensor> values) { return values.begin(); }
inline const Tensor** optional_tensors(std::initializer_list<const Tensor*> values) {
  return const_cast<const Tensor**>(values.begin());
}
inline const double* numbers(std::initializer_list<double> values) { return values.begin(); }
inline const int32_t* flags(std::initializer_list<int32_t> values) { return values.begin(); }

// --- element types

inline int32_t f64() { return aoti_torch_dtype_float64(); }
inline int32_t f32() { return aoti_torch_dtype_float32(); }
inline int32_t f16() { return aoti_torch_dtype_float16(); }
inline int32_t bf16() { return aoti_torch_dtype_bfloat16(); }
inline int32_t f8e4m3fn() { return aoti_torch_dtype_float8_e4m3fn(); }
inline int32_t f8e5m2() { return aoti_torch_dtype_float8_e5m2(); }
inline int32_t f8e4m3fnuz() { return aoti_torch_dtype_float8_e4m3fnuz(); }
inline int32_t f8e5m2fnuz() { return aoti_torch_dtype_float8_e5m2fnuz(); }
inline int32_t f8e8m0fnu() { return torch_dtype_float8_e8m0fnu(); }
inline int32_t f4e2m1fnx2() { return torch_dtype_float4_e2m1fn_x2(); }
inline int32_t i64() { return aoti_torch_dtype_int64(); }
inline int32_t i32() { return aoti_torch_dtype_int32(); }
inline int32_t i16() { return aoti_torch_dtype_int16(); }
inline int32_t i8() { return aoti_torch_dtype_int8(); }
inline int32_t u64() { return aoti_torch_dtype_uint64(); }
inline int32_t u32() { return aoti_torch_dtype_uint32(); }
inline int32_t u16() { return aoti_torch_dtype_uint16(); }
inline int32_t u8() { return aoti_torch_dtype_uint8(); }
inline int32_t boolean() { return aoti_torch_dtype_bool(); }
inline int32_t c32() { return aoti_torch_dtype_complex32(); }
inline int32_t c64() { return aoti_torch_dtype_complex64(); }
inline int32_t c128() { return aoti_torch_dtype_complex128(); }

// --- memory

/// Frees handles and sets them to null: torch's runners from 2.15 on free the handles that remain in their array.
void release(Tensor* handles, size_t count);
inline void drop(Tensor& handle) {
  if (handle != nullptr) aoti_torch_delete_tensor_object(handle);
  handle = nullptr;
}
template <class... T> void drop(Tensor& first, T&... rest) { drop(first), drop(rest...); }
/// Moves a handle; the source becomes null.
inline Tensor take(Tensor& handle) {
  Tensor found = handle;
  handle = nullptr;
  return found;
}
inline Tensor same(Tensor source) {
  Tensor made = nullptr;
  ok(aoti_torch_new_tensor_handle(source, &made), "a second name of a tensor");
  return made;
}
inline void allocate(Tensor& made, Ints sizes, Ints strides, int32_t dtype) {
  ok(aoti_torch_empty_strided(static_cast<int64_t>(sizes.size()), ints(sizes), ints(strides), dtype,
                              aoti_torch_device_type_cpu(), 0, &made), "allocation");
}
/// A CUDA device, by its index.
struct Gpu {
  int32_t index = 0;
};
inline void allocate(Tensor& made, Ints sizes, Ints strides, int32_t dtype, Gpu gpu) {
  ok(aoti_torch_empty_strided(static_cast<int64_t>(sizes.size()), ints(sizes), ints(strides), dtype,
                              aoti_torch_device_type_cuda(), gpu.index, &made), "allocation");
}
/// Allocates pinned memory of the host, for asynchronous copies.
inline void allocate_pinned(Tensor& made, Ints sizes, Ints strides, int32_t dtype) {
  ok(aoti_torch_empty_strided_pinned(static_cast<int64_t>(sizes.size()), ints(sizes), ints(strides), dtype,
                                     aoti_torch_device_type_cpu(), 0, &made), "allocation");
}
inline void zero(Tensor tensor) { ok(aoti_torch_zero_(tensor), "zero_"); }
/// Creates a view; `offset` counts elements from the first one of `source`.
inline void window(Tensor& made, Tensor source, Ints sizes, Ints strides, Int offset) {
  ok(aoti_torch__reinterpret_tensor(source, static_cast<int64_t>(sizes.size()), ints(sizes), ints(strides),
                                    raw(offset), &made), "a view");
}
/// Creates a view of another element type, `offset` bytes after the first element of `source`.
void byte_window(Tensor& made, Tensor source, int32_t dtype, Ints sizes, Ints strides, Int offset);
inline void copy(Tensor target, Tensor source) { ok(aoti_torch_copy_(target, source, 0), "copy_"); }
/// As `copy`, but possibly asynchronous between host and device.
inline void start_copy(Tensor target, Tensor source) { ok(aoti_torch_copy_(target, source, 1), "copy_"); }
/// Resizes a tensor's storage for all tensors that share it.
void resize(Tensor tensor, Int nbytes);
/// Replaces the storage of `target`, for all of its handles, by that of `source`.
void set_storage(Tensor target, Tensor source);
inline void* data(Tensor tensor) {
  void* found = nullptr;
  ok(aoti_torch_get_data_ptr(tensor, &found), "data_ptr");
  return found;
}
/// Returns `source` if its address is a multiple of `alignment` bytes, otherwise an aligned copy.
void align(Tensor& made, Tensor source, int64_t alignment);
inline Int size(Tensor tensor, int64_t dim) {
  int64_t found = 0;
  ok(aoti_torch_get_size(tensor, dim, &found), "size");
  return found;
}
inline Int stride(Tensor tensor, int64_t dim) {
  int64_t found = 0;
  ok(aoti_torch_get_stride(tensor, dim, &found), "stride");
  return found;
}
inline Int storage_offset(Tensor tensor) {
  int64_t found = 0;
  ok(aoti_torch_get_storage_offset(tensor, &found), "storage_offset");
  return found;
}
/// Reads the only element of a tensor; the host waits for a device.
Int item_int(Tensor tensor);
double item_float(Tensor tensor);
bool item_bool(Tensor tensor);

/// Returns a number to the caller as a tensor without dimensions.
void result(Tensor& made, Int value);
void result(Tensor& made, double value);
void result(Tensor& made, bool value);

// --- checks

/// A size or stride that is not checked.
inline constexpr int64_t any = INT64_MIN;
void expect_tensor(Tensor given, const char* name, const char* text, int32_t dtype, Ints sizes, Ints strides);
/// As above, on a device; `or_cpu` also accepts memory of the CPU.
void expect_tensor(Tensor given, const char* name, const char* text, int32_t dtype, Ints sizes, Ints strides, Gpu gpu,
                   bool or_cpu = false);
void expect_number(Tensor given, const char* name, const char* kind, int32_t dtype);
void check_layout(Tensor& tensor, Ints sizes, Ints strides, const char* name, const char* message);
/// Fails unless an operator's result is a strided tensor of this dtype on the CPU, within its storage.
void check_result(Tensor tensor, int32_t dtype, const char* name);
/// Fails if an operator's result shares the storage of an operand although its schema declares it as new.
void check_apart(Tensor result, Tensor operand, const char* name);
/// As above, on a device; a tensor without dimensions may be on the CPU.
void check_result(Tensor tensor, int32_t dtype, const char* name, Gpu gpu);
/// As `check_result`, for a tensor that an operator wrote; its storage must have at least `storage` bytes.
void check_written(Tensor tensor, int32_t dtype, const char* name, Int storage);
void check_written(Tensor tensor, int32_t dtype, const char* name, Int storage, Gpu gpu);
/// Fails unless the storage of an argument contains all of its elements.
void expect_storage(Tensor given, const char* name);
void check_alignment(Tensor tensor, int64_t alignment, const char* name, const char* message);

// --- matmuls of float32 on a CPU

/// Computes `out = beta * self + alpha * mat1 @ mat2`, as `aten::addmm.out` does.
void addmm(Tensor out, Tensor self, Tensor mat1, Tensor mat2, double beta, double alpha);
/// Computes `out = mat1 @ mat2`, as `aten::mm.out` does.
void mm(Tensor out, Tensor mat1, Tensor mat2);

// --- kernels

union Slot {
  void* p;
  int64_t i;
  double d;
};
inline Slot pointer(void* value) { return Slot{.p = value}; }
template <class T> Slot whole(Int value, const char* name) {
  const int64_t number = raw(value);
  if (static_cast<int64_t>(static_cast<T>(number)) != number) fail("CPP405", name);
  return Slot{.i = number};
}
inline Slot real(double value) { return Slot{.d = value}; }
using Kernel = void (*)(const Slot*);
/// Returns the number of the first function that the processor can run. `needs` contains the flags of /proc/cpuinfo of
/// each, ended by `|`. Functions that ATEN_CPU_CAPABILITY excludes are used only if no other can run.
size_t first_runnable(const char* needs);
/// Returns that function.
template <class Function> Function choose(const char* needs, std::initializer_list<Function> functions) {
  return functions.begin()[first_runnable(needs)];
}

// --- the program's interface to the container

/// The bytes of one constant, or of several with shared storage. `holder` is a tensor over them if they may be written
/// or are on the device `gpu`. `is_borrowed`: the caller owns the memory.
struct Bytes {
  const unsigned char* data = nullptr;
  Tensor holder = nullptr;
  Gpu gpu{};
  bool is_borrowed = false;
};
/// The location of bytes after the library's code. `is_owned`: each container has a copy, which the program or a
/// caller may write.
struct Blob {
  /// A constant of the CPU; one of the device, which has a copy for all containers; code of a kernel.
  enum Kind { kHost, kDevice, kImage };
  size_t offset, nbytes;
  bool is_owned;
  Kind kind = kHost;
};
/// The layout of a packed constant: the sizes and strides of its original, and the original's memory as panels, by strides
/// in elements (`ir.Panels`).
struct Packing {
  int64_t rank;
  const int64_t *sizes, *strides;
  size_t packed_nbytes;
  int64_t groups, group_stride, columns, column_stride;
  int rows;
  int64_t row_sizes[4], row_strides[4];
  int64_t interleave;
};
/// A name of a constant: the blob with its bytes, and the position of its handle. `packing`: null unless it is packed; a
/// packed constant and its original, or several, may have one name.
struct Constant {
  const char* name;
  const char* full_name;
  int32_t (*dtype)();
  size_t nbytes;
  int blob, handle;
  const Packing* packing = nullptr;
};

/// An output for torch's runners: a result, an input, or a number.
struct Output {
  enum Kind { kResult, kInput, kInt, kFloat, kBool, kNone } kind;
  int64_t index;
  double value;
};
/// The model's flat arguments and outputs, as for torch's runners. `input_of[i]` is the input of parameter `i` of the
/// program; null if inputs are the parameters and outputs the results.
struct Convention {
  size_t inputs, outputs;
  const char* const* input_names;
  const int* input_of;
  const Output* output_table;
  const char *in_spec, *out_spec;
};

class Device;
class Graphs;
class Matmuls;
class GraphMemory;
struct GpuProgram;
struct CudaGuardOpaque;
struct CudaStreamGuardOpaque;

/// The state of a call: the current op for messages, its tensors over memory that persists between calls, and its
/// device and stream. A null stream means the current one when the call begins.
struct Run {
  const char* at = "";
  Tensor* persistent = nullptr;
  void* stream = nullptr;
  Gpu gpu{};
  Device* device = nullptr;
  CudaGuardOpaque* guard = nullptr;
  CudaStreamGuardOpaque* stream_guard = nullptr;
  bool has_context = false;
  uint64_t constants = 0;     // the state of the constants that the call reads
  Graphs* graphs = nullptr;   // this call's graphs (graphs.h); null if replayable functions are not captured
  GraphMemory* graph_memory = nullptr;  // during a capture
  Matmuls* matmuls = nullptr;        // during a capture and in the calls before it
};

struct Program {
  size_t params, results, blobs, constants, handles;
  const Blob* blob_table;
  const Constant* constant_table;
  const Convention* convention;
  void (*load)(Tensor* c, const Bytes* b);
  void (*run)(Tensor* c, Tensor* inputs, Tensor* outputs, Run& run);
  const char* const* instructions;  // in the format of `choose`, ended by null
  size_t persistent;
  void (*make_persistent)(Tensor* k, const Run& run);
  const GpuProgram* gpu = nullptr;  // of a program for a CUDA device (gpu.h)
};

/// Creates the tensor of a constant over its bytes.
void constant(Tensor& made, const Bytes& bytes, int32_t dtype, Ints sizes, Ints strides);

}  // namespace wir

extern const wir::Program wir_program;
