// The functions that a native library exports.
#include "container.h"

namespace wir {
namespace {

/// A tensor of the caller, or a result until `wir_free`.
struct Plain {
  void* data;
  int64_t rank;
  const int64_t *sizes, *strides;
  int32_t dtype;
  Tensor owner;
};

void run_plain(Container& container, Run& run, const Plain* inputs, size_t num_inputs, Plain* outputs, size_t num_outputs) {
  const Convention& model = *wir_program.convention;
  if (num_inputs != model.inputs) fail_text("WIR926", {"expected ", model.inputs, " inputs, got ", num_inputs});
  if (num_outputs != model.outputs) {
    fail_text("WIR926", {"expected room for ", model.outputs, " outputs, got ", num_outputs});
  }
  Handles given(num_inputs, nullptr), results(num_outputs, nullptr);
  for (size_t i = 0; i < num_inputs; ++i) {
    const Plain& one = inputs[i];
    given[i] = borrow_tensor(static_cast<unsigned char*>(one.data), 0, one.rank, one.sizes, one.strides, one.dtype);
  }
  run_model(container, given.data(), results.data(), run);
  for (size_t i = 0; i < num_outputs; ++i) {
    const Tensor made = results[i];
    if (made == nullptr) continue;
    outputs[i] = {made->data(), made->rank, made->sizes(), made->strides(), made->dtype, take(results[i])};
  }
}

}  // namespace
}  // namespace wir

#define WIR_API __attribute__((visibility("default"))) int32_t

extern "C" {
WIR_API wir_open(wir::Container** made) {
  return wir::guarded([&] { *made = new wir::Container(); });
}
WIR_API wir_close(wir::Container* container) {
  return wir::guarded([&] { delete container; });
}
WIR_API wir_run(wir::Container* container, const wir::Plain* inputs, size_t num_inputs, wir::Plain* outputs,
                size_t num_outputs) {
  wir::Run run;
  return wir::guarded(run, [&] { wir::run_plain(*container, run, inputs, num_inputs, outputs, num_outputs); });
}
WIR_API wir_free(Tensor tensor) {
  return wir::drop(tensor), 0;
}
__attribute__((visibility("default"))) const char* wir_last_error() { return wir::last_error().c_str(); }
}
