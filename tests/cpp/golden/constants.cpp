#include "steps.h"
#include "helpers.h"
#include "symbols.h"

using namespace wir;

extern "C" {
void wir_5a036fedf5a5ddd9ea3bc5536c2d9604251c69a9(const Slot* slots);
}

namespace program {  // hides names of C's headers
namespace {
enum : int { w_bytes, a_1, b_1, none_1, c_1 };
void load([[maybe_unused]] Tensor* c, [[maybe_unused]] const Bytes* b) {
  constant(c[w_bytes], b[0], u8(), {48}, {1});
  byte_window(c[a_1], c[w_bytes], f32(), {8}, {1}, 0);
  byte_window(c[b_1], c[w_bytes], f32(), {8}, {1}, 16);
  allocate(c[none_1], {0, 4}, {4, 1}, f32());
  constant(c[c_1], b[2], f32(), {4}, {1});
}

void double_1(void* source, void* target, Int count_1) {
  const Slot slots[] = {pointer(source), pointer(target), whole<int64_t>(count_1, "an argument for count does not fit i64")};
  wir_5a036fedf5a5ddd9ea3bc5536c2d9604251c69a9(slots);
}

struct Main {
  enum : int {
    x = 0,
    r_1 = 1,
    v = 2,
    result_2 = 3,
    result_3 = 4,
  };
  Tensor* const c;
  Tensor* const inputs;
  Tensor* const outputs;
  Run& run;
  Tensor t[5] = {};
  ~Main() { release(t, 5); }

  void part_0() {
    t[x] = take(inputs[0]);
    expect_tensor(t[x], "x", "f32[8]", f32(), {8}, {1});
    expect_storage(t[x], "x");
    allocate(t[r_1], {8}, {1}, f32());
    double_1(data(c[a_1]), data(t[r_1]), 8);
    double_1(data(c[b_1]), data(t[x]), 8);
    window(t[v], c[c_1], {2, 2}, {2, 1}, 0);
    t[result_2] = same(c[none_1]);
    t[result_3] = same(c[c_1]);
    outputs[0] = take(t[r_1]);
    outputs[1] = take(t[v]);
    outputs[2] = take(t[result_2]);
    outputs[3] = take(t[result_3]);
    outputs[4] = take(t[x]);
  }
};

void run_main(Tensor* c, Tensor* inputs, Tensor* outputs, Run& run) {
  Main call{c, inputs, outputs, run};
  call.part_0();
}

const Blob kBlobs[] = {
  {0, 48, false},
  {64, 0, true},
  {64, 16, true},
  {0, 0, false},
};
const Constant kConstants[] = {
  {"a", "a", f32, 32, 0, a_1},
  {"b", "b", f32, 32, 0, b_1},
  {"none", "none", f32, 0, 1, none_1},
  {"c", "c", f32, 16, 2, c_1},
  {"", "", f32, 0, 0, 0},
};
const char* const kInputs[] = {"x", nullptr};
const int kInputOf[] = {0};
const Output kOutputs[] = {
  {Output::kResult, 0, 0.0},
  {Output::kResult, 1, 0.0},
  {Output::kResult, 2, 0.0},
  {Output::kResult, 3, 0.0},
  {Output::kResult, 4, 0.0},
  {Output::kNone, 0, 0.0},
};
const Convention kConvention = {
  1, 5, kInputs, nullptr, kOutputs,
  "[1, {\"type\": \"builtins.tuple\", \"context\": \"null\", \"children_spec\": [{\"type\": \"builtins.tuple\", \"context\": \"null\", \"children_spec\": [{\"type\": null, \"context\": null, \"children_spec\": []}]}, {\"type\": \"builtins.dict\", \"context\": \"[]\", \"children_spec\": []}]}]", "[1, {\"type\": \"builtins.tuple\", \"context\": \"null\", \"children_spec\": [{\"type\": null, \"context\": null, \"children_spec\": []}, {\"type\": null, \"context\": null, \"children_spec\": []}, {\"type\": null, \"context\": null, \"children_spec\": []}, {\"type\": null, \"context\": null, \"children_spec\": []}, {\"type\": null, \"context\": null, \"children_spec\": []}]}]",
};
const char* const kInstructions[] = {
  nullptr,
};
}  // namespace
}  // namespace program

extern const wir::Program wir_program{
    1, 5, 3, 4, 5,
    program::kBlobs, program::kConstants, &program::kConvention, program::load, program::run_main,
    program::kInstructions, 0, nullptr,
};
