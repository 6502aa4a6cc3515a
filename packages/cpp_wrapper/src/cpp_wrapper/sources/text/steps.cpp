// Functions of steps.h.
#include "steps.h"

#include "container.h"

#include <string>

namespace wir {

namespace {
/// Converts `made` to the element type `dtype`.
void convert(Tensor& made, int32_t dtype) {
  if (dtype_of(made) == dtype) return;
  Tensor converted = nullptr;
  allocate(converted, {}, {}, dtype);
  try {
    copy(converted, made);
  } catch (...) {
    drop(converted);
    throw;
  }
  replace(made, converted);
}
}  // namespace

void number_tensor(Tensor& made, Int value, int32_t dtype) { result(made, value), convert(made, dtype); }
void number_tensor(Tensor& made, double value, int32_t dtype) { result(made, value), convert(made, dtype); }
void number_tensor(Tensor& made, bool value, int32_t dtype) { result(made, value), convert(made, dtype); }
void number_tensor(Tensor& made, double real, double imaginary, int32_t dtype) {
  allocate(made, {}, {}, c128());
  double* parts = static_cast<double*>(data(made));
  parts[0] = real;
  parts[1] = imaginary;
  convert(made, dtype);
}

void fail_branch(Int index, int64_t count) {
  fail_text("WIR932", {"a switch over ", count, " branches is given index ", raw(index)});
}

void make_fresh(Tensor& tensor) {
  Tensor made = nullptr;
  ok(aoti_torch_clone_preserve_strides(tensor, &made), "a copy");
  replace(tensor, made);
}

void Trips::keep(Tensor tensor) {
  held_.push_back(nullptr);
  ok(aoti_torch_clone_preserve_strides(tensor, &held_.back()), "a copy");
}

void Trips::stack(Tensor& tensor) {
  if (held_.empty()) keep(tensor);
  Tensor made = nullptr;
  stack_tensors(made, held_.data(), held_.size());
  replace(tensor, made);
}

namespace {
/// Returns the address of the storage's first byte.
void* storage_begin(Tensor tensor) {
  Tensor first = nullptr;
  window(first, tensor, {1}, {1}, -storage_offset(tensor));
  void* found = nullptr;
  const int32_t error = aoti_torch_get_data_ptr(first, &found);
  drop(first);
  ok(error, "data_ptr");
  return found;
}
}  // namespace

void expect_apart(Tensor tensor, Tensor other, const char* name, const char* other_name) {
  void* begin = storage_begin(tensor);
  if (begin == nullptr || begin != storage_begin(other)) return;
  fail_text("WIR931", {"argument ", name, ": its storage is resized, and argument ", other_name, " lies in it"});
}

void check_apart(Tensor result, Tensor operand, const char* name) {
  void* begin = storage_begin(result);
  if (begin == nullptr || begin != storage_begin(operand)) return;
  fail_text("WIR927", {"%", name,
                       " is declared as new memory, but the operator returned memory of its argument\n  hint: have the "
                       "operator return x.clone(), or declare the alias in its schema: `Tensor(a) x -> Tensor(a)`"});
}

void check_finite(Tensor tensor, const char* name, const char* message) {
  if (!is_finite(tensor)) fail_text("WIR922", {name, " holds a NaN or an infinity", note(message)});
}

}  // namespace wir
