// What only libraries over torch have: operators through its stable dispatcher, and its settings.
#pragma once
#include "runtime.h"

#include <dlfcn.h>

// Torch's settings (ATen/Context.h), which the shim does not expose.
extern "C" {
__attribute__((weak)) const void* global_context() asm("_ZN2at13globalContextEv");
__attribute__((weak)) int32_t float32_precision(const void* context, int32_t backend, int32_t op)
    asm("_ZNK2at7Context16float32PrecisionENS_14Float32BackendENS_9Float32OpE");
}

namespace wir {

// --- settings

enum class Backend : int32_t { kGeneric, kCuda, kMkldnn };
enum class Precision : int32_t { kNone, kIeee, kTf32, kBf16, kDefault };
/// Whether torch exports `matmul_precision`.
inline bool knows_precision() { return &global_context != nullptr && &float32_precision != nullptr; }
/// `torch.backends.<backend>.matmul.fp32_precision`.
inline Precision matmul_precision(Backend backend) {
  constexpr int32_t kMatmul = 3;
  return static_cast<Precision>(float32_precision(global_context(), static_cast<int32_t>(backend), kMatmul));
}

/// Returns the cuBLASLt of this major version that torch has loaded; null if it has not.
inline void* find_cublas(const char* name) { return dlopen(name, RTLD_NOW | RTLD_NOLOAD); }

// --- the dispatcher

inline constexpr uint64_t none() { return 0; }
uint64_t some(uint64_t value);
uint64_t tensor(Tensor handle);
inline uint64_t integer(Int value) { return static_cast<uint64_t>(raw(value)); }
uint64_t number(double value);
inline constexpr uint64_t truth(bool value) { return value ? 1 : 0; }
inline uint64_t code(int32_t value) { return static_cast<uint32_t>(value); }
uint64_t string(const char* text, size_t length);
inline uint64_t cpu_device() { return static_cast<uint64_t>(aoti_torch_device_type_cpu()) << 32 | 0xFFFFFFFFu; }
inline uint64_t device(Gpu gpu) {
  return static_cast<uint64_t>(aoti_torch_device_type_cuda()) << 32 | static_cast<uint32_t>(gpu.index);
}
uint64_t list(std::initializer_list<uint64_t> values);
/// Calls an operator, which takes ownership of `arguments`. Stores its `count` returned tensors in `results`, or frees
/// them if that is null.
void call(const char* name, const char* overload, std::initializer_list<uint64_t> arguments, Tensor* results,
          size_t count);
/// The target of a returned value of an operator; if null, the value is freed. A list stores its first `count`
/// tensors. An optional tensor with a target must exist.
struct Returned {
  enum Kind { kTensor, kOptional, kList, kInt, kFloat, kBool } kind;
  void* to;
  size_t count = 1;
};
/// As `call`, for operators that also return lists of tensors or numbers.
void call_mixed(const char* name, const char* overload, std::initializer_list<uint64_t> arguments,
                std::initializer_list<Returned> returned);

// --- memory of process groups

/// Fails with CPP540 and this text unless a loader has compared the programs of the processes that share memory.
void require_agreement(const char* text);
/// Memory of a group under an allocation id, which the Python operator `operation` keeps.
struct SharedMemory {
  const char* operation;
  uint64_t device;  // as returned by `device`
  const char* group;
  size_t group_length;
  uint64_t id;
};
/// Creates a tensor over it. A call of Python takes microseconds, so its tensor for this `place` of the program is
/// reused for the same layout, until the loader reports that the group's memory has ended.
void allocate_shared(Tensor& made, size_t place, const SharedMemory& memory, Ints sizes, Ints strides, int32_t dtype);

}  // namespace wir
