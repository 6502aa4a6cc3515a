// Models of the interface: what its files share.
#pragma once
#include "dlpack.h"

namespace wir {

/// Memory of a model's calls. One call at a time uses a part of it; no call waits for one.
class CallMemory {
 public:
  CallMemory() = default;
  CallMemory(const CallMemory&) = delete;
  ~CallMemory() {
    for (auto& place : places_) delete place.load();
  }
  /// Returns an idle part, or a new one.
  SmallMemory* take() {
    for (auto& place : places_) {
      if (place.load(std::memory_order_relaxed) == nullptr) continue;
      if (SmallMemory* const found = place.exchange(nullptr)) return found;
    }
    return new SmallMemory;
  }
  void give(SmallMemory* part) {
    for (auto& place : places_) {
      SmallMemory* expected = nullptr;
      if (place.compare_exchange_strong(expected, part)) return;
    }
    delete part;
  }

 private:
  std::atomic<SmallMemory*> places_[32] = {};
};

}  // namespace wir

/// An open model.
struct wir_model {
  wir::CallMemory memory;
  wir::Container container;
  int32_t threads = 0, device = 0;
  std::once_flag reads_metadata;
  std::string metadata;

  explicit wir_model(const wir_options& options)
      : container(options.device), threads(options.threads), device(options.device) {}
};

namespace wir {

/// Returns a caller's model. Fails with WIR926 for a null pointer.
inline wir_model& checked(wir_model* model) {
  if (model == nullptr) fail("WIR926", "expected a model, got a null pointer");
  return *model;
}

int32_t use_stream(void* stream);
int32_t synchronize(wir_model* model);
int32_t copy_to(wir_model* model, DLDeviceType device, const DLTensor* source, DLManagedTensorVersioned** copy);

}  // namespace wir
