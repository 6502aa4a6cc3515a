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
void load([[maybe_unused]] Tensor* c) {
  constant(c[w_bytes], 0, 48, false, u8(), {48}, {1});
  byte_window(c[a_1], c[w_bytes], f32(), {8}, {1}, 0);
  byte_window(c[b_1], c[w_bytes], f32(), {8}, {1}, 16);
  allocate(c[none_1], {0, 4}, {4, 1}, f32());
  constant(c[c_1], 64, 16, true, f32(), {4}, {1});
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

const char* const kInputs[] = {"x", nullptr};
const char* const kOutputs[] = {"output0", "output1", "output2", "output3", "output4", nullptr};
const Constant kConstants[] = {
  {"a", "a", f32, 32},
  {"b", "b", f32, 32},
  {"none", "none", f32, 0},
  {"c", "c", f32, 16},
  {"", "", f32, 0},
};
}  // namespace
}  // namespace program

extern const wir::Program wir_program{
    1, 5, 4, 5,
    program::kInputs, program::kOutputs, program::kConstants, program::load, program::run_main,
    "",
    "{\"inputs\": [{\"apart\": [], \"class\": \"TensorInput\", \"device\": \"cpu\", \"dtype\": \"f32\", \"name\": \"x\", \"or_cpu\": false, \"sizes\": [8], \"strides\": [1], \"text\": \"f32[8]\"}], \"results\": [\"tensor\", \"tensor\", \"tensor\", \"tensor\", \"tensor\"], \"signature\": {\"bindings\": [{\"class\": \"result_output\", \"index\": 0}, {\"class\": \"result_output\", \"index\": 1}, {\"class\": \"result_output\", \"index\": 2}, {\"class\": \"result_output\", \"index\": 3}, {\"class\": \"result_output\", \"index\": 4}], \"format\": \"wrapper-ir-signature\", \"inputs\": {\"children\": [{\"children\": [{\"kind\": \"leaf\"}], \"kind\": \"tuple\"}, {\"kind\": \"dict\"}], \"kind\": \"tuple\"}, \"names\": [\"x\"], \"outputs\": {\"children\": [{\"kind\": \"leaf\"}, {\"kind\": \"leaf\"}, {\"kind\": \"leaf\"}, {\"kind\": \"leaf\"}, {\"kind\": \"leaf\"}], \"kind\": \"tuple\"}, \"params\": [0], \"version\": \"0.2\", \"written\": [0]}, \"version\": 1}",
};
