// Tensors of callers (DLPack), as tensors of the runtime and back.
#include "dlpack.h"

#include <cstdlib>
#include <cstring>
#include <new>

namespace wir {
namespace {

struct TypeRow {
  uint8_t code, bits;
  uint16_t lanes;
  int32_t dtype;
};
constexpr TypeRow kDLTypes[] = {
    {kDLFloat, 32, 1, kF32}, {kDLInt, 64, 1, kI64}, {kDLFloat, 64, 1, kF64}, {kDLBool, 8, 1, kBool},
    {kDLFloat, 16, 1, kF16}, {kDLBfloat, 16, 1, kBF16}, {kDLInt, 32, 1, kI32}, {kDLInt, 16, 1, kI16},
    {kDLInt, 8, 1, kI8}, {kDLUInt, 8, 1, kU8}, {kDLUInt, 16, 1, kU16}, {kDLUInt, 32, 1, kU32}, {kDLUInt, 64, 1, kU64},
    {kDLComplex, 32, 1, kC32}, {kDLComplex, 64, 1, kC64}, {kDLComplex, 128, 1, kC128},
    {kDLFloat8_e4m3fn, 8, 1, kF8E4M3FN}, {kDLFloat8_e5m2, 8, 1, kF8E5M2}, {kDLFloat8_e4m3fnuz, 8, 1, kF8E4M3FNUZ},
    {kDLFloat8_e5m2fnuz, 8, 1, kF8E5M2FNUZ}, {kDLFloat8_e8m0fnu, 8, 1, kF8E8M0FNU},
    {kDLFloat4_e2m1fn, 4, 2, kF4E2M1FNX2},
};

[[noreturn, gnu::cold]] void refuse(const Subject& subject, Parts why) {
  const std::string name = subject.name != nullptr ? subject.name : join({subject.number});
  const char* where = wir_program.gpu == nullptr ? " on cpu" : "";
  fail_text(subject.code, {subject.kind, " ", name, ": expected ", subject.expected, where, ", got ", join(why)});
}

DLDataType type_of(int32_t dtype) {
  for (const TypeRow& row : kDLTypes) {
    if (row.dtype == dtype) return {row.code, row.bits, row.lanes};
  }
  fail_text("WIR927", {"a result's element type has no code in DLPack: ", dtype_name(dtype)});
}

/// The part of a result that the caller owns.
struct Lent {
  DLManagedTensorVersioned managed;
  Tensor tensor;
};

void delete_lent(DLManagedTensorVersioned* managed) {
  if (managed == nullptr) return;
  free_tensor(static_cast<Lent*>(managed->manager_ctx)->tensor);
  std::free(managed->manager_ctx);
}

}  // namespace

int32_t dtype_of(const DLDataType& type) {
  for (const TypeRow& row : kDLTypes) {
    if (row.code == type.code && row.bits == type.bits && row.lanes == type.lanes) return row.dtype;
  }
  return -1;
}

Tensor borrow(const DLTensor* given, const Subject& subject) {
  if (given == nullptr) refuse(subject, {"no tensor"});
  const DLTensor& from = *given;
  const bool is_on_gpu = from.device.device_type == kDLCUDA && wir_program.gpu != nullptr;
  if (from.device.device_type != kDLCPU && from.device.device_type != kDLCUDAHost && !is_on_gpu) {
    refuse(subject, {"a tensor on a device of DLPack type ", static_cast<int64_t>(from.device.device_type)});
  }
  if (from.ndim < 0 || from.ndim > kMaxRank) refuse(subject, {"a tensor of ", from.ndim, " dimensions"});
  if (from.ndim > 0 && from.shape == nullptr) refuse(subject, {"a tensor without sizes"});
  int64_t contiguous[kMaxRank];
  const int64_t* strides = from.strides;
  Int running = 1, count = 1;
  for (int64_t i = from.ndim - 1; i >= 0; --i) {
    if (from.shape[i] < 0) refuse(subject, {"a tensor of size ", from.shape[i]});
    if (from.strides != nullptr && from.strides[i] < 0) refuse(subject, {"a tensor with negative strides: pass a copy"});
    contiguous[i] = raw(running);
    count = count * Int(from.shape[i]);
    running = running * Int(from.shape[i] > 1 ? from.shape[i] : 1);
  }
  if (strides == nullptr) strides = contiguous;
  const int32_t dtype = dtype_of(from.dtype);
  if (dtype < 0) {
    refuse(subject, {"elements of DLPack type ", from.dtype.code, " with ", from.dtype.bits, " bits and ", from.dtype.lanes,
                     " lanes"});
  }
  if (from.data == nullptr && raw(count) != 0) refuse(subject, {"a tensor without memory"});
  auto* const data = static_cast<unsigned char*>(from.data) + from.byte_offset;
  const bool is_complex = dtype == kC32 || dtype == kC64 || dtype == kC128;
  const int64_t alignment = element_size(dtype) / (is_complex ? 2 : 1);
  if (reinterpret_cast<uintptr_t>(data) % static_cast<uintptr_t>(alignment) != 0) {
    refuse(subject, {"memory that is not aligned to its elements: pass a copy"});
  }
  const int32_t gpu = is_on_gpu ? from.device.device_id : -1;
  if (is_on_gpu && gpu < 0) refuse(subject, {"a tensor on device ", gpu});
  return borrow_tensor(data, 0, from.ndim, from.shape, strides, dtype, gpu);
}

DLManagedTensorVersioned* lend(Tensor& owned) {
  const DLDataType type = type_of(owned->dtype);
  auto* const made = static_cast<Lent*>(std::malloc(sizeof(Lent)));
  if (made == nullptr) fail("WIR927", "allocation failed: no memory for a result");
  made->tensor = take(owned);
  const Tensor tensor = made->tensor;
  DLManagedTensorVersioned& managed = made->managed;
  managed = {};
  managed.version = {DLPACK_MAJOR_VERSION, DLPACK_MINOR_VERSION};
  managed.manager_ctx = made;
  managed.deleter = delete_lent;
  const int32_t gpu = tensor->storage->gpu;
  const DLDevice device = gpu < 0 ? DLDevice{kDLCPU, 0} : DLDevice{kDLCUDA, gpu};
  managed.dl_tensor = {tensor->data(), device, static_cast<int32_t>(tensor->rank), type, tensor->sizes(),
                       tensor->strides(), 0};
  return &managed;
}

// --- results in the caller's memory

namespace {

constinit thread_local Targets* targets = nullptr;

constexpr uintptr_t kTargetAlignment = 64;  // which programs rely on

void end_user(Storage* storage) {
  static_cast<Target*>(storage->owner)->user = nullptr;
  delete_storage(storage);
}

}  // namespace

Targets::Targets(const SmallList<Tensor>& tensors) {
  targets_.reserve(tensors.size());
  for (const Tensor tensor : tensors) {
    if (tensor == nullptr || tensor->count == 0) continue;
    if (reinterpret_cast<uintptr_t>(tensor->data()) % kTargetAlignment == 0) targets_.push_back({tensor});
  }
  targets = this;
  result_memory = [](int64_t rank, const int64_t* sizes, const int64_t* strides, int32_t dtype, int32_t gpu) {
    return targets->take(rank, sizes, strides, dtype, gpu);
  };
}

Targets::~Targets() {
  stop();
  for (Target& target : targets_) {
    if (target.user != nullptr) take_over(target.user);  // memory that the program keeps between calls
  }
}

bool Targets::owns(Tensor tensor) { return tensor->storage->free == end_user; }

void Targets::release(Tensor tensor) {
  static_cast<Target*>(tensor->storage->owner)->user = nullptr;
  take_over(tensor->storage);
}

Tensor Targets::take(int64_t rank, const int64_t* sizes, const int64_t* strides, int32_t dtype, int32_t gpu) {
  for (Target& target : targets_) {
    if (target.tensor->storage->gpu != gpu) continue;
    if (target.user != nullptr || !has_layout(target.tensor, rank, sizes, strides, dtype)) continue;
    const Storage& memory = *target.tensor->storage;
    Storage* const storage = new_storage(memory.data, memory.nbytes, end_user, &target, gpu);
    target.user = storage;
    return new_over(storage, rank, sizes, strides, dtype);
  }
  return nullptr;
}

}  // namespace wir
