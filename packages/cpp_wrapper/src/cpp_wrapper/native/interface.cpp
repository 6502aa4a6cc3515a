// The functions of `wrapper_ir/model.h`.
#include "file.h"
#include "interface.h"

#include <dlfcn.h>

#include <cstring>
#ifdef _OPENMP
#include <omp.h>
#endif

namespace wir {

// Thread-local objects with destructors would keep the library loaded as long as its threads.
namespace {
thread_local char error[4096];
}  // namespace

const char* last_error() { return error; }
void store_error(const char* text) {
  const size_t length = strnlen(text, sizeof error - 1);
  std::memcpy(error, text, length);
  error[length] = 0;
}

}  // namespace wir

namespace wir {
namespace {

/// Limits OpenMP's threads in calls of this thread. 0: no limit.
class Threads {
 public:
#ifdef _OPENMP
  explicit Threads(int32_t limit) : before_(omp_get_max_threads()) {
    if (limit > 0 && limit < before_) omp_set_num_threads(limit);
  }
  ~Threads() { if (omp_get_max_threads() != before_) omp_set_num_threads(before_); }

 private:
  int before_;
#else
  explicit Threads(int32_t) {}
#endif
  Threads(const Threads&) = delete;
};

const Convention& model_convention() { return *wir_program.convention; }

[[gnu::cold]] void expect_count(const char* what, size_t wanted, size_t given) {
  if (wanted != given) fail_text("WIR926", {"expected ", wanted, " ", what, ", got ", given});
}

template <class T> void expect_array(const char* what, const T* array, size_t count) {
  if (array == nullptr && count != 0) fail_text("WIR926", {"expected ", count, " ", what, ", got a null pointer"});
}

/// Borrows the model's inputs.
void borrow_inputs(Handles& made, const DLTensor* const* inputs, size_t count) {
  expect_count("inputs", model_convention().inputs, count);
  expect_array("inputs", inputs, count);
  made.resize(count, nullptr);
  for (size_t i = 0; i < count; ++i) {
    const wir_value& input = wir_model_description.inputs[i];
    made[i] = borrow(inputs[i], {"WIR926", "argument", input.name, i, input.text});
  }
}

void lend_all(Handles& results, DLManagedTensorVersioned** made) {
  size_t i = 0;
  try {
    for (; i < results.size(); ++i) {
      if (results[i] != nullptr) made[i] = lend(results[i]);
    }
  } catch (...) {
    for (size_t n = 0; n < i; ++n) {
      if (made[n] != nullptr) made[n]->deleter(made[n]);
      made[n] = nullptr;
    }
    throw;
  }
}

/// Gives a call of this thread its memory.
class InCall {
 public:
  explicit InCall(CallMemory& memory) : memory_(memory), before_(call_memory) { call_memory = memory.take(); }
  InCall(const InCall&) = delete;
  ~InCall() { memory_.give(std::exchange(call_memory, before_)); }

 private:
  CallMemory& memory_;
  SmallMemory* before_;  // of the call of another model that calls this one
};

void clear(DLManagedTensorVersioned** results, size_t count) {
  for (size_t i = 0; results != nullptr && i < count; ++i) results[i] = nullptr;
}

int32_t run(wir_model* model, const DLTensor* const* inputs, size_t num_inputs, DLManagedTensorVersioned** results,
            size_t num_results) {
  clear(results, num_results);
  Run run;
  return guarded(run, [&] {
    wir_model& open = checked(model);
    const InCall in_call(open.memory);
    expect_count("places for results", model_convention().outputs, num_results);
    expect_array("places for results", results, num_results);
    Handles given, outputs(num_results, nullptr);
    borrow_inputs(given, inputs, num_inputs);
    const Threads threads(open.threads);
    run_model(open.container, given.data(), outputs.data(), run);
    lend_all(outputs, results);
  });
}

int32_t run_program(wir_model* model, const DLTensor* const* params, size_t num_params,
                    DLManagedTensorVersioned** results, size_t num_results) {
  clear(results, num_results);
  Run run;
  return guarded(run, [&] {
    wir_model& open = checked(model);
    const InCall in_call(open.memory);
    expect_count("parameters", wir_program.params, num_params);
    expect_array("parameters", params, num_params);
    expect_count("places for results", wir_program.results, num_results);
    expect_array("places for results", results, num_results);
    Handles given(num_params, nullptr), outputs(num_results, nullptr);
    for (size_t i = 0; i < num_params; ++i) {
      const int* input_of = model_convention().input_of;
      const wir_value& input = wir_model_description.inputs[input_of != nullptr ? input_of[i] : i];
      given[i] = borrow(params[i], {"WIR926", "argument", input.name, i, input.text});
    }
    const Threads threads(open.threads);
    open.container.run(given.data(), outputs.data(), run);  // it takes the handles
    lend_all(outputs, results);
  });
}

// --- results in the caller's memory

/// Returns the size of a result's dimension for these inputs; -1 if only the program can compute it.
int64_t result_size(const wir_value& result, int32_t dim, const Handles& inputs) {
  if (result.shape[dim] >= 0) return result.shape[dim];
  for (size_t i = 0; i < inputs.size(); ++i) {
    const wir_value& input = wir_model_description.inputs[i];
    for (int32_t n = 0; n < input.ndim; ++n) {
      const bool is_same = input.shape[n] < 0 && std::strcmp(input.shape_text[n], result.shape_text[dim]) == 0;
      if (is_same && inputs[i]->rank == input.ndim) return inputs[i]->sizes()[n];
    }
  }
  return -1;
}

/// Compares targets with the results' types. Returns false if a type is not known before the call. Fails with CPP610.
bool check_targets(const Handles& targets, const Handles& inputs) {
  bool are_known = true;
  for (size_t i = 0; i < targets.size(); ++i) {
    const wir_value& result = wir_model_description.results[i];
    const Tensor target = targets[i];
    if ((target == nullptr) != (result.kind == WIR_NONE)) {
      fail_text("CPP610", {"output ", i, ": expected ", result.kind == WIR_NONE ? "no tensor" : result.text, ", got ",
                           target == nullptr ? "no tensor" : tensor_text(target)});
    }
    if (result.kind == WIR_NONE) continue;
    if (result.kind == WIR_ANY) {
      are_known = false;
      continue;
    }
    bool fits = target->rank == result.ndim && target->dtype == dtype_of(result.dtype);
    for (int32_t dim = 0; fits && dim < result.ndim; ++dim) {
      const int64_t size = result_size(result, dim, inputs);
      are_known = are_known && size >= 0;
      fits = size < 0 || size == target->sizes()[dim];
    }
    if (!fits) {
      const char* where = wir_program.gpu == nullptr ? " on cpu" : "";
      fail_text("CPP610", {"output ", i, ": expected ", result.text, where, ", got ", tensor_text(target)});
    }
  }
  return are_known;
}

bool is_in_place(Tensor target, Tensor result) {
  return target->data() == result->data() && target->storage->nbytes == result->storage->nbytes &&
         std::memcmp(target->strides(), result->strides(), static_cast<size_t>(target->rank) * sizeof(int64_t)) == 0;
}

/// Copies the results that are not in their targets. Those in other targets are moved out of them first.
void place_results(const Handles& targets, Handles& results) {
  for (size_t i = 0; i < results.size(); ++i) {
    if (targets[i] == nullptr || !Targets::owns(results[i]) || is_in_place(targets[i], results[i])) continue;
    const Tensor moved = clone_with_strides(results[i]);
    drop(results[i]);
    results[i] = moved;
  }
  for (size_t i = 0; i < results.size(); ++i) {
    if (targets[i] != nullptr && !is_in_place(targets[i], results[i])) copy_into(targets[i], results[i]);
  }
}

void run_in_targets(Container& container, Handles& inputs, Handles& targets, Run& run) {
  Handles results(targets.size(), nullptr);
  SmallList<Tensor> ordered(targets.size());
  for (size_t i = 0; i < targets.size(); ++i) ordered[i] = targets[static_cast<size_t>(wir_result_order[i])];
  Targets memory(ordered);
  struct Ended {
    Handles& results;
    ~Ended() { results.reset(); }
  } const ended{results};  // before `memory`
  run_model(container, inputs.data(), results.data(), run);
  memory.stop();
  place_results(targets, results);
}

int32_t run_into(wir_model* model, const DLTensor* const* inputs, size_t num_inputs, const DLTensor* const* results,
                 size_t num_results) {
  Run run;
  return guarded(run, [&] {
    wir_model& open = checked(model);
    const InCall in_call(open.memory);
    if (num_results != model_convention().outputs) {
      fail_text("CPP610", {"expected tensors for ", model_convention().outputs, " outputs, got ", num_results});
    }
    expect_array("results", results, num_results);
    Handles given, targets(num_results, nullptr);
    borrow_inputs(given, inputs, num_inputs);
    for (size_t i = 0; i < num_results; ++i) {
      if (results[i] != nullptr) {
        targets[i] = borrow(results[i], {"CPP610", "output", nullptr, i, wir_model_description.results[i].text});
      }
    }
    check_apart({targets.data(), targets.size()}, {given.data(), given.size()});
    const Threads threads(open.threads);
    if (check_targets(targets, given)) return run_in_targets(open.container, given, targets, run);
    Handles outputs(num_results, nullptr), kept;
    for (const Tensor one : given) kept.push_back(same(one));  // `run_model` may take the others
    run_model(open.container, given.data(), outputs.data(), run);
    write_outputs({targets.data(), targets.size()}, {outputs.data(), outputs.size()}, {kept.data(), kept.size()});
  });
}

// --- constants

int32_t update_constants(wir_model* model, const char* const* names, const DLTensor* const* values, size_t count,
                         uint32_t flags) {
  return guarded([&] {
    wir_model& open = checked(model);
    expect_array("names", names, count);
    expect_array("values", values, count);
    Handles given(count, nullptr);
    Named named;
    for (size_t i = 0; i < count; ++i) {
      if (names[i] == nullptr) fail_text("CPP530", {"the name of constant ", i, " is a null pointer"});
      given[i] = borrow(values[i], {"CPP530", "constant", names[i], i, "a tensor"});
      named.emplace(names[i], given[i]);
    }
    open.container.update(named, (flags & WIR_INACTIVE) != 0, (flags & WIR_FULL) != 0, (flags & WIR_BORROWED) != 0);
  });
}

int32_t swap_constants(wir_model* model) {
  return guarded([&] { checked(model).container.swap(); });
}

int32_t free_inactive_constants(wir_model* model) {
  return guarded([&] { checked(model).container.free_inactive(); });
}

int32_t extract_constant(wir_model* model, const char* name, uint32_t flags, DLManagedTensorVersioned** value) {
  return guarded([&] {
    wir_model& open = checked(model);
    if (name == nullptr || value == nullptr) fail("WIR926", "expected a name and a place for its value, got a null pointer");
    *value = nullptr;
    Handles copied(1, open.container.extract(name, (flags & WIR_INACTIVE) != 0));
    *value = lend(copied[0]);
  });
}

// --- models

std::atomic<int64_t> open_models{0};

/// Keeps OpenMP's library loaded: its idle threads are in it.
void keep_openmp() {
#ifdef _OPENMP
  static void* const kept = dlopen("libgomp.so.1", RTLD_NOW | RTLD_NOLOAD | RTLD_NODELETE);
  (void)kept;
#endif
}

int32_t open_model(const wir_options* options, wir_model** model) {
  return guarded([&] {
    if (model == nullptr) fail("WIR926", "expected a place for the model, got a null pointer");
    *model = nullptr;
    wir_options given{};
    if (options != nullptr) {
      if (options->size == 0) fail("WIR926", "the options' size is not set: write options.size = sizeof options");
      std::memcpy(&given, options, options->size < sizeof given ? options->size : sizeof given);
    }
    if (given.device < 0) fail_text("WIR926", {"expected the index of a device, got ", given.device});
    if (given.threads < 0) fail_text("WIR926", {"expected a number of threads, got ", given.threads});
    keep_openmp();
    static std::mutex opening;
    const std::lock_guard<std::mutex> lock(opening);
    set_file(given.path, given.begin, given.nbytes, given.weights, given.unchecked_constants == 0);
    std::unique_ptr<wir_model> made(new wir_model(given));
    open_models.fetch_add(1);
    *model = made.release();
  });
}

void close_model(wir_model* model) {
  if (model == nullptr) return;
  guarded([&] { delete model; });
  if (open_models.fetch_sub(1) != 1) return;
  free_scratch();
  if (wir_program.gpu != nullptr) guarded([] { require_device_memory().trim(); });
}

const wir_description* description() { return &wir_model_description; }

const char* metadata(wir_model* model) {
  const int32_t error = guarded([&] {
    wir_model& open = checked(model);
    std::call_once(open.reads_metadata, [&] { open.metadata = read_metadata(); });
  });
  return error == 0 ? model->metadata.c_str() : nullptr;
}

const char* error_code() {
  thread_local char code[16];
  const char* text = last_error();
  const size_t length = *text == '[' ? std::strcspn(text + 1, "]") : 0;
  if (length >= sizeof code) return "";
  std::memcpy(code, text + 1, length);
  code[length] = 0;
  return code;
}

constexpr wir_api kApi = {
    WIR_ABI, sizeof(wir_api), open_model, close_model, description, metadata, last_error, error_code, run, run_into, run_program,
    update_constants, swap_constants, free_inactive_constants, extract_constant,
    use_stream, synchronize, copy_to,
};

}  // namespace
}  // namespace wir

extern "C" __attribute__((visibility("default"))) const wir_api* wir_get_api(uint32_t abi) {
  return abi == WIR_ABI ? &wir::kApi : nullptr;
}
