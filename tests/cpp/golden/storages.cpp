#include "steps.h"
#include "helpers.h"
#include "symbols.h"

using namespace wir;

extern "C" {
void wir_5a036fedf5a5ddd9ea3bc5536c2d9604251c69a9(const Slot* slots);
}

namespace program {  // hides names of C's headers
namespace {
void load([[maybe_unused]] Tensor* c) {
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

const char* const kInputs[] = {"x", nullptr};
const char* const kOutputs[] = {"output0", "output1", nullptr};
const Constant kConstants[] = {
  {"", "", f32, 0},
};
}  // namespace
}  // namespace program

extern const wir::Program wir_program{
    1, 2, 0, 0,
    program::kInputs, program::kOutputs, program::kConstants, program::load, program::run_main,
    "",
    "{\"inputs\": [{\"apart\": [], \"class\": \"TensorInput\", \"device\": \"cpu\", \"dtype\": \"f32\", \"name\": \"x\", \"or_cpu\": false, \"sizes\": [4, 8], \"strides\": [8, 1], \"text\": \"f32[4, 8]\"}], \"results\": [\"tensor\", \"tensor\"], \"signature\": {\"bindings\": [{\"class\": \"result_output\", \"index\": 0}, {\"class\": \"result_output\", \"index\": 1}], \"format\": \"wrapper-ir-signature\", \"inputs\": {\"children\": [{\"children\": [{\"kind\": \"leaf\"}], \"kind\": \"tuple\"}, {\"kind\": \"dict\"}], \"kind\": \"tuple\"}, \"names\": [\"x\"], \"outputs\": {\"children\": [{\"kind\": \"leaf\"}, {\"kind\": \"leaf\"}], \"kind\": \"tuple\"}, \"params\": [0], \"version\": \"0.2\"}, \"version\": 1}",
};
