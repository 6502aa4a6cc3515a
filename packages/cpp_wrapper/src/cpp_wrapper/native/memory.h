// Memory of tensors: created, shared, copied, freed.
#pragma once
#include "tensor.h"

#include <initializer_list>
#include <memory>

namespace wir {

/// Bytes of an element.
inline int64_t element_size(int32_t dtype) {
  constexpr unsigned char kSizes[] = {1, 1, 2, 4, 8, 2, 4, 8, 4, 8, 16, 1, 0, 0, 0, 2, 0, 0, 0, 0, 0, 0, 0,
                                      1, 1, 1, 1, 2, 4, 8, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 1, 1};
  return kSizes[dtype];
}

/// Blocks of small memory, of powers of two of bytes, that calls have freed and later calls use again.
class SmallMemory {
 public:
  SmallMemory() = default;
  SmallMemory(const SmallMemory&) = delete;
  ~SmallMemory();
  /// Returns a free block of a size; null if there is none.
  void* take(int size) noexcept;
  /// Keeps a block for later calls. Returns false if there are many.
  bool give(void* block, int size) noexcept;
  static constexpr int kSmallest = 6, kLargest = 11;  // 64 to 2,048 bytes

 private:
  struct Block {
    Block* next;
  };
#ifdef __SANITIZE_ADDRESS__
  static constexpr int kMostBlocks = 0;  // the sanitizer finds uses of freed memory
#else
  static constexpr int kMostBlocks = 128;
#endif
  static constexpr int kSizes = kLargest - kSmallest + 1;
  Block* free_[kSizes] = {};
  int counts_[kSizes] = {};
};
/// The blocks of the call that this thread is in; null outside calls.
extern constinit thread_local SmallMemory* call_memory;
/// Returns memory for tensors and lists, from a block of the current call if there is one. Fails with WIR927.
void* small_memory(size_t nbytes);
/// Frees such memory, on any thread, in a call or outside.
void free_small_memory(void* memory, size_t nbytes) noexcept;

/// Returns memory aligned to 64 bytes. Fails with WIR927 if there is none.
unsigned char* allocate_bytes(int64_t nbytes);
/// Creates a storage of one tensor. Fails with WIR927; the caller still owns the data then. `gpu`: -1 on the CPU.
Storage* new_storage(unsigned char* data, int64_t nbytes, void (*free)(Storage*), void* owner = nullptr,
                     int32_t gpu = -1);
void delete_storage(Storage* storage) noexcept;
/// The `free` of storages in such memory.
void free_own(Storage* storage);
/// Moves a storage in memory of others to such memory.
void take_over(Storage* storage);
/// Creates the first tensor of a storage.
Tensor new_over(Storage* storage, int64_t rank, const int64_t* sizes, const int64_t* strides, int32_t dtype);
/// Returns a tensor of a layout in the caller's memory for a result of the current call (`Targets`), or null. `gpu`: as
/// in `Storage`.
using ResultMemory = Tensor (*)(int64_t rank, const int64_t* sizes, const int64_t* strides, int32_t dtype, int32_t gpu);
/// The function for calls of this thread that write results into the caller's memory; null in others.
extern constinit thread_local ResultMemory result_memory;
/// Creates a tensor in new memory, aligned to 64 bytes, or in that of a result. Null strides: contiguous.
Tensor new_tensor(int64_t rank, const int64_t* sizes, const int64_t* strides, int32_t dtype);
/// As above, in memory of the device that has `like`, or of the host.
Tensor new_like(Tensor like, int64_t rank, const int64_t* sizes, const int64_t* strides, int32_t dtype);
/// Creates a tensor over the storage of `base`, whose first element is `offset` bytes after the storage's begin.
Tensor new_view(Tensor base, int64_t offset, int64_t rank, const int64_t* sizes, const int64_t* strides, int32_t dtype);
/// Creates a tensor over memory that outlives it, `offset` elements after `data`, where its storage begins.
Tensor borrow_tensor(unsigned char* data, int64_t offset, int64_t rank, const int64_t* sizes, const int64_t* strides,
                     int32_t dtype, int32_t gpu = -1);
/// Drops a tensor, and its storage with the last one.
void free_tensor(Tensor tensor);
struct TensorDeleter {
  void operator()(Tensor tensor) const { free_tensor(tensor); }
};
/// A tensor that the scope owns. `release()` hands it to the caller: `*ret0 = made.release()`.
using Owned = std::unique_ptr<AtenTensorOpaque, TensorDeleter>;
/// Copies the elements into new memory with the same strides.
Tensor clone_with_strides(Tensor source);
/// Copies with broadcasting and conversion, as torch's `copy_`; the memory of the two may overlap. Between the host and a
/// device it waits for the copy unless `may_return_early`.
void copy_into(Tensor target, Tensor source, bool may_return_early = false);
void fill_zero(Tensor tensor);
bool is_contiguous(Tensor tensor);
/// Returns whether a tensor has this layout. Strides of dimensions of size 1 do not count; null strides: contiguous.
bool has_layout(Tensor tensor, int64_t rank, const int64_t* sizes, const int64_t* strides, int32_t dtype);
/// Returns the tensor itself (another handle) if it is contiguous, otherwise a contiguous copy.
Owned contiguous(Tensor tensor);
/// As above, converted to `dtype`.
Owned contiguous(Tensor tensor, int32_t dtype);
/// The largest number of dimensions of a tensor that is copied.
inline constexpr int64_t kMaxRank = 256;

/// A copy: sizes without dimensions of size 1, and strides in bytes. The innermost dimension comes first.
struct StridedCopy {
  int64_t rank = 0;
  int64_t sizes[kMaxRank], to[kMaxRank], from[kMaxRank];
};
/// Returns the dimensions of a copy with broadcasting; merges those that are one run in both tensors. Fails with WIR927.
StridedCopy strided_copy(Tensor target, Tensor source);
/// Returns whether a write of the target may change elements of the source that are read later.
bool may_overlap(Tensor target, Tensor source);
/// Returns the number of bytes from a tensor's first element to the end of its last one.
int64_t extent_bytes(Tensor tensor);
/// Returns the number of bytes that a tensor of a layout needs. Null strides: contiguous. Fails on overflow.
int64_t layout_bytes(int64_t rank, const int64_t* sizes, const int64_t* strides, int32_t dtype);

/// Memory of devices. Only tensors of libraries for a device use it.
struct DeviceMemory {
  /// Creates a tensor in new memory of device `gpu`, or in that of a result. Null strides: contiguous.
  Tensor (*allocate)(int64_t rank, const int64_t* sizes, const int64_t* strides, int32_t dtype, int32_t gpu);
  /// Creates a tensor in pinned memory of the host.
  Tensor (*allocate_pinned)(int64_t rank, const int64_t* sizes, const int64_t* strides, int32_t dtype);
  /// As `copy_into`, if one of both is on a device.
  void (*copy)(Tensor target, Tensor source, bool may_return_early);
  /// Sets bytes from the first element to the last one to zero.
  void (*zero)(Tensor tensor);
  /// Replaces the memory of a storage by `nbytes` of new memory with the same first bytes, which it owns.
  void (*move)(Storage* storage, int64_t nbytes);
  /// The `free` of storages in such memory.
  void (*free)(Storage* storage);
  /// Sets the stream of later calls of this thread.
  void (*use_stream)(void* stream);
  /// Waits for the work of that stream on a device.
  void (*synchronize)(int32_t gpu);
  /// Returns memory that no tensor uses to the devices.
  void (*trim)();
};
/// Only libraries for a device define it.
extern const DeviceMemory device_memory __attribute__((weak, visibility("hidden")));
/// Fails with WIR927: the library has no code for tensors on a device.
const DeviceMemory& require_device_memory();
/// Returns `dim` counted from the front. Fails with the operator's name if it is out of range; a scalar has one dimension.
int64_t wrap_dim(int64_t dim, int64_t rank, const char* name);
/// Fails with the operator's name: it has no code for this element type.
[[noreturn, gnu::cold]] void fail_dtype(const char* name, int32_t dtype);

/// Scratch memory of the scope, aligned to 64 bytes, from a block that each thread keeps between calls.
class Scratch {
 public:
  explicit Scratch(int64_t nbytes);
  Scratch(const Scratch&) = delete;
  ~Scratch();
  template <class T = float> T* as() const { return static_cast<T*>(data_); }

 private:
  void* data_;
  int64_t before_;
};

/// Frees the blocks of all threads, which must not be in a call.
void free_scratch();

}  // namespace wir
