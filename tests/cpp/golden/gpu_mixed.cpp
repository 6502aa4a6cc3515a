#include "steps.h"
#include "helpers.h"
#include "symbols.h"
#include "gpu.h"

using namespace wir;

extern "C" {
void wir_5a036fedf5a5ddd9ea3bc5536c2d9604251c69a9(const Slot* slots);
}

namespace program {  // hides names of C's headers
namespace {
enum : int { w, none_1 };
void load([[maybe_unused]] Tensor* c, [[maybe_unused]] const Bytes* b) {
  constant(c[w], b[0], f32(), {1024}, {1});
  allocate(c[none_1], {0, 4}, {4, 1}, f32(), b[1].gpu);
}

void double_1(void* source, void* target, Int count_1) {
  const Slot slots[] = {pointer(source), pointer(target), whole<int64_t>(count_1, "an argument for count does not fit i64")};
  wir_5a036fedf5a5ddd9ea3bc5536c2d9604251c69a9(slots);
}
const Compiled kCompiled[] = {
  {80, 2, "add", 128, 1, 0, false, false, {0, 1}, {0, 1}},
  {90, 3, "add", 128, 1, 0, false, false, {0, 1}, {0, 1}},
};
const GpuKernel kKernels[] = {
  {"add", kCompiled + 0, 2},
};
void add(const Run& run, void* x, void* y, void* out, double factor, Int n) {
  const Slot slots[] = {aligned(x, "x"), pointer(y), pointer(out), single(factor), whole<int32_t>(n, "n")};
  launch(run, 0, Int(wir_ceildiv(n, 64L)), 1, 1, slots, 5);
}


struct Main {
  enum : int {
    x_1 = 0,
    i_1 = 1,
    h = 2,
    y_1 = 3,
    d_1 = 4,
    z = 5,
    result_2 = 6,
    result_3 = 7,
  };
  Tensor* const c;
  Tensor* const inputs;
  Tensor* const outputs;
  Run& run;
  Int s0{};
  Int u0{};
  Tensor t[8] = {};
  ~Main() { release(t, 8); }

  void part_0() {
    t[x_1] = take(inputs[0]);
    t[i_1] = take(inputs[1]);
    t[h] = take(inputs[2]);
    expect_tensor(t[x_1], "x", "f32[s0]", f32(), {any}, {1}, run.gpu);
    expect_tensor(t[i_1], "i", "i64[]", i64(), {}, {}, run.gpu);
    expect_tensor(t[h], "h", "f32[4]", f32(), {4}, {1});
    expect_storage(t[x_1], "x");
    expect_storage(t[i_1], "i");
    expect_storage(t[h], "h");
    check_alignment(t[x_1], 16, "x", "read or written by a kernel");
    s0 = size(t[x_1], 0);
    allocate(t[y_1], {s0}, {1}, f32(), run.gpu);
    add(run, data(t[x_1]), data(c[w]), data(t[y_1]), 0.5, s0);
    allocate(t[d_1], {4}, {1}, f32());
    double_1(data(t[h]), data(t[d_1]), 4);
    allocate(t[z], {4}, {1}, f32(), run.gpu);
    start_copy(t[z], t[d_1]);
    drop(t[d_1]);
    u0 = item_int(t[i_1]);
    t[result_2] = same(c[none_1]);
    result(t[result_3], Int(2L * u0));
    outputs[0] = take(t[y_1]);
    outputs[1] = take(t[z]);
    outputs[2] = take(t[result_2]);
    outputs[3] = take(t[result_3]);
  }
};

void run_main(Tensor* c, Tensor* inputs, Tensor* outputs, Run& run) {
  Main call{c, inputs, outputs, run};
  call.part_0();
}

const Blob kBlobs[] = {
  {0, 4096, false, Blob::kDevice},
  {4096, 0, true, Blob::kDevice},
  {4096, 58, false, Blob::kImage},
  {4160, 58, false, Blob::kImage},
  {0, 0, false},
};
const Constant kConstants[] = {
  {"w", "w", f32, 4096, 0, w},
  {"none", "none", f32, 0, 1, none_1},
  {"", "", f32, 0, 0, 0},
};
const char* const kInputs[] = {"x", "i", "h", nullptr};
const int kInputOf[] = {0, 1, 2};
const Output kOutputs[] = {
  {Output::kResult, 0, 0.0},
  {Output::kResult, 1, 0.0},
  {Output::kResult, 2, 0.0},
  {Output::kResult, 3, 0.0},
  {Output::kNone, 0, 0.0},
};
const Convention kConvention = {
  3, 4, kInputs, nullptr, kOutputs,
  "[1, {\"type\": \"builtins.tuple\", \"context\": \"null\", \"children_spec\": [{\"type\": \"builtins.tuple\", \"context\": \"null\", \"children_spec\": [{\"type\": null, \"context\": null, \"children_spec\": []}, {\"type\": null, \"context\": null, \"children_spec\": []}, {\"type\": null, \"context\": null, \"children_spec\": []}]}, {\"type\": \"builtins.dict\", \"context\": \"[]\", \"children_spec\": []}]}]", "[1, {\"type\": \"builtins.tuple\", \"context\": \"null\", \"children_spec\": [{\"type\": null, \"context\": null, \"children_spec\": []}, {\"type\": null, \"context\": null, \"children_spec\": []}, {\"type\": null, \"context\": null, \"children_spec\": []}, {\"type\": null, \"context\": null, \"children_spec\": []}]}]",
};
const char* const kInstructions[] = {
  nullptr,
};
const GpuProgram kGpu = {kKernels, 1, 0, open_cuda};
}  // namespace
}  // namespace program

extern const wir::Program wir_program{
    3, 4, 4, 2, 2,
    program::kBlobs, program::kConstants, &program::kConvention, program::load, program::run_main,
    program::kInstructions, 0, nullptr,
    &program::kGpu,
};
