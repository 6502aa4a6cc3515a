#include "steps.h"
#include "helpers.h"
#include "symbols.h"

using namespace wir;

extern "C" {
int32_t aoti_torch_cpu_topk(AtenTensorHandle self, int64_t k, int64_t dim, int32_t largest, int32_t sorted, AtenTensorHandle* ret0, AtenTensorHandle* ret1);
}

namespace program {  // hides names of C's headers
namespace {
void load([[maybe_unused]] Tensor* c, [[maybe_unused]] const Bytes* b) {
}

struct Main {
  enum : int {
    x = 0,
    n = 1,
    t_1 = 2,
    values = 4,
    indices = 5,
    y = 6,
  };
  Tensor* const c;
  Tensor* const inputs;
  Tensor* const outputs;
  Run& run;
  Int n_1{};
  Int s0{};
  Tensor t[7] = {};
  ~Main() { release(t, 7); }

  void part_0() {
    t[x] = take(inputs[0]);
    t[n] = take(inputs[1]);
    expect_tensor(t[x], "x", "f32[4, 8]", f32(), {4, 8}, {8, 1});
    expect_number(t[n], "n", "int", i64());
    n_1 = item_int(t[n]);
    expect_storage(t[x], "x");
    s0 = n_1;
    ok(aoti_torch_cpu_topk(t[x], raw(s0), raw(-1), true, true, &t[t_1], &t[t_1 + 1]), "aten::topk");
    t[values] = same(t[t_1]);
    check_result(t[values], f32(), "values");
    check_layout(t[values], {4, 3}, {3, 1}, "values", "");
    t[indices] = same(t[t_1 + 1]);
    check_result(t[indices], i64(), "indices");
    check_layout(t[indices], {4, 3}, {3, 1}, "indices", "");
    drop(t[t_1], t[t_1 + 1]);
    call("aten::relu", "", {tensor(t[values])}, &t[y], 1);
    check_result(t[y], f32(), "y");
    check_layout(t[y], {4, 3}, {3, 1}, "y", "");
    drop(t[values]);
    outputs[0] = take(t[y]);
    outputs[1] = take(t[indices]);
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
const char* const kInputs[] = {"x", "n", nullptr};
const int kInputOf[] = {0, 1};
const Output kOutputs[] = {
  {Output::kResult, 0, 0.0},
  {Output::kResult, 1, 0.0},
  {Output::kNone, 0, 0.0},
};
const Convention kConvention = {
  2, 2, kInputs, nullptr, kOutputs,
  "[1, {\"type\": \"builtins.tuple\", \"context\": \"null\", \"children_spec\": [{\"type\": \"builtins.tuple\", \"context\": \"null\", \"children_spec\": [{\"type\": null, \"context\": null, \"children_spec\": []}, {\"type\": null, \"context\": null, \"children_spec\": []}]}, {\"type\": \"builtins.dict\", \"context\": \"[]\", \"children_spec\": []}]}]", "[1, {\"type\": \"builtins.tuple\", \"context\": \"null\", \"children_spec\": [{\"type\": null, \"context\": null, \"children_spec\": []}, {\"type\": null, \"context\": null, \"children_spec\": []}]}]",
};
const char* const kInstructions[] = {
  nullptr,
};
}  // namespace
}  // namespace program

extern const wir::Program wir_program{
    2, 2, 0, 0, 0,
    program::kBlobs, program::kConstants, &program::kConvention, program::load, program::run_main,
    program::kInstructions, 0, nullptr,
};
