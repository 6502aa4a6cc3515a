// What the parts of a library share that are not the program: a loaded program and its constants.
#pragma once
#include "file.h"
#include "runtime.h"

#include <atomic>
#include <cstdio>
#include <exception>
#include <map>
#include <memory>
#include <mutex>
#include <stdexcept>
#include <string>
#include <unordered_map>
#include <utility>
#include <vector>

extern "C" {
// Torch has these from 2.13 on.
__attribute__((weak)) const char* torch_exception_get_what_without_backtrace();
__attribute__((weak)) int32_t torch_new_stable_ivalue(uint64_t** ret_value);
__attribute__((weak)) int32_t torch_delete_stable_ivalue(uint64_t* value);
}

namespace wir {

struct Failure : std::runtime_error {
  using std::runtime_error::runtime_error;
};
[[noreturn]] void fail_text(const char* code, const std::string& text);
/// As programs write types: `f32[2, 4]{1, 2}`, strides only where they are not those of a contiguous tensor.
std::string tensor_text(Tensor given);

/// The text of the last call of this thread that failed.
std::string& last_error();

/// Runs `body`; no exception leaves it.
template <class Body> int32_t guarded(const Run& run, Body body) noexcept {
  std::string& error_text = last_error();
  try {
    body();
    error_text.clear();
    return 0;
  } catch (const Failure& error) {
    error_text = error.what();
  } catch (const std::exception& error) {
    error_text = std::string("[CPP406] ") + error.what();
  } catch (...) {
    error_text = "[CPP406] an error that is not a std::exception";
  }
  if (*run.at) error_text += std::string("\n  at ") + run.at;
  // Runners of torch before 2.13 do not ask for the text.
  if (&torch_exception_get_what_without_backtrace == nullptr) std::fprintf(stderr, "%s\n", error_text.c_str());
  return 1;
}

/// Handles that are freed where they are left.
struct Handles : std::vector<Tensor> {
  using std::vector<Tensor>::vector;
  Handles(const Handles&) = delete;
  ~Handles() { reset(); }
  void reset() {
    release(data(), size());
    clear();
  }
};

/// Handles that are ours, in an array that is the caller's.
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

/// A device that containers of this library run on, with the program's kernels and constants on it (`gpu.cpp`); libraries for
/// the CPU have none.
class Device {
 public:
  explicit Device(Gpu gpu) : gpu(gpu) {}
  Device(const Device&) = delete;
  virtual ~Device() = default;
  /// Makes the device and the run's stream current for this thread; `leave` goes back, also where `enter` failed.
  virtual void enter(Run& run) = 0;
  virtual void leave(Run& run) noexcept = 0;
  /// Stream `number` of the program; of a run, 0 is its own.
  virtual void* stream(const Run& run, int number) const = 0;
  /// Whether a graph records what the run queues.
  virtual bool is_recorded(const Run& run) const = 0;
  /// Waits until the device is idle.
  virtual void synchronize() noexcept = 0;
  /// The bytes of a constant as the file has them; the caller frees the handle.
  virtual Bytes constant(const Blob& blob) = 0;
  /// For the recordings of one call at a time; null where the program has nothing to record.
  virtual std::shared_ptr<Graphs> graphs() const = 0;
  const Gpu gpu;
};

/// One state of all constants. Runs count themselves as users while they read it.
struct Set {
  std::vector<Bytes> bytes;
  Handles handles, kept;
  std::atomic<int64_t> users{0};
  uint64_t version = 0;  // a set that is filled anew is another one
  ~Set() { reset(); }
  void reset();
};

/// Tensors over memory that persists from call to call, and what was recorded. Those that were made in inference mode may be
/// written in that alone; on a device a call may still be queued that uses them, on their stream.
struct Persistent {
  Handles handles;
  bool is_inference;
  void* stream;
  std::shared_ptr<Graphs> graphs;
};

/// Sets of such tensors: each is one call's at a time, and none is waited for.
class Spares {
 public:
  Spares() = default;
  Spares(const Spares&) = delete;
  ~Spares();
  /// One that no call uses and no other stream than the run's, or a new one.
  std::unique_ptr<Persistent> take(const Run& run);
  /// After a call that did not fail: one that failed may have left memory in any state.
  void give(std::unique_ptr<Persistent> set);
  /// A set that no other call has used.
  static std::unique_ptr<Persistent> make(const Run& run);

 private:
  /// A set that waits, and its stream, which a look at the set itself could not tell: others may have taken it.
  struct Place {
    std::atomic<Persistent*> set{nullptr};
    std::atomic<void*> stream{nullptr};
  };
  std::unique_ptr<Persistent> find(bool is_inference, void* stream);

  Place places_[2][32];
};

using Named = std::unordered_map<std::string, Tensor>;
/// New values of constants, by the blob that they change.
using Changes = std::map<int, std::vector<std::pair<const Constant*, Tensor>>>;

/// A loaded program. Runs take no lock: they count themselves in the set of constants that is active, and look once more
/// whether it still is. An update fills a set that nobody uses, makes it active, and waits for the users of the old one. Sets
/// are used again, and live as long as their container, so that a late look at one is safe.
class Container {
 public:
  /// `device`: the index of the device for a program that needs one; -1 for the current one.
  explicit Container(int32_t device = -1);
  Container(const Container&) = delete;
  ~Container();
  /// Runs the program on its own parameters. It takes over the handles of `inputs`; `outputs` are the caller's.
  void run(Tensor* inputs, Tensor* outputs, Run& run);
  /// New values for constants by any of their names. `is_full`: all constants must be there. `is_borrowed`: the memory of
  /// the tensors is used where a tensor is all of a constant's bytes.
  void update(const Named& values, bool is_inactive, bool is_full, bool is_borrowed);
  void update(const unsigned char* bytes);
  void swap();
  void free_inactive();
  /// Copies of the constants; the container has them until the next call.
  void extract(Named& found, bool is_inactive);

 private:
  Set& acquire();
  Set& unused();
  void retire(Set* old);
  void publish(Set& filled, bool is_inactive);

  void fill(Set& set, const Set* base, const Changes& changes, bool is_borrowed);
  void synchronize();
  void check_file() const { if (reads_file_) file_->check(); }

  std::shared_ptr<const ConstantFile> file_;
  bool reads_file_ = false;  // tensors of constants are over its bytes
  std::shared_ptr<Device> device_;
  std::mutex updating_;
  uint64_t versions_ = 0;
  std::vector<std::unique_ptr<Set>> sets_;
  std::atomic<Set*> active_{nullptr};
  Set* inactive_ = nullptr;
  Spares spares_;
  Handles extracted_;
};

/// Lets go of memory of process groups (steps.cpp).
void release_shared() noexcept;

/// Raises CPP201 where the processor can run none of the sources of a kernel.
void require_instructions();

}  // namespace wir
