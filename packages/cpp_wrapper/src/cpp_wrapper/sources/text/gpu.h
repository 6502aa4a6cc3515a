// What programs for CUDA devices call: kernels through the CUDA driver, streams, events.
#pragma once
#include "container.h"

namespace wir {

/// Memory for a kernel's own use: bytes for each block of a launch.
struct Scratch {
  size_t nbytes, align;
};
/// A kernel compiled for one architecture: `arch` is 90 for compute capability 9.0, `blob` has the cubin. Blocks have `threads`
/// threads and `shared` bytes of dynamic shared memory; `cluster` blocks make one program of the grid.
struct Compiled {
  int arch, blob;
  const char* symbol;
  unsigned threads, cluster, shared;
  bool cooperative, dependent;
  Scratch scratch, profile;
};
struct GpuKernel {
  const char* name;
  const Compiled* compiled;
  int count;
};
/// A function that can be recorded. `inputs` has a letter for each tensor that it takes: `c` is copied to where recordings read
/// it, `s` bound by address, `w` is written and bound, `p` is part of memory that is written and others may see, so that it is never
/// copied. `results` has one for each of its own: `l` is lent to the rest of the call, `o` leaves it and is the caller's.
struct Recordable {
  const char *name, *inputs, *results;
};
/// What a program for CUDA devices has besides: kernels, streams beside the caller's own, and functions to record, with how many
/// recordings each has at most. `open` gives the device of an index, the same to all containers; `record` is null where there is
/// nothing to record.
struct GpuProgram {
  const GpuKernel* kernel_table;
  int kernels, streams;
  std::shared_ptr<Device> (*open)(const GpuProgram& program, int32_t index);
  const Recordable* recordable_table = nullptr;
  int recordables = 0, recordings = 0;
  std::shared_ptr<Graphs> (*record)(const GpuProgram& program) = nullptr;
};
/// Where a function that is being recorded gets its memory: of the recording, which others use once the function has ended.
class RecordedMemory {
 public:
  virtual void allocate(Tensor& made, Ints sizes, Ints strides, int32_t dtype) = 0;

 protected:
  ~RecordedMemory() = default;
};
/// Memory for a function that may be recorded.
inline void allocate(Tensor& made, Ints sizes, Ints strides, int32_t dtype, const Run& run) {
  if (run.recorded != nullptr) return run.recorded->allocate(made, sizes, strides, dtype);
  allocate(made, sizes, strides, dtype, run.gpu);
}
/// As `align`, in a function that may be recorded: fails with CPP595 where a recording would need a copy.
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
/// Fails with CPP593: compiled code relies on an argument to be a multiple of 16.
[[noreturn]] void fail_multiple(const char* name);
inline Slot aligned(void* address, const char* name) {
  if (reinterpret_cast<uintptr_t>(address) % 16 != 0) [[unlikely]] fail_multiple(name);
  return Slot{.p = address};
}
template <class T> Slot divisible(Int value, const char* name) {
  if (raw(value) % 16 != 0) [[unlikely]] fail_multiple(name);
  return whole<T>(value, name);
}
/// A tensor that a kernel takes a descriptor of: the address of its first element, sizes, strides.
struct Described {
  void* address;
  const int64_t *sizes, *strides;
};
/// Fails with CPP593 for a tensor without `rank` dimensions, the last of stride 1.
Described described(Tensor tensor, int rank, const char* name);
/// How a tensor is described for the device's copy engine, in the driver's numbers; `box` from the innermost dimension on, `padded`:
/// the innermost size counts twice.
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
/// A size of a tensor, and the one that a kernel was made for.
struct SizeAndHint {
  Int size, hint;
};
/// The sum of the distances of logarithms to base 2, where those of numbers below 1 are -1.
double distance(std::initializer_list<SizeAndHint> pairs);
/// Of a kernel that was made for no sizes in particular.
inline constexpr double no_hints = __builtin_inf();
/// The first of the smallest.
int nearest(std::initializer_list<double> distances);
/// Launches kernel `number` of the table on the run's stream, where the grid is not empty. Bit `i` of `maps` says that slot `i`
/// has the address of what is passed.
void launch(const Run& run, int number, Int x, Int y, Int z, const Slot* slots, int count, uint64_t maps = 0);

// --- streams and events

/// What is called while this lives is queued on stream `number` of the program.
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

/// An event; it is freed when the function ends, also where that fails.
class Event {
 public:
  Event() = default;
  Event(const Event&) = delete;
  ~Event();
  /// The event happens when the stream has done what was queued before.
  void record(const Run& run, int stream);
  /// The stream waits, the host does not.
  void wait(const Run& run, int stream) const;
  /// The host waits.
  void synchronize() const;

 private:
  void* event_ = nullptr;
};

}  // namespace wir
