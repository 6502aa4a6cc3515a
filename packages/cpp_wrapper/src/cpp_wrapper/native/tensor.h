// Tensors of the native runtime: plain values over reference-counted storages.
#pragma once
#include <atomic>
#include <cstddef>
#include <cstdint>

namespace wir {

/// Memory that tensors share. `free` releases the memory and the storage when the last tensor ends.
struct Storage {
  unsigned char* data;
  int64_t nbytes;
  std::atomic<int64_t> users;
  void (*free)(Storage*);
  void* owner;  // what `free` releases, of memory of others
  int32_t gpu = -1;        // the index of the CUDA device that has the memory; -1: the host
  void* stream = nullptr;  // of that device: its work before the release of the memory may use it
};

}  // namespace wir

/// A tensor, which several handles may share. Sizes and strides follow the struct, both in elements.
struct AtenTensorOpaque {
  wir::Storage* storage;
  int64_t offset;       // bytes from the storage's begin to the first element
  int64_t rank, count;  // `count`: number of elements
  int32_t dtype;        // a `DType`
  std::atomic<int32_t> handles;

  /// The address of the first element. It changes when the storage is resized.
  unsigned char* data() const { return storage->data + offset; }
  int64_t* sizes() { return reinterpret_cast<int64_t*>(this + 1); }
  int64_t* strides() { return sizes() + rank; }
};
using AtenTensorHandle = AtenTensorOpaque*;
using Tensor = AtenTensorHandle;

namespace wir {

/// Element types, with torch's codes (`c10::ScalarType`).
enum DType : int32_t {
  kU8 = 0,
  kI8 = 1,
  kI16 = 2,
  kI32 = 3,
  kI64 = 4,
  kF16 = 5,
  kF32 = 6,
  kF64 = 7,
  kC32 = 8,
  kC64 = 9,
  kC128 = 10,
  kBool = 11,
  kBF16 = 15,
  kF8E5M2 = 23,
  kF8E4M3FN = 24,
  kF8E5M2FNUZ = 25,
  kF8E4M3FNUZ = 26,
  kU16 = 27,
  kU32 = 28,
  kU64 = 29,
  kF8E8M0FNU = 44,
  kF4E2M1FNX2 = 45,
};

}  // namespace wir
