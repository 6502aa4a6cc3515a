// Tensors of callers (DLPack), as tensors of the runtime and back.
#pragma once
#include "container.h"
#include "memory.h"
#include "model.h"

/// The description of the library's model (`description.cpp`).
extern const wir_description wir_model_description;
/// The positions of all results, in the order in which the program allocates their memory.
extern const int wir_result_order[];

namespace wir {

/// The subject of an error about a caller's tensor: its code, `argument`, and a name or, if that is null, a number.
/// `expected`: its type.
struct Subject {
  const char *code, *kind, *name;
  size_t number;
  const char* expected;
};

/// Returns the runtime's code of a DLPack type; -1 for a type that it lacks.
int32_t dtype_of(const DLDataType& type);
/// Creates a tensor over memory of the caller. Fails if it is not plain memory of the host or, in a program for a device, of one.
Tensor borrow(const DLTensor* given, const Subject& subject);
/// Returns a tensor to the caller, who calls its deleter.
DLManagedTensorVersioned* lend(Tensor& owned);

/// Memory of the caller for a result of the current call. A tensor in it ends before the call, or is moved out of it.
struct Target {
  Tensor tensor;
  Storage* user = nullptr;  // of a tensor in this memory
};
/// Computes results in memory of the caller: while it exists, new tensors of this thread with the layout of a target are
/// created there.
class Targets {
 public:
  /// `tensors`: in the order in which the program allocates results; null ones are skipped.
  explicit Targets(const SmallList<Tensor>& tensors);
  Targets(const Targets&) = delete;
  ~Targets();
  /// Returns a tensor in the memory of an unused target of this layout; null if there is none.
  Tensor take(int64_t rank, const int64_t* sizes, const int64_t* strides, int32_t dtype, int32_t gpu);
  /// Lets new tensors have their own memory again.
  void stop() { result_memory = nullptr; }
  /// Returns whether a tensor is in memory of a target.
  static bool owns(Tensor tensor);
  /// Moves a tensor out of the memory of a target.
  static void release(Tensor tensor);

 private:
  SmallList<Target> targets_;
};

}  // namespace wir
