// Functions of programs for CUDA devices: launches through the CUDA driver, streams, events.
#pragma once
#include "container.h"

namespace wir {

/// Scratch memory of a kernel: bytes for each block of a launch.
struct KernelScratch {
  size_t nbytes, align;
};
/// A kernel compiled for one architecture: `arch` is 90 for compute capability 9.0, `blob` contains the cubin. Blocks
/// have `threads` threads and `shared` bytes of dynamic shared memory; `cluster` blocks run one program of the grid.
struct Compiled {
  int arch, blob;
  const char* symbol;
  unsigned threads, cluster, shared;
  bool cooperative, dependent;
  KernelScratch scratch, profile;
};
struct GpuKernel {
  const char* name;
  const Compiled* compiled;
  int count;
};
/// A function that can be captured. `inputs` has a letter for each tensor argument: `c` may be copied to a buffer of a
/// graph, `s` is bound by address, `w` is written and bound, `p` is part of written memory that others may read, so
/// it is never copied. `results` has one for each result: `l` is lent to the rest of the call, `o` leaves the call.
struct Replayable {
  const char *name, *inputs, *results;
};
/// The parts of a program for CUDA devices: kernels, the number of streams besides the caller's, replayable functions,
/// and the maximum number of graphs of each. `open` returns the device of an index, which containers share;
/// `graphs` is null without replayable functions.
struct GpuProgram {
  const GpuKernel* kernel_table;
  int kernels, streams;
  std::shared_ptr<Device> (*open)(const GpuProgram& program, int32_t index);
  const Replayable* replayable_table = nullptr;
  int replayables = 0, cuda_graphs = 0;
  std::shared_ptr<Graphs> (*graphs)(const GpuProgram& program) = nullptr;
};
/// Allocates memory of a graph, which other graphs may reuse after the function ends.
class GraphMemory {
 public:
  virtual void allocate(Tensor& made, Ints sizes, Ints strides, int32_t dtype) = 0;

 protected:
  ~GraphMemory() = default;
};
/// Allocates memory in a function that may be captured.
inline void allocate(Tensor& made, Ints sizes, Ints strides, int32_t dtype, const Run& run) {
  if (run.graph_memory != nullptr) return run.graph_memory->allocate(made, sizes, strides, dtype);
  allocate(made, sizes, strides, dtype, run.gpu);
}
/// As `align`, in a function that may be captured: fails with CPP595 if a graph needs a copy.
void align(Tensor& made, Tensor source, int64_t alignment, const Run& run);

std::shared_ptr<Device> open_cuda(const GpuProgram& program, int32_t index);

// --- arguments of kernels

inline Slot single(double value) {
  const float narrow = static_cast<float>(value);
  Slot made{.i = 0};
  __builtin_memcpy(&made, &narrow, sizeof narrow);
  return made;
}
inline Slot half(double value) {
  const _Float16 narrow = static_cast<_Float16>(value);
  Slot made{.i = 0};
  __builtin_memcpy(&made, &narrow, sizeof narrow);
  return made;
}
Slot brain(double value);
/// Fails with CPP593 unless an argument is a multiple of 16, as compiled code assumes.
[[noreturn]] void fail_multiple(const char* name);
inline Slot aligned(void* address, const char* name) {
  if (reinterpret_cast<uintptr_t>(address) % 16 != 0) [[unlikely]] fail_multiple(name);
  return Slot{.p = address};
}
template <class T> Slot divisible(Int value, const char* name) {
  if (raw(value) % 16 != 0) [[unlikely]] fail_multiple(name);
  return whole<T>(value, name);
}
/// A tensor passed by descriptor: the address of its first element, sizes, strides.
struct Described {
  void* address;
  const int64_t *sizes, *strides;
};
/// Fails with CPP593 unless a tensor has `rank` dimensions, the last of stride 1.
Described described(Tensor tensor, int rank, const char* name);
/// The description of a tensor for the device's copy engine, in the driver's codes. `box` starts at the innermost
/// dimension; `padded` doubles the innermost size.
struct MapKind {
  int rank;
  unsigned box[5];
  int element_type, element_size, swizzle;
  bool is_padded;
};
struct alignas(64) TensorMap {
  uint64_t words[16];
};
TensorMap tensor_map(const Described& tensor, const MapKind& kind);
/// A size of a tensor, and the size for which a kernel was compiled.
struct SizeAndHint {
  Int size, hint;
};
/// Returns the sum of the distances of binary logarithms; that of a number below 1 is -1.
double distance(std::initializer_list<SizeAndHint> pairs);
/// The distance of a kernel without size hints.
inline constexpr double no_hints = __builtin_inf();
/// Returns the index of the smallest distance.
int nearest(std::initializer_list<double> distances);
/// Launches kernel `number` of the table on the run's stream unless the grid is empty. If bit `i` of `maps` is set,
/// slot `i` contains the address of the argument.
void launch(const Run& run, int number, Int x, Int y, Int z, const Slot* slots, int count, uint64_t maps = 0);

// --- streams and events

/// Selects stream `number` of the program for calls during its lifetime.
class OnStream {
 public:
  OnStream(Run& run, int number);
  OnStream(const OnStream&) = delete;
  ~OnStream();

 private:
  Run& run_;
  void* before_;
  CudaStreamGuardOpaque* guard_ = nullptr;
};

/// An event; it is freed when the function ends or fails.
class Event {
 public:
  Event() = default;
  Event(const Event&) = delete;
  ~Event();
  /// Records the event after the stream's current work.
  void record(const Run& run, int stream);
  /// The stream waits, the host does not.
  void wait(const Run& run, int stream) const;
  /// The host waits.
  void synchronize() const;

 private:
  void* event_ = nullptr;
};

}  // namespace wir
