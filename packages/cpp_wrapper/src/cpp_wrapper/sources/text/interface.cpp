// AOTInductor's container interface (torch/csrc/inductor/aoti_runtime/interface.h) over one program.
#include "container.h"

#include <algorithm>
#include <cstdlib>
#include <cstring>

namespace wir {
namespace {

int32_t run(Container* container, Tensor* inputs, size_t num_inputs, Tensor* outputs, size_t num_outputs, void* stream) {
  Run run;
  run.stream = stream;
  return guarded(run, [&] {
    Given given{inputs, num_inputs};
    const Convention& model = *wir_program.convention;
    if (num_inputs != model.inputs) {
      fail_text("WIR926", {"expected ", model.inputs, " inputs, got ", num_inputs});
    }
    if (num_outputs != model.outputs) {
      fail_text("WIR926", {"expected room for ", model.outputs, " outputs, got ", num_outputs});
    }
    run_model(*container, inputs, outputs, run);
  });
}

const Named& named(void* map) { return *static_cast<const Named*>(map); }

int32_t update(Container* container, void* map, bool is_inactive, bool is_full, bool is_borrowed) {
  return guarded([&] { container->update(named(map), is_inactive, is_full, is_borrowed); });
}

const Constant& constant_at(size_t index) {
  if (index >= wir_program.constants) fail("WIR926", "there is no constant of this number");
  return wir_program.constant_table[index];
}

}  // namespace
}  // namespace wir

#define WIR_API __attribute__((visibility("default"))) int32_t
using wir::constant_at;
using wir::Container;
using wir::guarded;

extern "C" {
uint64_t wir_constants_nbytes();

WIR_API AOTInductorModelContainerCreateWithDevice(Container** made, size_t, const char* device, const char*) {
  const int32_t error = guarded([&] {
    const std::string want = wir_program.gpu == nullptr ? "cpu" : "cuda";
    const std::string given = device == nullptr || *device == 0 ? want : device;
    if (given.rfind(want, 0) != 0) wir::fail_text("WIR926", {"this library runs on ", want, ", not on ", given});
    const size_t colon = given.find(':');
    *made = new Container(colon == std::string::npos ? -1 : std::atoi(given.c_str() + colon + 1));
  });
  // torch's runners do not query why there is no container; `guarded` prints the reason for old versions
  const bool is_told = &torch_exception_get_what_without_backtrace == nullptr;
  if (error != 0 && !is_told) std::fprintf(stderr, "%s\n", wir::last_error());
  return error;
}
WIR_API AOTInductorModelContainerCreate(Container** made, size_t count, bool is_cpu, const char* folder) {
  return AOTInductorModelContainerCreateWithDevice(made, count, is_cpu ? "cpu" : "cuda", folder);
}
WIR_API AOTInductorModelContainerDelete(Container* container) {
  return guarded([&] { delete container; });
}
WIR_API AOTInductorModelContainerRun(Container* container, Tensor* inputs, size_t num_inputs, Tensor* outputs,
                                     size_t num_outputs, void* stream, void*) {
  return wir::run(container, inputs, num_inputs, outputs, num_outputs, stream);
}
WIR_API AOTInductorModelContainerRunSingleThreaded(Container* container, Tensor* inputs, size_t num_inputs,
                                                   Tensor* outputs, size_t num_outputs, void* stream, void*) {
  return wir::run(container, inputs, num_inputs, outputs, num_outputs, stream);
}
WIR_API AOTInductorGetLastError(const char** message) {
  *message = wir::last_error();
  return 0;
}
WIR_API AOTInductorModelContainerGetNumInputs(Container*, size_t* count) {
  return *count = wir_program.convention->inputs, 0;
}
WIR_API AOTInductorModelContainerGetNumOutputs(Container*, size_t* count) {
  return *count = wir_program.convention->outputs, 0;
}
WIR_API AOTInductorModelContainerGetInputName(Container*, size_t index, const char** name) {
  return guarded([&] {
    if (index >= wir_program.convention->inputs) wir::fail("WIR926", "there is no input of this number");
    *name = wir_program.convention->input_names[index];
  });
}
WIR_API AOTInductorModelContainerGetOutputName(Container*, size_t index, const char** name) {
  return guarded([&] {
    if (index >= wir_program.convention->outputs) wir::fail("WIR926", "there is no output of this number");
    thread_local std::string text;
    text = wir::join({"output", index});
    *name = text.c_str();
  });
}
WIR_API AOTInductorModelContainerGetNumConstants(Container*, size_t* count) {
  return *count = wir_program.constants, 0;
}
WIR_API AOTInductorModelContainerGetConstantName(Container*, size_t index, const char** name) {
  return guarded([&] { *name = constant_at(index).name; });
}
WIR_API AOTInductorModelContainerGetConstantOriginalFQN(Container*, size_t index, const char** name) {
  return guarded([&] { *name = constant_at(index).full_name; });
}
WIR_API AOTInductorModelContainerGetConstantFromFolded(Container*, size_t, bool* folded) { return *folded = false, 0; }
WIR_API AOTInductorModelContainerGetConstantType(Container*, size_t, int32_t* type) { return *type = 0, 0; }
WIR_API AOTInductorModelContainerGetConstantDtype(Container*, size_t index, int32_t* dtype) {
  return guarded([&] { *dtype = constant_at(index).dtype(); });
}
WIR_API AOTInductorModelContainerGetConstantDataSize(Container*, size_t index, size_t* nbytes) {
  return guarded([&] { *nbytes = constant_at(index).nbytes; });
}
WIR_API AOTInductorModelContainerGetCallSpec(Container*, const char** in_spec, const char** out_spec) {
  *in_spec = wir_program.convention->in_spec;
  *out_spec = wir_program.convention->out_spec;
  return 0;
}
WIR_API AOTInductorModelContainerRunConstantFolding(Container*, bool, void*, void*) { return 0; }
WIR_API AOTInductorModelContainerGetConstantsBlobSize(Container*, uint64_t* nbytes) {
  return *nbytes = wir_constants_nbytes(), 0;
}
WIR_API AOTInductorModelContainerExtractConstantsMap(Container* container, void* map, bool is_inactive) {
  return guarded([&] { container->extract(*static_cast<wir::Named*>(map), is_inactive); });
}
WIR_API AOTInductorModelContainerUpdateUserManagedConstantBuffer(Container* container, void* map, bool is_inactive,
                                                                 bool is_full) {
  return wir::update(container, map, is_inactive, is_full, true);
}
WIR_API AOTInductorModelContainerUpdateConstantBuffer(Container* container, void* map, bool is_inactive, bool is_full) {
  return wir::update(container, map, is_inactive, is_full, false);
}
WIR_API AOTInductorModelContainerUpdateConstantBufferFromCpu(Container* container, void* map, bool is_inactive,
                                                             bool is_full) {
  return wir::update(container, map, is_inactive, is_full, false);
}
WIR_API AOTInductorModelContainerUpdateInactiveConstantBuffer(Container* container, void* map) {
  return wir::update(container, map, true, true, false);
}
WIR_API AOTInductorModelContainerFreeInactiveConstantBuffer(Container* container) {
  return guarded([&] { container->free_inactive(); });
}
WIR_API AOTInductorModelContainerSwapConstantBuffer(Container* container) {
  return guarded([&] { container->swap(); });
}
WIR_API AOTInductorModelUpdateConstantsFromBlob(Container* container, const uint8_t* bytes) {
  return guarded([&] { container->update(bytes); });
}

/// Updates constants from arrays, for callers without `std::unordered_map`.
__attribute__((visibility("default"))) int32_t wir_update(wir::Container* container, const char* const* names, Tensor* values,
                                                          size_t count, bool is_inactive, bool is_full, bool is_borrowed) {
  return guarded([&] {
    wir::Named named;
    for (size_t i = 0; i < count; ++i) named.emplace(names[i], values[i]);
    container->update(named, is_inactive, is_full, is_borrowed);
  });
}

/// Copies outputs of a run to the caller's tensors, which must not overlap each other or the run's inputs. If one does
/// not fit, nothing is written.
__attribute__((visibility("default"))) int32_t wir_write_outputs(Tensor* targets, size_t num_targets, Tensor* outputs,
                                                                 size_t num_outputs, Tensor* inputs, size_t num_inputs) {
  return guarded([&] {
    wir::write_outputs({targets, num_targets}, {outputs, num_outputs}, {inputs, num_inputs});
  });
}
}
