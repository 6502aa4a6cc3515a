// Functions for control flow, debugging and profiling.
#pragma once
#include "platform.h"
#include "runtime.h"

#include <vector>

namespace wir {

/// Creates a tensor without dimensions from a number, with torch's conversion.
void number_tensor(Tensor& made, Int value, int32_t dtype);
void number_tensor(Tensor& made, double value, int32_t dtype);
void number_tensor(Tensor& made, bool value, int32_t dtype);
void number_tensor(Tensor& made, double real, double imaginary, int32_t dtype);

/// Adds two integral tensors of one type: `add` itself has a `Scalar` argument, which the dispatcher does not accept.
void add_whole(Tensor& made, Tensor first, Tensor second, int32_t dtype);

// --- control flow

/// Fails with WIR932: no branch has the position `index`.
[[noreturn, gnu::cold]] void fail_branch(Int index, int64_t count);
/// Replaces the tensor by a copy with the same strides.
void make_fresh(Tensor& tensor);
/// Replaces a tensor and frees the old handle.
inline void replace(Tensor& old, Tensor& next) {
  drop(old);
  old = take(next);
}

/// The carried values of all trips of a loop, which are stacked after the last one.
class Trips {
 public:
  Trips() = default;
  Trips(const Trips&) = delete;
  Trips& operator=(const Trips&) = delete;
  ~Trips() { release(held_.data(), held_.size()); }
  /// Stores a copy.
  void keep(Tensor tensor);
  /// Replaces `tensor`, the value before the first trip, by the copies along a new first dimension; by its own copy
  /// after zero trips.
  void stack(Tensor& tensor);

 private:
  std::vector<Tensor> held_;
};

// --- checks and printed values

/// Fails with WIR931 if `other` shares the storage of `tensor`, which the program resizes.
void expect_apart(Tensor tensor, Tensor other, const char* name, const char* other_name);
/// Fails with WIR922 if a floating-point tensor contains a NaN or an infinity.
void check_finite(Tensor tensor, const char* name, const char* message);
/// Writes a line to standard output.
void show_line(const char* text);
/// Writes a title, then a number or a tensor of this element type, in the format of `wrapper_ir_runtime.tensor_text`.
void show(const char* title, Int value);
void show(const char* title, double value);
void show(const char* title, bool value);
void show(const char* title, Tensor tensor, const char* dtype);
/// Writes a tensor to a new file `name` in `directory`, which is created. `metadata` is JSON; `kind` is the format's
/// name of the element type. Elements of other types are stored as `wide` bytes.
void save(Tensor tensor, const char* directory, const char* name, const char* metadata, const char* kind, int64_t wide);

// --- profiler scopes: the scope ends with its handle

void enter_profile(Tensor& scope, const char* name, size_t length, const char* details, size_t details_length);
void exit_profile(Tensor& scope);

}  // namespace wir
