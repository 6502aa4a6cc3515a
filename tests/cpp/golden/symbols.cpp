#include "steps.h"
#include "helpers.h"
#include "symbols.h"

using namespace wir;

extern "C" {
int32_t aoti_torch_cpu_nonzero(AtenTensorHandle self, AtenTensorHandle* ret0);
}

namespace program {  // hides names of C's headers
namespace {
void load([[maybe_unused]] Tensor* c) {
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
    s0 = size(t[x], 0);
    s1 = stride(t[x], 0) + storage_offset(t[x]);
    check_layout(t[x], {s0, s1}, {s1, 1}, "x", "");
    u1 = item_float(t[p]);
    ok(aoti_torch_cpu_nonzero(t[x], &t[n]), "aten::nonzero");
    u0 = size(t[n], 0);
    if (!(u0 <= s0 * s1 && u1 < 10.0)) fail("WIR920", "count: u0 <= s0*s1 and u1 < 10.0");
    drop(t[n]);
    result(t[result_0], Int(s0));
    result(t[result_1], Int(s1));
    result(t[result_2], Int(u0));
    result(t[result_3], u1 * 2.0);
    result(t[result_4], Int(s0 == 4L ? 1L : 0L));
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

const char* const kInputs[] = {"x", "p", nullptr};
const char* const kOutputs[] = {"output0", "output1", "output2", "output3", "output4", nullptr};
const Constant kConstants[] = {
  {"", "", f32, 0},
};
}  // namespace
}  // namespace program

extern const wir::Program wir_program{
    2, 5, 0, 0,
    program::kInputs, program::kOutputs, program::kConstants, program::load, program::run_main,
    "",
    "{\"inputs\": [{\"apart\": [], \"class\": \"TensorInput\", \"device\": \"cpu\", \"dtype\": \"f32\", \"name\": \"x\", \"or_cpu\": false, \"sizes\": [null, null], \"strides\": [null, 1], \"text\": \"f32[s0, s1]\"}, {\"apart\": [], \"class\": \"TensorInput\", \"device\": \"cpu\", \"dtype\": \"f32\", \"name\": \"p\", \"or_cpu\": false, \"sizes\": [], \"strides\": [], \"text\": \"f32[]\"}], \"results\": [\"number\", \"number\", \"number\", \"number\", \"number\"], \"signature\": {\"bindings\": [{\"class\": \"result_output\", \"index\": 0}, {\"class\": \"result_output\", \"index\": 1}, {\"class\": \"result_output\", \"index\": 2}, {\"class\": \"result_output\", \"index\": 3}, {\"class\": \"result_output\", \"index\": 4}], \"format\": \"wrapper-ir-signature\", \"inputs\": {\"children\": [{\"children\": [{\"kind\": \"leaf\"}, {\"kind\": \"leaf\"}], \"kind\": \"tuple\"}, {\"kind\": \"dict\"}], \"kind\": \"tuple\"}, \"names\": [\"x\", \"p\"], \"outputs\": {\"children\": [{\"kind\": \"leaf\"}, {\"kind\": \"leaf\"}, {\"kind\": \"leaf\"}, {\"kind\": \"leaf\"}, {\"kind\": \"leaf\"}], \"kind\": \"tuple\"}, \"params\": [0, 1], \"version\": \"0.2\"}, \"version\": 1}",
};
