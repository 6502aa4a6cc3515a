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
  {90, 0, "tile", 128, 1, 0, false, false, {0, 1}, {0, 1}},
};
const GpuKernel kKernels[] = {
  {"tile", kCompiled + 0, 1},
};
void tile(const Run& run, Tensor a_1, void* out, Int n) {
  const Described a_layout = described(a_1, 2, "a");
  TensorMap a_map = tensor_map(a_layout, {2, {32, 64}, 7, 4, 3, false});
  const Slot slots[] = {pointer(&a_map), whole<int32_t>(a_layout.sizes[0], "a"), whole<int32_t>(a_layout.sizes[1], "a"), whole<int64_t>(a_layout.strides[0], "a"), whole<int64_t>(a_layout.strides[1], "a"), pointer(out), whole<int32_t>(n, "n")};
  launch(run, 0, Int(wir_ceildiv(n, 64L)), 1, 1, slots, 7, 0x1);
}


struct Main {
  enum : int {
    x = 0,
    part = 1,
    y = 2,
  };
  Tensor* const c;
  Tensor* const inputs;
  Tensor* const outputs;
  Run& run;
  Tensor t[3] = {};
  ~Main() { release(t, 3); }

  void part_0() {
    t[x] = take(inputs[0]);
    expect_tensor(t[x], "x", "f32[100, 400]", f32(), {100, 400}, {400, 1}, run.gpu);
    expect_storage(t[x], "x");
    window(t[part], t[x], {100, 200}, {400, 1}, 40);
    allocate(t[y], {100}, {1}, f32(), run.gpu);
    tile(run, t[part], data(t[y]), 100);
    outputs[0] = take(t[y]);
  }
};

void run_main(Tensor* c, Tensor* inputs, Tensor* outputs, Run& run) {
  Main call{c, inputs, outputs, run};
  call.part_0();
}

const Blob kBlobs[] = {
  {0, 65, false, Blob::kImage},
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
const GpuProgram kGpu = {kKernels, 1, 0, open_cuda};
}  // namespace
}  // namespace program

extern const wir::Program wir_program{
    1, 1, 1, 0, 0,
    program::kBlobs, program::kConstants, &program::kConvention, program::load, program::run_main,
    program::kInstructions, 0, nullptr,
    &program::kGpu,
};
