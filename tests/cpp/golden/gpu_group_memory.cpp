#include "steps.h"
#include "helpers.h"
#include "symbols.h"
#include "gpu.h"

using namespace wir;

extern "C" {
int32_t aoti_torch_cpu__c10d_functional_all_reduce_(AtenTensorHandle inp, const char* reduce_op, const char* group_name, AtenTensorHandle* ret0);
int32_t aoti_torch_cpu__c10d_functional_wait_tensor(AtenTensorHandle inp, AtenTensorHandle* ret0);
}

namespace program {  // hides names of C's headers
namespace {
void load([[maybe_unused]] Tensor* c, [[maybe_unused]] const Bytes* b) {
}

struct Main {
  enum : int {
    x = 0,
    b_s = 1,
    b_1 = 2,
    y = 3,
    r_1 = 4,
    h = 5,
    w = 6,
    z = 7,
  };
  Tensor* const c;
  Tensor* const inputs;
  Tensor* const outputs;
  Run& run;
  Int s0{};
  Tensor t[8] = {};
  ~Main() { release(t, 8); }

  void part_0() {
    t[x] = take(inputs[0]);
    expect_tensor(t[x], "x", "f32[s0, 4]", f32(), {any, 4}, {4, 1}, run.gpu);
    expect_storage(t[x], "x");
    // process groups: 0
    require_agreement("processes share memory of group '0', which Python allocates, and nobody has compared their programs:\nfunc @main:\n  define s0 = size(%x, 0)\n  %b.s = alloc_storage s0*16 symmetric(\"0\", 18446744073709551614)\n  ^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^\n  %b = view %b.s : f32[s0, 4]\n  copy %b, %x\n  ...\n  hint: load the library in a process of Python with cpp_wrapper.load, or build it of a program without the passes lower-collectives and register-buffers, and without operators over symmetric memory");
    s0 = size(t[x], 0);
    allocate_shared(t[b_s], 0, {"wrapper_ir::empty_symmetric", device(run.gpu), "0", 1, 18446744073709551614u}, {4L * s0}, {1}, f32());
    window(t[b_1], t[b_s], {s0, 4}, {4, 1}, 0);
    copy(t[b_1], t[x]);
    allocate(t[y], {s0, 4}, {4, 1}, f32(), run.gpu);
    call("symm_mem::one_shot_all_reduce_out", "", {tensor(t[b_1]), string("sum", 3), string("0", 1), tensor(t[y])}, nullptr, 1);
    drop(t[b_s], t[b_1]);
    allocate_shared(t[r_1], 1, {"wrapper_ir::empty_registered", device(run.gpu), "0", 1, 7u}, {16}, {1}, f32());
    zero(t[r_1]);
    ok(aoti_torch_cpu__c10d_functional_all_reduce_(t[r_1], "sum", "0", &t[h]), "_c10d_functional::all_reduce_");
    check_layout(t[h], {16}, {1}, "h", "");
    ok(aoti_torch_cpu__c10d_functional_wait_tensor(t[h], &t[w]), "_c10d_functional::wait_tensor");
    allocate(t[z], {16}, {1}, f32(), run.gpu);
    copy(t[z], t[w]);
    drop(t[r_1], t[h], t[w]);
    outputs[0] = take(t[y]);
    outputs[1] = take(t[z]);
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
const GpuProgram kGpu = {nullptr, 0, 0, open_cuda};
}  // namespace
}  // namespace program

extern const wir::Program wir_program{
    1, 2, 0, 0, 0,
    program::kBlobs, program::kConstants, &program::kConvention, program::load, program::run_main,
    program::kInstructions, 0, nullptr,
    &program::kGpu,
};
