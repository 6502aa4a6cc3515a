#include "steps.h"
#include "helpers.h"
#include "symbols.h"
#include "gpu.h"

using namespace wir;

extern "C" {
int32_t aoti_torch_cuda_mm_out(AtenTensorHandle out, AtenTensorHandle self, AtenTensorHandle mat2);
int32_t aoti_torch_cuda_add_Tensor(AtenTensorHandle self, AtenTensorHandle other, double alpha, AtenTensorHandle* ret0);
}

namespace program {  // hides names of C's headers
namespace {
void load([[maybe_unused]] Tensor* c, [[maybe_unused]] const Bytes* b) {
}

struct Main {
  enum : int {
    x = 0,
    w = 1,
    a_1 = 2,
    counts = 3,
    b_1 = 4,
    sum = 5,
    sum_1 = 6,
    host = 7,
  };
  Tensor* const c;
  Tensor* const inputs;
  Tensor* const outputs;
  Run& run;
  Event begun;
  Event done;
  Event added;
  Event copied;
  Tensor t[8] = {};
  ~Main() { release(t, 8); }

  void part_0() {
    t[x] = take(inputs[0]);
    t[w] = take(inputs[1]);
    expect_tensor(t[x], "x", "f32[512, 512]", f32(), {512, 512}, {512, 1}, run.gpu);
    expect_tensor(t[w], "w", "f32[512, 512]", f32(), {512, 512}, {512, 1}, run.gpu);
    expect_storage(t[x], "x");
    expect_storage(t[w], "w");
    begun.record(run, 0);
    begun.wait(run, 1);
    {
      const OnStream on(run, 1);
      allocate(t[a_1], {512, 512}, {512, 1}, f32(), run.gpu);
    }
    {
      const OnStream on(run, 1);
      ok(aoti_torch_cuda_mm_out(t[a_1], t[x], t[w]), "aten::mm.out");
    }
    done.record(run, 1);
    allocate(t[counts], {256}, {1}, f32(), run.gpu);
    zero(t[counts]);
    allocate(t[b_1], {512, 512}, {512, 1}, f32(), run.gpu);
    ok(aoti_torch_cuda_mm_out(t[b_1], t[w], t[x]), "aten::mm.out");
    done.wait(run, 0);
    allocate(t[sum], {512, 512}, {512, 1}, f32(), run.gpu);
    ok(aoti_torch_cuda_add_Tensor(t[a_1], t[b_1], static_cast<double>(1), &t[sum_1]), "aten::add.Tensor");
    copy(t[sum], t[sum_1]);
    drop(t[sum_1]);
    check_layout(t[sum], {512, 512}, {512, 1}, "sum", "out argument of aten::add.out");
    added.record(run, 0);
    added.wait(run, 1);
    drop(t[a_1]);
    drop(t[b_1]);
    allocate(t[host], {512, 512}, {512, 1}, f32());
    start_copy(t[host], t[sum]);
    copied.record(run, 0);
    copied.synchronize();
    outputs[0] = take(t[sum]);
    outputs[1] = take(t[host]);
    outputs[2] = take(t[counts]);
  }
};

void run_main(Tensor* c, Tensor* inputs, Tensor* outputs, Run& run) {
  Main call{c, inputs, outputs, run};
  call.part_0();
}

const Blob kBlobs[] = {
  {0, 0, false},
};
const Constant kConstants[] = {
  {"", "", f32, 0, 0, 0},
};
const char* const kInputs[] = {"x", "w", nullptr};
const int kInputOf[] = {0, 1};
const Output kOutputs[] = {
  {Output::kResult, 0, 0.0},
  {Output::kResult, 1, 0.0},
  {Output::kResult, 2, 0.0},
  {Output::kNone, 0, 0.0},
};
const Convention kConvention = {
  2, 3, kInputs, nullptr, kOutputs,
  "[1, {\"type\": \"builtins.tuple\", \"context\": \"null\", \"children_spec\": [{\"type\": \"builtins.tuple\", \"context\": \"null\", \"children_spec\": [{\"type\": null, \"context\": null, \"children_spec\": []}, {\"type\": null, \"context\": null, \"children_spec\": []}]}, {\"type\": \"builtins.dict\", \"context\": \"[]\", \"children_spec\": []}]}]", "[1, {\"type\": \"builtins.tuple\", \"context\": \"null\", \"children_spec\": [{\"type\": null, \"context\": null, \"children_spec\": []}, {\"type\": null, \"context\": null, \"children_spec\": []}, {\"type\": null, \"context\": null, \"children_spec\": []}]}]",
};
const char* const kInstructions[] = {
  nullptr,
};
const GpuProgram kGpu = {nullptr, 0, 1, open_cuda};
}  // namespace
}  // namespace program

extern const wir::Program wir_program{
    2, 3, 0, 0, 0,
    program::kBlobs, program::kConstants, &program::kConvention, program::load, program::run_main,
    program::kInstructions, 0, nullptr,
    &program::kGpu,
};
