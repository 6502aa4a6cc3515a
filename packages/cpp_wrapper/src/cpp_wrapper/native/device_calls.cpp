// The functions of `wrapper_ir/model.h` for devices.
#include "interface.h"

namespace wir {

int32_t use_stream(void* stream) {
  return guarded([&] {
    if (wir_program.gpu != nullptr) require_device_memory().use_stream(stream);
  });
}

int32_t synchronize(wir_model* model) {
  return guarded([&] {
    const int32_t device = checked(model).device;
    if (wir_program.gpu != nullptr) require_device_memory().synchronize(device);
  });
}

int32_t copy_to(wir_model* model, DLDeviceType device, const DLTensor* source, DLManagedTensorVersioned** copy) {
  return guarded([&] {
    wir_model& open = checked(model);
    if (copy == nullptr) fail("WIR926", "expected a place for a tensor, got a null pointer");
    *copy = nullptr;
    if (device != kDLCPU && (device != kDLCUDA || wir_program.gpu == nullptr)) {
      fail_text("WIR926", {"the model has no device of DLPack type ", static_cast<int64_t>(device)});
    }
    const Owned from(borrow(source, {"WIR926", "tensor", "source", 0, "a tensor"}));
    Owned made;
    if (device == kDLCPU) {
      made.reset(new_tensor(from->rank, from->sizes(), nullptr, from->dtype));
    } else {
      made.reset(require_device_memory().allocate(from->rank, from->sizes(), nullptr, from->dtype, open.device));
    }
    copy_into(made.get(), from.get());
    Tensor owned = made.release();
    *copy = lend(owned);
  });
}

}  // namespace wir
