#include "steps.h"
#include "helpers.h"
#include "symbols.h"

using namespace wir;

extern "C" {
int32_t aoti_torch_cpu_topk(AtenTensorHandle self, int64_t k, int64_t dim, int32_t largest, int32_t sorted, AtenTensorHandle* ret0, AtenTensorHandle* ret1);
}

namespace program {  // hides names of C's headers
namespace {
void load([[maybe_unused]] Tensor* c) {
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
    s0 = n_1;
    ok(aoti_torch_cpu_topk(t[x], raw(s0), raw(-1), true, true, &t[t_1], &t[t_1 + 1]), "aten::topk");
    t[values] = same(t[t_1]);
    check_layout(t[values], {4, 3}, {3, 1}, "values", "");
    t[indices] = same(t[t_1 + 1]);
    check_layout(t[indices], {4, 3}, {3, 1}, "indices", "");
    drop(t[t_1], t[t_1 + 1]);
    call("aten::relu", "", {tensor(t[values])}, &t[y], 1);
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

const char* const kInputs[] = {"x", "n", nullptr};
const char* const kOutputs[] = {"output0", "output1", nullptr};
const Constant kConstants[] = {
  {"", "", f32, 0},
};
}  // namespace
}  // namespace program

extern const wir::Program wir_program{
    2, 2, 0, 0,
    program::kInputs, program::kOutputs, program::kConstants, program::load, program::run_main,
    "",
    "{\"inputs\": [{\"apart\": [], \"class\": \"TensorInput\", \"device\": \"cpu\", \"dtype\": \"f32\", \"name\": \"x\", \"or_cpu\": false, \"sizes\": [4, 8], \"strides\": [8, 1], \"text\": \"f32[4, 8]\"}, {\"class\": \"NumberInput\", \"kind\": \"int\", \"name\": \"n\"}], \"results\": [\"tensor\", \"tensor\"], \"signature\": {\"bindings\": [{\"class\": \"result_output\", \"index\": 0}, {\"class\": \"result_output\", \"index\": 1}], \"format\": \"wrapper-ir-signature\", \"inputs\": {\"children\": [{\"children\": [{\"kind\": \"leaf\"}, {\"kind\": \"leaf\"}], \"kind\": \"tuple\"}, {\"kind\": \"dict\"}], \"kind\": \"tuple\"}, \"names\": [\"x\", \"n\"], \"outputs\": {\"children\": [{\"kind\": \"leaf\"}, {\"kind\": \"leaf\"}], \"kind\": \"tuple\"}, \"params\": [0, 1], \"version\": \"0.2\"}, \"version\": 1}",
};
