#include "steps.h"
#include "helpers.h"
#include "symbols.h"

using namespace wir;

extern "C" {
void wir_5a036fedf5a5ddd9ea3bc5536c2d9604251c69a9(const Slot* slots);
void wir_8c4f3259557e5d17a127afca1d676ca8f4911253(const Slot* slots);
}

namespace program {  // hides names of C's headers
namespace {
void load([[maybe_unused]] Tensor* c, [[maybe_unused]] const Bytes* b) {
}

void double_1(void* source, void* target, Int count_1) {
  const Slot slots[] = {pointer(source), pointer(target), whole<int64_t>(count_1, "an argument for count does not fit i64")};
  wir_5a036fedf5a5ddd9ea3bc5536c2d9604251c69a9(slots);
}
void increment(void* x, Int count_2) {
  const Slot slots[] = {pointer(x), whole<int64_t>(count_2, "an argument for count does not fit i64")};
  wir_8c4f3259557e5d17a127afca1d676ca8f4911253(slots);
}

struct Main {
  enum : int {
    x_1 = 0,
    w = 1,
    buf0 = 2,
    buf1 = 3,
    buf2 = 4,
    result_1 = 5,
    result_2 = 6,
  };
  Tensor* const c;
  Tensor* const inputs;
  Tensor* const outputs;
  Run& run;
  Int s0{};
  Tensor t[7] = {};
  ~Main() { release(t, 7); }

  void part_0() {
    t[x_1] = take(inputs[0]);
    t[w] = take(inputs[1]);
    expect_tensor(t[x_1], "x", "f32[s0, 8]", f32(), {any, 8}, {8, 1});
    expect_tensor(t[w], "w", "f32[8, 4]", f32(), {8, 4}, {4, 1});
    expect_storage(t[x_1], "x");
    expect_storage(t[w], "w");
    run.at = "mm: mm (model.py:10 in layers.0)";
    s0 = size(t[x_1], 0);
    check_alignment(t[w], 4, "w", "");
    if (!(s0 <= 1024L)) fail("WIR920", "batch too large: s0 <= 1024");
    allocate(t[buf0], {s0, 4}, {4, 1}, f32());
    mm(t[buf0], t[x_1], t[w]);
    run.at = "mul: mul.Tensor (model.py:11 in layers.0)";
    allocate(t[buf1], {s0, 4}, {4, 1}, f32());
    double_1(data(t[buf0]), data(t[buf1]), s0 * 4L);
    drop(t[buf0]);
    run.at = "add: add.Tensor (model.py:12 in layers.1)";
    t[buf2] = take(t[buf1]);
    increment(data(t[buf2]), s0 * 4L);
    result(t[result_1], Int(s0 * 2L));
    outputs[0] = take(t[buf2]);
    outputs[1] = take(t[result_1]);
    outputs[2] = take(t[result_2]);
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
}  // namespace
}  // namespace program

extern const wir::Program wir_program{
    2, 3, 0, 0, 0,
    program::kBlobs, program::kConstants, &program::kConvention, program::load, program::run_main,
    program::kInstructions, 0, nullptr,
};
