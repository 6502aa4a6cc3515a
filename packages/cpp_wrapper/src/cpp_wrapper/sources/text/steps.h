// What steps of control flow, debugging and profiling call.
#pragma once
#include "runtime.h"

#include <vector>

extern "C" {
void aoti_torch_print_tensor_handle(AtenTensorHandle self, const char* msg);
}

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

// --- checks and values for readers

/// Fails with WIR931 where `other` lies in the storage of `tensor`, which the program resizes.
void expect_apart(Tensor tensor, Tensor other, const char* name, const char* other_name);
/// Fails with WIR922 where a tensor of floating point holds a NaN or an infinity.
void check_finite(Tensor tensor, const char* name, const char* message);
/// The name and layout of a tensor to standard output; with `content` its elements, too.
void show(Tensor tensor, const char* place, bool content);
void show(Int value, const char* place, bool content);
void show(double value, const char* place, bool content);
void show(bool value, const char* place, bool content);
/// Writes a tensor to a new file `FILE_N.safetensors` of the working directory, and says so. `dtype` is the format's name.
void save(Tensor tensor, const char* place, const char* file, const char* name, const char* dtype);

// --- profiler scopes: the scope ends with its handle

void enter_profile(Tensor& scope, const char* name, size_t length, const char* details, size_t details_length);
void exit_profile(Tensor& scope);

}  // namespace wir
