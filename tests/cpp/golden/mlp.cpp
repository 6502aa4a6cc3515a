#include "steps.h"
#include "helpers.h"
#include "symbols.h"

using namespace wir;

extern "C" {
int32_t aoti_torch_cpu_mm_out(AtenTensorHandle out, AtenTensorHandle self, AtenTensorHandle mat2);
void wir_5a036fedf5a5ddd9ea3bc5536c2d9604251c69a9(const Slot* slots);
void wir_8c4f3259557e5d17a127afca1d676ca8f4911253(const Slot* slots);
}

namespace program {  // hides names of C's headers
namespace {
void load([[maybe_unused]] Tensor* c) {
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
    run.at = "mm: mm (model.py:10 in layers.0)";
    s0 = size(t[x_1], 0);
    check_alignment(t[w], 4, "w", "");
    if (!(s0 <= 1024L)) fail("WIR920", "batch too large: s0 <= 1024");
    allocate(t[buf0], {s0, 4}, {4, 1}, f32());
    ok(aoti_torch_cpu_mm_out(t[buf0], t[x_1], t[w]), "aten::mm.out");
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

const char* const kInputs[] = {"x", "w", nullptr};
const char* const kOutputs[] = {"output0", "output1", "output2", nullptr};
const Constant kConstants[] = {
  {"", "", f32, 0},
};
}  // namespace
}  // namespace program

extern const wir::Program wir_program{
    2, 3, 0, 0,
    program::kInputs, program::kOutputs, program::kConstants, program::load, program::run_main,
    "",
    "{\"inputs\": [{\"apart\": [], \"class\": \"TensorInput\", \"device\": \"cpu\", \"dtype\": \"f32\", \"name\": \"x\", \"or_cpu\": false, \"sizes\": [null, 8], \"strides\": [8, 1], \"text\": \"f32[s0, 8]\"}, {\"apart\": [], \"class\": \"TensorInput\", \"device\": \"cpu\", \"dtype\": \"f32\", \"name\": \"w\", \"or_cpu\": false, \"sizes\": [8, 4], \"strides\": [4, 1], \"text\": \"f32[8, 4]\"}], \"results\": [\"tensor\", \"number\", \"none\"], \"signature\": {\"bindings\": [{\"class\": \"result_output\", \"index\": 0}, {\"class\": \"result_output\", \"index\": 1}, {\"class\": \"result_output\", \"index\": 2}], \"format\": \"wrapper-ir-signature\", \"inputs\": {\"children\": [{\"children\": [{\"kind\": \"leaf\"}, {\"kind\": \"leaf\"}], \"kind\": \"tuple\"}, {\"kind\": \"dict\"}], \"kind\": \"tuple\"}, \"names\": [\"x\", \"w\"], \"outputs\": {\"children\": [{\"kind\": \"leaf\"}, {\"kind\": \"leaf\"}, {\"kind\": \"leaf\"}], \"kind\": \"tuple\"}, \"params\": [0, 1], \"version\": \"0.2\"}, \"version\": 1}",
};
