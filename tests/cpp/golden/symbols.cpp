#include "steps.h"
#include "helpers.h"
#include "symbols.h"

using namespace wir;

extern "C" {
int32_t aoti_torch_cpu_nonzero(AtenTensorHandle self, AtenTensorHandle* ret0);
}

namespace program {  // hides names of C's headers
namespace {
void load([[maybe_unused]] Tensor* c, [[maybe_unused]] const Bytes* b) {
}

struct Main {
  enum : int {
    x = 0,
    p = 1,
    n = 2,
    result_0 = 3,
    result_1 = 4,
    result_2 = 5,
    result_3 = 6,
    result_4 = 7,
  };
  Tensor* const c;
  Tensor* const inputs;
  Tensor* const outputs;
  Run& run;
  Int s0{};
  Int s1{};
  double u1{};
  Int u0{};
  Tensor t[8] = {};
  ~Main() { release(t, 8); }

  void part_0() {
    t[x] = take(inputs[0]);
    t[p] = take(inputs[1]);
    expect_tensor(t[x], "x", "f32[s0, s1]", f32(), {any, any}, {any, 1});
    expect_tensor(t[p], "p", "f32[]", f32(), {}, {});
    expect_storage(t[x], "x");
    expect_storage(t[p], "p");
    s0 = size(t[x], 0);
    s1 = stride(t[x], 0) + storage_offset(t[x]);
    check_layout(t[x], {s0, s1}, {s1, 1}, "x", "");
    u1 = item_float(t[p]);
    ok(aoti_torch_cpu_nonzero(t[x], &t[n]), "aten::nonzero");
    check_result(t[n], i64(), "n");
    u0 = size(t[n], 0);
    if (!(u0 <= s0 * s1 && u1 < 10.0)) fail("WIR920", "count: u0 <= s0*s1 and u1 < 10.0");
    drop(t[n]);
    result(t[result_0], Int(s0));
    result(t[result_1], Int(s1));
    result(t[result_2], Int(u0));
    result(t[result_3], u1 * 2.0);
    result(t[result_4], Int(Int(s0 == 4L ? 1L : 0L)));
    outputs[0] = take(t[result_0]);
    outputs[1] = take(t[result_1]);
    outputs[2] = take(t[result_2]);
    outputs[3] = take(t[result_3]);
    outputs[4] = take(t[result_4]);
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
const char* const kInputs[] = {"x", "p", nullptr};
const int kInputOf[] = {0, 1};
const Output kOutputs[] = {
  {Output::kResult, 0, 0.0},
  {Output::kResult, 1, 0.0},
  {Output::kResult, 2, 0.0},
  {Output::kResult, 3, 0.0},
  {Output::kResult, 4, 0.0},
  {Output::kNone, 0, 0.0},
};
const Convention kConvention = {
  2, 5, kInputs, nullptr, kOutputs,
  "[1, {\"type\": \"builtins.tuple\", \"context\": \"null\", \"children_spec\": [{\"type\": \"builtins.tuple\", \"context\": \"null\", \"children_spec\": [{\"type\": null, \"context\": null, \"children_spec\": []}, {\"type\": null, \"context\": null, \"children_spec\": []}]}, {\"type\": \"builtins.dict\", \"context\": \"[]\", \"children_spec\": []}]}]", "[1, {\"type\": \"builtins.tuple\", \"context\": \"null\", \"children_spec\": [{\"type\": null, \"context\": null, \"children_spec\": []}, {\"type\": null, \"context\": null, \"children_spec\": []}, {\"type\": null, \"context\": null, \"children_spec\": []}, {\"type\": null, \"context\": null, \"children_spec\": []}, {\"type\": null, \"context\": null, \"children_spec\": []}]}]",
};
const char* const kInstructions[] = {
  nullptr,
};
}  // namespace
}  // namespace program

extern const wir::Program wir_program{
    2, 5, 0, 0, 0,
    program::kBlobs, program::kConstants, &program::kConvention, program::load, program::run_main,
    program::kInstructions, 0, nullptr,
};
