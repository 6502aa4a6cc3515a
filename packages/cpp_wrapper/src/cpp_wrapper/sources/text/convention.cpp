// The model's calling convention, and the instructions that its kernels need.
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

size_t first_runnable(const char* needs) {
  std::string lacks;
  const int number = first_runnable(needs, lacks);
  return number < 0 ? 0 : static_cast<size_t>(number);  // never negative in a loaded library
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

}  // namespace

void run_model(Container& container, Tensor* inputs, Tensor* outputs, Run& run) {
  const Convention& model = *wir_program.convention;
  if (model.input_of == nullptr) return container.run(inputs, outputs, run);  // it takes all handles
  Handles parameters(wir_program.params, nullptr), results(wir_program.results, nullptr);
  for (size_t i = 0; i < wir_program.params; ++i) parameters[i] = same(inputs[model.input_of[i]]);
  container.run(parameters.data(), results.data(), run);
  parameters.clear();  // the program owns them
  Handles found(model.outputs, nullptr);
  for (size_t i = 0; i < model.outputs; ++i) output(found[i], model.output_table[i], inputs, results.data());
  std::copy(found.begin(), found.end(), outputs);
  found.clear();
}

// --- outputs in the caller's memory

namespace {

/// The bytes that contain a tensor's elements.
struct Span {
  uintptr_t begin = 0, end = 0;
  bool meets(const Span& other) const { return begin < other.end && other.begin < end; }
};

/// Raises CPP610 if two elements of a target may share memory. `target`: its number; -1 for an input, which is not checked.
Span span_of(Tensor tensor, int64_t target) {
  if (tensor == nullptr) return {};
  const Dims layout(tensor);
  SmallList<std::pair<int64_t, int64_t>> dims;  // strides and sizes, from the innermost dimension on
  for (int64_t i = 0; i < layout.rank; ++i) {
    if (layout.sizes[i] == 0) return {};
    if (layout.sizes[i] == 1) continue;
    dims.emplace_back(layout.strides[i], layout.sizes[i]);
    for (size_t n = dims.size() - 1; n > 0 && dims[n] < dims[n - 1]; --n) std::swap(dims[n], dims[n - 1]);
  }
  int64_t last = 0;
  for (const auto& [stride, size] : dims) {
    if (stride <= last && target >= 0) {
      fail_text("CPP610", {"output ", target, ": elements of ", tensor_text(tensor), " share memory"});
    }
    last += stride * (size - 1);
  }
  const auto begin = reinterpret_cast<uintptr_t>(data(tensor));
  return {begin, begin + (static_cast<uintptr_t>(last) + 1) * aoti_torch_dtype_element_size(dtype_of(tensor))};
}

/// Returns a tensor's type without its strides.
std::string type_text(Tensor tensor) {
  return tensor == nullptr ? "no tensor" : without_strides(tensor_text(tensor));
}

}  // namespace

void check_apart(Row targets, Row inputs) {
  SmallList<Span> taken;  // by inputs, then by targets
  for (size_t i = 0; i < inputs.count; ++i) taken.push_back(span_of(inputs.handles[i], -1));
  for (size_t i = 0; i < targets.count; ++i) {
    const Span span = span_of(targets.handles[i], static_cast<int64_t>(i));
    for (size_t other = 0; other < taken.size(); ++other) {
      if (!span.meets(taken[other])) continue;
      const bool is_input = other < inputs.count;
      fail_text("CPP610", {"output ", i, " overlaps ", is_input ? "input " : "output ", is_input ? other : other - inputs.count});
    }
    taken.push_back(span);
  }
}

void write_outputs(Row targets, Row outputs, Row inputs) {
  if (targets.count != outputs.count) {
    fail_text("CPP610", {"expected tensors for ", outputs.count, " outputs, got ", targets.count});
  }
  for (size_t i = 0; i < targets.count; ++i) {
    const std::string found = type_text(targets.handles[i]), want = type_text(outputs.handles[i]);
    if (found != want) fail_text("CPP610", {"output ", i, ": expected ", want, ", got ", found});
  }
  check_apart(targets, inputs);
  const NoGrad no_grad;
  for (size_t i = 0; i < targets.count; ++i) {
    if (targets.handles[i] != nullptr) copy(targets.handles[i], outputs.handles[i]);
  }
}

}  // namespace wir
