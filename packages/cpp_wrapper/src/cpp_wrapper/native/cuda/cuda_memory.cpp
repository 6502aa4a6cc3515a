// Devices of the native runtime, by the driver alone: the stream of the current call, memory, copies.
#include "cuda_memory.h"

#include <algorithm>
#include <cstring>
#include <mutex>

#include "operator.h"

namespace wir {

constinit thread_local CurrentDevice current_device;

namespace {

/// The primary context of a device, and its pool of memory; null if the device has no pools.
struct Place {
  std::once_flag opens;
  void *context = nullptr, *pool = nullptr;
};

void open_place(Place& place, int32_t gpu) {
  const Driver& api = driver();
  int device = 0, has_pools = 0;
  check(api.DeviceGet(&device, gpu), "find the device");
  check(api.DevicePrimaryCtxRetain(&place.context, device), "use the device");
  check(api.DeviceGetAttribute(&has_pools, kMemoryPools, device), "ask for memory pools");
  if (has_pools == 0) return;
  PoolFacts facts;
  facts.index = device;
  check(api.MemPoolCreate(&place.pool, &facts), "make a pool of memory");
  uint64_t keeps_all = UINT64_MAX;  // freed memory stays in the pool, as in torch's allocator
  check(api.MemPoolSetAttribute(place.pool, kReleaseThreshold, &keeps_all), "make a pool of memory");
}

Place places[kMaxDevices];

Place& place_of(int32_t gpu) {
  if (gpu < 0 || gpu >= kMaxDevices) fail_text("CPP591", {"there is no device ", gpu});
  Place& found = places[gpu];
  std::call_once(found.opens, open_place, found, gpu);
  return found;
}

}  // namespace

DeviceContext::DeviceContext(int32_t gpu) {
  void *wanted = place_of(gpu).context, *context = nullptr;
  if (driver().CtxGetCurrent(&context) == 0 && context == wanted) return;
  check(driver().CtxPushCurrent(wanted), "use the device");
  is_pushed_ = true;
}

DeviceContext::~DeviceContext() {
  void* popped = nullptr;
  if (is_pushed_) driver().CtxPopCurrent(&popped);
}

namespace {

// --- memory

/// Frees memory after the work that its stream has now.
void free_memory(uint64_t address, int32_t gpu, void* stream) noexcept {
  if (address == 0) return;
  try {
    const DeviceContext context(gpu);
    if (place_of(gpu).pool == nullptr || driver().MemFreeAsync(address, stream) != 0) driver().MemFree(address);
  } catch (const std::exception&) {
    // the device ended before its memory
  }
}

uint64_t allocate_memory(int64_t nbytes, int32_t gpu, void* stream) {
  if (nbytes == 0) return 0;
  const DeviceContext context(gpu);
  uint64_t found = 0;
  void* const pool = place_of(gpu).pool;
  const auto count = static_cast<size_t>(nbytes);
  const int status = pool != nullptr ? driver().MemAllocFromPoolAsync(&found, count, pool, stream) : driver().MemAlloc(&found, count);
  if (status != 0) driver_failed(status, join({"allocate ", nbytes, " bytes"}).c_str());
  return found;
}

void free_device(Storage* storage) {
  free_memory(reinterpret_cast<uint64_t>(storage->data), storage->gpu, storage->stream);
  delete_storage(storage);
}

void free_pinned(Storage* storage) {
  driver().MemFreeHost(storage->data);
  delete_storage(storage);
}

Storage* device_storage(void* data, int64_t nbytes, void (*free)(Storage*), int32_t gpu, void* stream) {
  Storage* const storage = new_storage(static_cast<unsigned char*>(data), nbytes, free, nullptr, gpu);
  storage->stream = stream;
  return storage;
}

Tensor allocate_on(int64_t rank, const int64_t* sizes, const int64_t* strides, int32_t dtype, int32_t gpu) {
  const int64_t nbytes = layout_bytes(rank, sizes, strides, dtype);
  if (result_memory != nullptr) {
    if (const Tensor made = result_memory(rank, sizes, strides, dtype, gpu)) return made;
  }
  void* const stream = current_device.stream;
  auto* const data = reinterpret_cast<void*>(allocate_memory(nbytes, gpu, stream));
  return new_over(device_storage(data, nbytes, free_device, gpu, stream), rank, sizes, strides, dtype);
}

Tensor allocate_pinned(int64_t rank, const int64_t* sizes, const int64_t* strides, int32_t dtype) {
  const DeviceContext context(current_device.index);
  const int64_t nbytes = layout_bytes(rank, sizes, strides, dtype);
  void* data = nullptr;
  constexpr unsigned kForAllContexts = 1;
  check(driver().MemHostAlloc(&data, static_cast<size_t>(std::max<int64_t>(nbytes, 1)), kForAllContexts), "allocate pinned memory");
  return new_over(device_storage(data, nbytes, free_pinned, -1, nullptr), rank, sizes, strides, dtype);
}

void move_storage(Storage* storage, int64_t nbytes) {
  const DeviceContext context(storage->gpu);
  void* const stream = current_device.stream;
  const uint64_t made = allocate_memory(nbytes, storage->gpu, stream), old = reinterpret_cast<uint64_t>(storage->data);
  const auto kept = static_cast<size_t>(std::min(nbytes, storage->nbytes));
  if (kept != 0) check(driver().MemcpyDtoDAsync(made, old, kept, stream), "copy on the device");
  if (storage->free == free_device) free_memory(old, storage->gpu, storage->stream);
  storage->data = reinterpret_cast<unsigned char*>(made);
  storage->nbytes = nbytes;
  storage->free = free_device;
  storage->owner = nullptr;
  storage->stream = stream;
}

// --- copies

void synchronize() { check(driver().StreamSynchronize(current_device.stream), "wait for a stream"); }

/// Whether the elements fill the bytes from the first to the last one, each once.
bool is_dense(Tensor tensor) {
  if (is_contiguous(tensor)) return true;
  int64_t covered = 1;  // elements of the dimensions found so far, the innermost first
  for (bool is_found = true; is_found && covered < tensor->count;) {
    is_found = false;
    for (int64_t i = 0; i < tensor->rank && !is_found; ++i) {
      is_found = tensor->sizes()[i] > 1 && tensor->strides()[i] == covered;
      if (is_found) covered *= tensor->sizes()[i];
    }
  }
  return covered == tensor->count;
}

/// Whether the bytes of one are those of the other.
bool has_bytes_of(Tensor first, Tensor second) {
  return has_layout(first, second->rank, second->sizes(), second->strides(), second->dtype) && is_dense(first);
}

/// Copies all bytes of tensors of one dense layout, one or both on a device.
void copy_bytes(Tensor target, Tensor source) {
  const auto nbytes = static_cast<size_t>(extent_bytes(target));
  if (nbytes == 0) return;
  check(driver().MemcpyAsync(device_address(target), device_address(source), nbytes, current_device.stream), "copy");
}

/// Copies between the host and a device. Elements are arranged and converted on the host.
void copy_across(Tensor target, Tensor source, bool may_return_early) {
  if (has_bytes_of(target, source)) {
    copy_bytes(target, source);
    if (!may_return_early) synchronize();
    return;
  }
  if (source->storage->gpu >= 0) {
    const Owned dense = contiguous(source);
    const Owned on_host(new_tensor(dense->rank, dense->sizes(), nullptr, dense->dtype));
    copy_bytes(on_host.get(), dense.get());
    synchronize();
    return copy_into(target, on_host.get());
  }
  const Owned on_host(new_tensor(target->rank, target->sizes(), nullptr, target->dtype));
  copy_into(on_host.get(), source);
  if (is_contiguous(target)) {
    copy_bytes(target, on_host.get());
    return synchronize();
  }
  const Owned dense(new_like(target, target->rank, target->sizes(), nullptr, target->dtype));
  copy_bytes(dense.get(), on_host.get());
  synchronize();
  copy_on_device(target, dense.get());
}

void copy_with_device(Tensor target, Tensor source, bool may_return_early) {
  const int32_t to = target->storage->gpu, from = source->storage->gpu;
  const DeviceContext context(to >= 0 ? to : from);
  if (to < 0 || from < 0) return copy_across(target, source, may_return_early);
  if (to != from) fail_text("WIR927", {"copy_ failed: from device ", from, " to device ", to, ": a program uses one device"});
  if (has_bytes_of(target, source) && !may_overlap(target, source)) return copy_bytes(target, source);
  if (target->dtype != source->dtype) {
    fail_text("WIR927", {"copy_ failed: the native runtime does not convert ", tensor_text(source), " to ", tensor_text(target),
                         " on a device"});
  }
  if (!may_overlap(target, source)) return copy_on_device(target, source);
  const Owned apart(new_like(source, source->rank, source->sizes(), nullptr, source->dtype));
  copy_on_device(apart.get(), source);
  copy_on_device(target, apart.get());
}

void zero_on_device(Tensor tensor) {
  const DeviceContext context(tensor->storage->gpu);
  if (is_dense(tensor)) {
    const auto nbytes = static_cast<size_t>(extent_bytes(tensor));
    if (nbytes != 0) check(driver().MemsetD8Async(device_address(tensor), 0, nbytes, current_device.stream), "set memory");
    return;
  }
  const Owned zero(allocate_on(0, nullptr, nullptr, tensor->dtype, tensor->storage->gpu));
  zero_on_device(zero.get());
  copy_on_device(tensor, zero.get());
}

void trim_pools() {
  for (const Place& place : places) {
    if (place.pool != nullptr) driver().MemPoolTrimTo(place.pool, 0);
  }
}

void synchronize_device(int32_t gpu) {
  const DeviceContext context(gpu);
  synchronize();
}

}  // namespace

const DeviceMemory device_memory = {allocate_on, allocate_pinned, copy_with_device, zero_on_device, move_storage, free_device,
                                    [](void* stream) { current_device.stream = stream; }, synchronize_device, trim_pools};

}  // namespace wir

// --- the current device and stream, as torch's C shim has them

namespace wir {
struct CudaGuardOpaque {
  int32_t before;
};
struct CudaStreamGuardOpaque {
  void* before;
};
}  // namespace wir

extern "C" {
int32_t aoti_torch_get_current_device_index(int32_t* found) { return *found = wir::current_device.index, 0; }
int32_t aoti_torch_create_cuda_guard(int32_t index, wir::CudaGuardOpaque** guard) {
  *guard = new wir::CudaGuardOpaque{wir::current_device.index};
  wir::current_device.index = index;
  return 0;
}
int32_t aoti_torch_delete_cuda_guard(wir::CudaGuardOpaque* guard) {
  wir::current_device.index = guard->before;
  delete guard;
  return 0;
}
int32_t aoti_torch_create_cuda_stream_guard(void* stream, int32_t, wir::CudaStreamGuardOpaque** guard) {
  *guard = new wir::CudaStreamGuardOpaque{wir::current_device.stream};
  wir::current_device.stream = stream;
  return 0;
}
int32_t aoti_torch_delete_cuda_stream_guard(wir::CudaStreamGuardOpaque* guard) {
  wir::current_device.stream = guard->before;
  delete guard;
  return 0;
}
int32_t aoti_torch_get_current_cuda_stream(int32_t, void** stream) { return *stream = wir::current_device.stream, 0; }
}
