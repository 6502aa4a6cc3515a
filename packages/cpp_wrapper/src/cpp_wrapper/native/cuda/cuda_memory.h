// Devices of the native runtime: the stream of the current call, contexts, and memory.
#pragma once
#include "driver.h"
#include "memory.h"

/// Declares or defines an operator of the device, with the parameters of torch's C shim for its schema. Its work is queued
/// on `current_device.stream`.
#define WIR_CUDA_OPERATOR(name) int32_t wir_cuda_##name

namespace wir {

/// The largest number of devices of a process.
inline constexpr int32_t kMaxDevices = 64;

/// The device and stream of the current call of this thread.
struct CurrentDevice {
  int32_t index = 0;
  void* stream = nullptr;  // null: the default stream
};
extern constinit thread_local CurrentDevice current_device;

/// Makes the primary context of a device current during its lifetime.
class DeviceContext {
 public:
  explicit DeviceContext(int32_t gpu);
  DeviceContext(const DeviceContext&) = delete;
  ~DeviceContext();

 private:
  bool is_pushed_ = false;
};

/// Copies elements of equal types on a device, of any strides.
void copy_on_device(Tensor target, Tensor source);

inline uint64_t device_address(Tensor tensor) { return reinterpret_cast<uint64_t>(tensor->data()); }

}  // namespace wir
