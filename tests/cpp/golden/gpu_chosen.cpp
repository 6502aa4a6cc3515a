#include "steps.h"
#include "helpers.h"
#include "symbols.h"
#include "gpu.h"

using namespace wir;

extern "C" {
}

namespace program {  // hides names of C's headers
namespace {
void load([[maybe_unused]] Tensor* c, [[maybe_unused]] const Bytes* b) {
}

const Compiled kCompiled[] = {
  {90, 0, "add", 128, 1, 0, false, false, {0, 1}, {0, 1}},
  {90, 1, "add", 128, 1, 0, false, false, {0, 1}, {0, 1}},
};
const GpuKernel kKernels[] = {
  {"add", kCompiled + 0, 1},
  {"add_large", kCompiled + 1, 1},
};
void add(const Run& run, void* x, void* y, void* out, double factor, Int n) {
  const Slot slots[] = {aligned(x, "x"), pointer(y), pointer(out), single(factor), whole<int32_t>(n, "n")};
  launch(run, 0, Int(wir_ceildiv(n, 64L)), 1, 1, slots, 5);
}
void add_large(const Run& run, void* x_1, void* y_1, void* out_1, double factor_1, Int n_1) {
  const Slot slots[] = {aligned(x_1, "x"), pointer(y_1), pointer(out_1), single(factor_1), whole<int32_t>(n_1, "n")};
  launch(run, 1, Int(wir_ceildiv(n_1, 1024L)), 1, 1, slots, 5);
}


struct Main {
  enum : int {
    x_2 = 0,
    y_2 = 1,
  };
  Tensor* const c;
  Tensor* const inputs;
  Tensor* const outputs;
  Run& run;
  Int s0{};
  Tensor t[2] = {};
  ~Main() { release(t, 2); }

  void part_0() {
    t[x_2] = take(inputs[0]);
    expect_tensor(t[x_2], "x", "f32[s0]", f32(), {any}, {1}, run.gpu);
    expect_storage(t[x_2], "x");
    check_alignment(t[x_2], 16, "x", "read or written by a kernel");
    s0 = size(t[x_2], 0);
    allocate(t[y_2], {s0}, {1}, f32(), run.gpu);
    switch (nearest({distance({{s0, 16}, {s0, 16}, {s0, 16}}), distance({{s0, 4096}, {s0, 4096}, {s0, 4096}})})) {
      case 0:
        add(run, data(t[x_2]), data(t[x_2]), data(t[y_2]), 1.0, s0);
        break;
      case 1:
        add_large(run, data(t[x_2]), data(t[x_2]), data(t[y_2]), 1.0, s0);
        break;
    }
    outputs[0] = take(t[y_2]);
  }
};

void run_main(Tensor* c, Tensor* inputs, Tensor* outputs, Run& run) {
  Main call{c, inputs, outputs, run};
  call.part_0();
}

const Blob kBlobs[] = {
  {0, 58, false, Blob::kImage},
  {64, 58, false, Blob::kImage},
  {0, 0, false},
};
const Constant kConstants[] = {
  {"", "", f32, 0, 0, 0},
};
const char* const kInputs[] = {"x", nullptr};
const int kInputOf[] = {0};
const Output kOutputs[] = {
  {Output::kResult, 0, 0.0},
  {Output::kNone, 0, 0.0},
};
const Convention kConvention = {
  1, 1, kInputs, nullptr, kOutputs,
  "[1, {\"type\": \"builtins.tuple\", \"context\": \"null\", \"children_spec\": [{\"type\": \"builtins.tuple\", \"context\": \"null\", \"children_spec\": [{\"type\": null, \"context\": null, \"children_spec\": []}]}, {\"type\": \"builtins.dict\", \"context\": \"[]\", \"children_spec\": []}]}]", "[1, {\"type\": \"builtins.tuple\", \"context\": \"null\", \"children_spec\": [{\"type\": null, \"context\": null, \"children_spec\": []}]}]",
};
const char* const kInstructions[] = {
  nullptr,
};
const GpuProgram kGpu = {kKernels, 2, 0, open_cuda};
}  // namespace
}  // namespace program

extern const wir::Program wir_program{
    1, 1, 2, 0, 0,
    program::kBlobs, program::kConstants, &program::kConvention, program::load, program::run_main,
    program::kInstructions, 0, nullptr,
    &program::kGpu,
};
