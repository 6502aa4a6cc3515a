#include "steps.h"
#include "helpers.h"
#include "symbols.h"

using namespace wir;

extern "C" {
void wir_5a036fedf5a5ddd9ea3bc5536c2d9604251c69a9(const Slot* slots);
}

namespace program {  // hides names of C's headers
namespace {
void load([[maybe_unused]] Tensor* c, [[maybe_unused]] const Bytes* b) {
}

void double_1(void* source, void* target, Int count_1) {
  const Slot slots[] = {pointer(source), pointer(target), whole<int64_t>(count_1, "an argument for count does not fit i64")};
  wir_5a036fedf5a5ddd9ea3bc5536c2d9604251c69a9(slots);
}

struct Main {
  enum : int {
    x = 0,
    pool = 1,
    a_1 = 2,
    b_1 = 3,
    i_1 = 4,
    i2 = 5,
    t_1 = 6,
    r_1 = 7,
    j = 8,
  };
  Tensor* const c;
  Tensor* const inputs;
  Tensor* const outputs;
  Run& run;
  Tensor t[9] = {};
  ~Main() { release(t, 9); }

  void part_0() {
    t[x] = take(inputs[0]);
    expect_tensor(t[x], "x", "f32[4, 8]", f32(), {4, 8}, {8, 1});
    expect_storage(t[x], "x");
    // one storage, three tensors of two types
    allocate(t[pool], {128}, {1}, f32());
    zero(t[pool]);
    window(t[a_1], t[pool], {4, 8}, {8, 1}, 0);
    window(t[b_1], t[pool], {8, 4}, {1, 8}, 32);
    byte_window(t[i_1], t[pool], i64(), {4}, {1}, 256);
    byte_window(t[i2], t[i_1], i32(), {2}, {1}, 8);
    double_1(data(t[x]), data(t[a_1]), 32);
    window(t[t_1], t[a_1], {8, 4}, {1, 8}, 0);
    copy(t[b_1], t[t_1]);
    allocate(t[r_1], {8, 4}, {4, 1}, f32());
    copy(t[r_1], t[b_1]);
    allocate(t[j], {2}, {1}, i32());
    copy(t[j], t[i2]);
    drop(t[pool], t[a_1], t[b_1], t[i_1], t[i2], t[t_1]);
    outputs[0] = take(t[r_1]);
    outputs[1] = take(t[j]);
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
const char* const kInputs[] = {"x", nullptr};
const int kInputOf[] = {0};
const Output kOutputs[] = {
  {Output::kResult, 0, 0.0},
  {Output::kResult, 1, 0.0},
  {Output::kNone, 0, 0.0},
};
const Convention kConvention = {
  1, 2, kInputs, nullptr, kOutputs,
  "[1, {\"type\": \"builtins.tuple\", \"context\": \"null\", \"children_spec\": [{\"type\": \"builtins.tuple\", \"context\": \"null\", \"children_spec\": [{\"type\": null, \"context\": null, \"children_spec\": []}]}, {\"type\": \"builtins.dict\", \"context\": \"[]\", \"children_spec\": []}]}]", "[1, {\"type\": \"builtins.tuple\", \"context\": \"null\", \"children_spec\": [{\"type\": null, \"context\": null, \"children_spec\": []}, {\"type\": null, \"context\": null, \"children_spec\": []}]}]",
};
const char* const kInstructions[] = {
  nullptr,
};
}  // namespace
}  // namespace program

extern const wir::Program wir_program{
    1, 2, 0, 0, 0,
    program::kBlobs, program::kConstants, &program::kConvention, program::load, program::run_main,
    program::kInstructions, 0, nullptr,
};
