// AOTInductor's container interface (torch/csrc/inductor/aoti_runtime/interface.h) over one program.
#include "container.h"

#include <algorithm>
#include <cstdlib>
#include <cstring>

namespace wir {
namespace {

/// Returns the line of the processor's flags in /proc/cpuinfo, and a space.
std::string read_flags() {
  std::string line;
  if (std::FILE* file = std::fopen("/proc/cpuinfo", "r")) {
    for (int c = std::fgetc(file); c != EOF; c = std::fgetc(file)) {
      if (c != '\n') {
        line += static_cast<char>(c);
      } else if (line.rfind("flags", 0) == 0 || line.rfind("Features", 0) == 0) {
        break;
      } else {
        line.clear();
      }
    }
    std::fclose(file);
  }
  return line + ' ';
}

/// Returns whether ATEN_CPU_CAPABILITY prevents torch from using an instruction set.
bool is_hidden(const std::string& flag) {
  const char* level = std::getenv("ATEN_CPU_CAPABILITY");
  if (level == nullptr) return false;
  const bool is_wide = flag.rfind("avx512", 0) == 0 || flag.rfind("amx", 0) == 0;
  return std::strcmp(level, "default") == 0 || (std::strcmp(level, "avx2") == 0 && is_wide);
}

struct Missing {
  std::string here;
  bool is_for_torch = false;
};
/// Returns the flags of one kernel that the processor lacks, and advances `needs` to the next kernel.
Missing missing_flags(const char*& needs) {
  static const std::string flags = read_flags();
  Missing missing;
  while (*needs != '|') {
    const size_t length = std::strcspn(needs, " |");
    const std::string word(needs, length);
    needs += length + (needs[length] == ' ');
    const bool is_missing = flags.find(join({" ", word, " "})) == std::string::npos;
    if (is_missing) missing.here += join({" ", word});
    missing.is_for_torch |= is_missing || is_hidden(word);
  }
  ++needs;
  return missing;
}

/// Returns the number of the first kernel that can run, or -1 and the flags that the last one lacks.
[[gnu::cold]] int first_runnable(const char* needs, std::string& lacks) {
  int found = -1;
  for (int number = 0; *needs; ++number) {
    const Missing missing = missing_flags(needs);
    if (!missing.is_for_torch) return number;
    if (missing.here.empty() && found < 0) found = number;
    lacks = missing.here;
  }
  return found;
}

}  // namespace

void require_instructions() {
  for (const char* const* row = wir_program.instructions; *row != nullptr; ++row) {
    std::string lacks;
    if (first_runnable(*row, lacks) < 0) {
      fail_text("CPP201", {"the kernels need instructions that this host lacks:", lacks});
    }
  }
}

Kernel choose(const char* needs, std::initializer_list<Kernel> kernels) {
  std::string lacks;
  const int number = first_runnable(needs, lacks);
  return kernels.begin()[number < 0 ? 0 : number];  // never negative in a loaded library
}

namespace {

void output(Tensor& made, const Output& wanted, Tensor* inputs, Tensor* results) {
  switch (wanted.kind) {
    case Output::kResult:
      if (results[wanted.index] != nullptr) made = same(results[wanted.index]);
      break;
    case Output::kInput: made = same(inputs[wanted.index]); break;
    case Output::kInt: result(made, Int(wanted.index)); break;
    case Output::kFloat: result(made, wanted.value); break;
    case Output::kBool: result(made, wanted.index != 0); break;
    case Output::kNone: break;
  }
}

/// Runs the program on the model's arguments, and writes the model's outputs.
void run_model(Container& container, const Convention& model, Tensor* inputs, Tensor* outputs, Run& run) {
  Handles parameters(wir_program.params, nullptr), results(wir_program.results, nullptr);
  for (size_t i = 0; i < wir_program.params; ++i) parameters[i] = same(inputs[model.input_of[i]]);
  container.run(parameters.data(), results.data(), run);
  parameters.clear();  // the program owns them
  Handles found(model.outputs, nullptr);
  for (size_t i = 0; i < model.outputs; ++i) output(found[i], model.output_table[i], inputs, results.data());
  std::copy(found.begin(), found.end(), outputs);
  found.clear();
}

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
    if (model.input_of != nullptr) return run_model(*container, model, inputs, outputs, run);
    given.count = 0;
    container->run(inputs, outputs, run);
  });
}

const Named& named(void* map) { return *static_cast<const Named*>(map); }

int32_t update(Container* container, void* map, bool is_inactive, bool is_full, bool is_borrowed) {
  return guarded([&] { container->update(named(map), is_inactive, is_full, is_borrowed); });
}

// --- outputs in the caller's memory

/// The bytes that contain a tensor's elements.
struct Span {
  uintptr_t begin = 0, end = 0;
  bool meets(const Span& other) const { return begin < other.end && other.begin < end; }
};

/// Raises CPP610 if two elements of a target may share memory.
Span span_of(Tensor tensor, const std::string& target) {
  if (tensor == nullptr) return {};
  const Dims layout(tensor);
  std::vector<std::pair<int64_t, int64_t>> dims;  // strides and sizes, from the innermost dimension on
  for (int64_t i = 0; i < layout.rank; ++i) {
    if (layout.sizes[i] == 0) return {};
    if (layout.sizes[i] == 1) continue;
    dims.emplace_back(layout.strides[i], layout.sizes[i]);
    for (size_t n = dims.size() - 1; n > 0 && dims[n] < dims[n - 1]; --n) std::swap(dims[n], dims[n - 1]);
  }
  int64_t last = 0;
  for (const auto& [stride, size] : dims) {
    if (stride <= last && !target.empty()) fail_text("CPP610", {target, ": elements of ", tensor_text(tensor), " share memory"});
    last += stride * (size - 1);
  }
  const auto begin = reinterpret_cast<uintptr_t>(data(tensor));
  return {begin, begin + (static_cast<uintptr_t>(last) + 1) * aoti_torch_dtype_element_size(dtype_of(tensor))};
}

/// Returns a tensor's type without its strides.
std::string type_text(Tensor tensor) {
  return tensor == nullptr ? "no tensor" : without_strides(tensor_text(tensor));
}

struct Row {
  Tensor* handles;
  size_t count;
};

/// Copies outputs to the caller's tensors after it has checked all of them.
void write_outputs(Row targets, Row outputs, Row inputs) {
  if (targets.count != outputs.count) {
    fail_text("CPP610", {"expected tensors for ", outputs.count, " outputs, got ", targets.count});
  }
  std::vector<Span> taken;  // by inputs, then by targets
  for (size_t i = 0; i < inputs.count; ++i) taken.push_back(span_of(inputs.handles[i], ""));
  for (size_t i = 0; i < targets.count; ++i) {
    const std::string name = join({"output ", i}), found = type_text(targets.handles[i]);
    const std::string want = type_text(outputs.handles[i]);
    if (found != want) fail_text("CPP610", {name, ": expected ", want, ", got ", found});
    const Span span = span_of(targets.handles[i], name);
    for (size_t other = 0; other < taken.size(); ++other) {
      if (!span.meets(taken[other])) continue;
      const bool is_input = other < inputs.count;
      fail_text("CPP610", {name, " overlaps ", is_input ? "input " : "output ", is_input ? other : other - inputs.count});
    }
    taken.push_back(span);
  }
  const NoGrad no_grad;
  for (size_t i = 0; i < targets.count; ++i) {
    if (targets.handles[i] != nullptr) copy(targets.handles[i], outputs.handles[i]);
  }
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
  if (error != 0 && !is_told) std::fprintf(stderr, "%s\n", wir::last_error().c_str());
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
  *message = wir::last_error().c_str();
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
