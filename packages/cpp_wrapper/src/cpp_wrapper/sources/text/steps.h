// What steps of control flow, debugging and profiling call.
#pragma once
#include "runtime.h"

#include <vector>

namespace wir {

/// A number as a tensor without dimensions, converted as torch converts.
void number_tensor(Tensor& made, Int value, int32_t dtype);
void number_tensor(Tensor& made, double value, int32_t dtype);
void number_tensor(Tensor& made, bool value, int32_t dtype);
void number_tensor(Tensor& made, double real, double imaginary, int32_t dtype);

/// The sum of two tensors of whole numbers of one type: `add` itself takes a number that the dispatcher does not.
void add_whole(Tensor& made, Tensor first, Tensor second, int32_t dtype);

// --- control flow

/// Fails with WIR932: `index` is the position of no branch.
[[noreturn]] void fail_branch(Int index, int64_t count);
/// The tensor with memory of its own, and with its strides.
void make_fresh(Tensor& tensor);
/// The new tensor in the place of the old one, which is freed.
inline void replace(Tensor& old, Tensor& next) {
  drop(old);
  old = take(next);
}

/// What a loop carries in each trip, to be stacked after the last one.
class Trips {
 public:
  Trips() = default;
  Trips(const Trips&) = delete;
  Trips& operator=(const Trips&) = delete;
  ~Trips() { release(held_.data(), held_.size()); }
  /// Keeps a copy.
  void keep(Tensor tensor);
  /// `tensor`, the value before the first trip, becomes the copies along a new first dimension; its own copy alone where
  /// there was no trip.
  void stack(Tensor& tensor);

 private:
  std::vector<Tensor> held_;
};

// --- memory of process groups

/// Fails with CPP540 and this text unless a loader has compared the programs of the processes that share memory.
void require_agreement(const char* text);
/// Memory of a group under an allocation id, which the operator `operation` in Python keeps.
struct SharedMemory {
  const char* operation;
  uint64_t device;  // as `device` gives it
  const char* group;
  size_t group_length;
  uint64_t id;
};
/// A tensor over it. A call of Python takes microseconds: what it gave at this `place` of the program is used again for the same layout, until
/// the loader says that the group's memory has ended.
void allocate_shared(Tensor& made, size_t place, const SharedMemory& memory, Ints sizes, Ints strides, int32_t dtype);

// --- checks and values for readers

/// Fails with WIR931 where `other` lies in the storage of `tensor`, which the program resizes.
void expect_apart(Tensor tensor, Tensor other, const char* name, const char* other_name);
/// Fails with WIR922 where a tensor of floating point holds a NaN or an infinity.
void check_finite(Tensor tensor, const char* name, const char* message);
/// A line to standard output.
void show_line(const char* text);
/// The title, then a number, or a tensor of this element type, as `wrapper_ir_runtime.tensor_text` writes them.
void show(const char* title, Int value);
void show(const char* title, double value);
void show(const char* title, bool value);
void show(const char* title, Tensor tensor, const char* dtype);
/// Writes a tensor to a new file `name` in `directory`, which is made. `metadata` is JSON; `kind` is what the format calls the element
/// type, and an element of a type that it lacks is stored as `wide` bytes.
void save(Tensor tensor, const char* directory, const char* name, const char* metadata, const char* kind, int64_t wide);

// --- profiler scopes: the scope ends with its handle

void enter_profile(Tensor& scope, const char* name, size_t length, const char* details, size_t details_length);
void exit_profile(Tensor& scope);

}  // namespace wir
