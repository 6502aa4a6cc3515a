// Calls of operators through torch's stable dispatcher.
#pragma once
#include "runtime.h"

namespace wir {

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
