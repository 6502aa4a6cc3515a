// A loaded program and its constants, shared by the files of a library other than the program.
#pragma once
#include "file.h"
#include "runtime.h"

#include <atomic>
#include <cstdio>
#include <exception>
#include <memory>
#include <mutex>
#include <stdexcept>
#include <string>
#include <unordered_map>
#include <utility>
#include <vector>

namespace wir {

struct Failure : std::runtime_error {
  using std::runtime_error::runtime_error;
};

/// A part of a message: a text that outlives it, or an integer. Chains of `+` would be compiled at each place.
class Part {
 public:
  Part(const char* text) : text_(text) {}
  Part(const std::string& text) : text_(text.c_str()) {}
  template <class T, class = std::enable_if_t<std::is_integral_v<T>>>
  Part(T number) : number_(static_cast<int64_t>(number)) {}
  void append_to(std::string& text) const;

 private:
  const char* text_ = nullptr;
  int64_t number_ = 0;
};
using Parts = std::initializer_list<Part>;
[[gnu::cold]] std::string join(Parts parts);
/// Returns a message in parentheses; an empty text for an empty one.
std::string note(const char* message);

[[noreturn, gnu::cold]] void fail_text(const char* code, Parts parts);
/// A tensor's sizes and strides, in arrays of the tensor.
struct Dims {
  int64_t rank = 0, *sizes = nullptr, *strides = nullptr;
  explicit Dims(Tensor tensor);
};
int32_t dtype_of(Tensor tensor);
/// Returns the name of an element type in the text form.
[[gnu::cold]] std::string dtype_name(int32_t code);
[[gnu::cold]] std::string device_text(Tensor tensor);
/// Returns a tensor's type as in the text form: `f32[2, 4]{1, 2}`, with strides only if it is not contiguous.
[[gnu::cold]] std::string tensor_text(Tensor given);
/// Returns the text of a type without its strides.
std::string without_strides(const std::string& type);

/// The error text of this thread's last failed call; empty after a success.
const char* last_error();
void store_error(const char* text);

/// Runs `body(state)` and catches all exceptions. Returns 1 after one, with its text in `last_error`. `run`: null
/// outside calls.
int32_t guard(const Run* run, void (*body)(void*), void* state) noexcept;
/// As `guard`, for a function object.
template <class Body> int32_t guarded(const Run& run, Body body) noexcept {
  return guard(&run, [](void* state) { (*static_cast<Body*>(state))(); }, &body);
}
template <class Body> int32_t guarded(Body body) noexcept {
  return guard(nullptr, [](void* state) { (*static_cast<Body*>(state))(); }, &body);
}

/// Allocates lists of a call, in memory that later calls use again (`small_memory`).
template <class T> struct SmallAllocator {
  using value_type = T;
  SmallAllocator() = default;
  template <class U> SmallAllocator(const SmallAllocator<U>&) noexcept {}
  T* allocate(size_t count) { return static_cast<T*>(small_memory(count * sizeof(T))); }
  void deallocate(T* memory, size_t count) noexcept { free_small_memory(memory, count * sizeof(T)); }
  template <class U> bool operator==(const SmallAllocator<U>&) const noexcept { return true; }
};
template <class T> using SmallList = std::vector<T, SmallAllocator<T>>;

/// Handles that are freed at the end of the scope.
struct Handles : SmallList<Tensor> {
  using SmallList<Tensor>::vector;
  Handles(const Handles&) = delete;
  ~Handles() { reset(); }
  void reset() {
    release(data(), size());
    clear();
  }
};

/// Handles that this scope owns, in the caller's array.
struct Given {
  Tensor* handles;
  size_t count;
  ~Given() { release(handles, count); }
};

struct NoGrad {
  bool before = aoti_torch_grad_mode_is_enabled();
  NoGrad() { if (before) aoti_torch_grad_mode_set_enabled(false); }
  ~NoGrad() { if (before) aoti_torch_grad_mode_set_enabled(true); }
};

/// A device of this library's containers, with the program's kernels and constants (`gpu.cpp`). Libraries for the
/// CPU have none.
class Device {
 public:
  explicit Device(Gpu gpu) : gpu(gpu) {}
  Device(const Device&) = delete;
  virtual ~Device() = default;
  /// Makes the device and the run's stream current for this thread. `leave` restores both, even if `enter` failed.
  virtual void enter(Run& run) = 0;
  virtual void leave(Run& run) noexcept = 0;
  /// Stream `number` of the program; 0 is the run's stream.
  virtual void* stream(const Run& run, int number) const = 0;
  /// Whether the run's stream is being captured into a graph.
  virtual bool is_captured(const Run& run) const = 0;
  /// Waits until the device is idle.
  virtual void synchronize() noexcept = 0;
  /// The bytes of a constant as in the file; the caller frees the handle.
  virtual Bytes constant(const Blob& blob) = 0;
  /// Creates graphs for one call at a time; null if the program has no replayable function.
  virtual std::shared_ptr<Graphs> graphs() const = 0;
  const Gpu gpu;
};

/// One state of all constants. Runs are counted as users while they read it.
struct Set {
  std::vector<Bytes> bytes;
  Handles handles, kept;  // `kept`: for each blob, the tensor whose memory is borrowed
  std::atomic<int64_t> users{0};
  uint64_t version = 0;  // changes when the set is filled again
  ~Set() { reset(); }
  void reset();
};

/// Tensors over memory that persists between calls, and graphs. Tensors created in inference mode can be written
/// only in that mode. On a device, a call on their stream may still be using them.
struct Persistent {
  Handles handles;
  bool is_inference;
  void* stream;
  std::shared_ptr<Graphs> graphs;
};

/// Sets of such tensors. One call at a time uses a set; no call waits for one.
class Spares {
 public:
  Spares() = default;
  Spares(const Spares&) = delete;
  ~Spares();
  /// Returns an idle set of the run's stream, or a new one.
  std::unique_ptr<Persistent> take(const Run& run);
  /// Returns a set after a successful call. A failed call may leave memory in any state.
  void give(std::unique_ptr<Persistent> set);
  /// Creates a set.
  static std::unique_ptr<Persistent> make(const Run& run);

 private:
  /// An idle set and its stream, which cannot be read from the set: another call may already own it.
  struct Place {
    std::atomic<Persistent*> set{nullptr};
    std::atomic<void*> stream{nullptr};
  };
  std::unique_ptr<Persistent> find(bool is_inference, void* stream);

  Place places_[2][32];
};

/// Creates a tensor of the type of a packed constant's original, in new memory.
Tensor new_original(const Packing& packing, Tensor packed);
/// Writes the value of an original, of any strides, to a packed constant.
void pack(const Packing& packing, Tensor packed, Tensor given);
/// Returns the original of a packed constant, in new memory.
Tensor unpack(const Packing& packing, Tensor packed);

using Named = std::unordered_map<std::string, Tensor>;
/// New values of constants, for each blob; empty if none changes.
using Changes = std::vector<std::vector<std::pair<const Constant*, Tensor>>>;

/// A loaded program. Runs take no lock: each increments the count of the active set of constants, then checks that it
/// is still active. An update fills an unused set, activates it, and waits for the users of the old one. Sets are
/// reused, and live as long as their container, so a late read of one is safe.
class Container {
 public:
  /// `device`: the device index of a program for a device; -1 for the current one.
  [[gnu::cold]] explicit Container(int32_t device = -1);
  Container(const Container&) = delete;
  [[gnu::cold]] ~Container();
  /// Runs the program on its parameters. Takes ownership of the handles in `inputs`; the caller owns `outputs`.
  void run(Tensor* inputs, Tensor* outputs, Run& run);
  /// Sets constants by any of their names. `is_full`: all constants must be given. `is_borrowed`: uses a tensor's
  /// memory if it covers all bytes of a constant.
  [[gnu::cold]] void update(const Named& values, bool is_inactive, bool is_full, bool is_borrowed);
  [[gnu::cold]] void update(const unsigned char* bytes);
  [[gnu::cold]] void swap();
  [[gnu::cold]] void free_inactive();
  /// Copies of the constants; the container owns them until the next call.
  [[gnu::cold]] void extract(Named& found, bool is_inactive);
  /// A copy of the constant of this name, which the caller owns.
  [[gnu::cold]] Tensor extract(const char* name, bool is_inactive);

 private:
  Set& acquire();
  [[gnu::cold]] Set& unused();
  [[gnu::cold]] const Set& set_to_read(bool is_inactive) const;
  [[gnu::cold]] void retire(Set* old);
  [[gnu::cold]] void publish(Set& filled, bool is_inactive);

  [[gnu::cold]] void fill(Set& set, const Set* base, const Changes& changes, bool is_borrowed);
  void synchronize();
  void check_file() const { if (reads_file_) file_->check(); }

  std::shared_ptr<const ConstantFile> file_;
  bool reads_file_ = false;  // tensors of constants use its bytes
  std::shared_ptr<Device> device_;
  std::mutex updating_;
  uint64_t versions_ = 0;
  std::vector<std::unique_ptr<Set>> sets_;
  std::atomic<Set*> active_{nullptr};
  Set* inactive_ = nullptr;
  Spares spares_;
  Handles extracted_;
};

// --- what the shim does not express (torch's: dispatcher.cpp)

/// Torch's message of the last failed call of the shim; null if it is not known.
const char* failure_cause();
/// Writes an error to standard error if the caller does not query it: torch's runners before 2.13.
void report_failure(const char* text);
/// Returns whether this thread is in inference mode.
bool makes_inference_tensors();
/// Returns whether a tensor has the negative bit.
bool is_negated(Tensor given);
/// Copies elements in row-major order, with conjugates and negatives resolved.
void make_dense(Tensor& made, Tensor source);
/// Copies tensors of one type along a new first dimension.
void stack_tensors(Tensor& made, const Tensor* parts, size_t count);
/// Returns whether no element is a NaN or an infinity.
bool is_finite(Tensor given);
/// Replaces an operator's result by a copy with the layout that the program declares. Returns false for tensors that share
/// memory, and always over torch, whose operators have the layout themselves.
bool lay_out(Tensor& result, Ints sizes, Ints strides);
/// Releases memory of process groups.
void release_shared() noexcept;

/// Runs the program on the model's arguments, and writes the model's outputs, which the caller owns. Sets the handles of
/// inputs that the program took to null.
void run_model(Container& container, Tensor* inputs, Tensor* outputs, Run& run);

struct Row {
  Tensor* handles;
  size_t count;
};
/// Raises CPP610 if targets of outputs overlap each other or inputs, or elements of one share memory.
void check_apart(Row targets, Row inputs);
/// Copies outputs to the caller's tensors after it has checked all of them.
void write_outputs(Row targets, Row outputs, Row inputs);

/// Raises CPP201 if the processor can run no source of a kernel.
[[gnu::cold]] void require_instructions();

}  // namespace wir
