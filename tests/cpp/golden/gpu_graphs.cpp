#include "steps.h"
#include "helpers.h"
#include "symbols.h"
#include "graphs.h"

using namespace wir;

extern "C" {
}

namespace program {  // hides names of C's headers
namespace {
void load([[maybe_unused]] Tensor* c, [[maybe_unused]] const Bytes* b) {
}

const Compiled kCompiled[] = {
  {90, 0, "add", 128, 1, 0, false, false, {0, 1}, {0, 1}},
};
const GpuKernel kKernels[] = {
  {"add", kCompiled + 0, 1},
};
void add(const Run& run, void* x, void* y, void* out, double factor, Int n) {
  const Slot slots[] = {aligned(x, "x"), pointer(y), pointer(out), single(factor), whole<int32_t>(n, "n")};
  launch(run, 0, Int(wir_ceildiv(n, 64L)), 1, 1, slots, 5);
}


void run_graph_0(Tensor* c, Tensor* inputs, Tensor* outputs, Run& run, Int s0);

struct Graph_0Frame {
  enum : int {
    x_1 = 0,
    w = 1,
    a_1 = 2,
    b_1 = 3,
  };
  Tensor* const c;
  Tensor* const inputs;
  Tensor* const outputs;
  Run& run;
  const Int s0;
  Tensor t[4] = {};
  ~Graph_0Frame() { release(t, 4); }

  void part_0() {
    t[x_1] = take(inputs[0]);
    t[w] = take(inputs[1]);
    check_alignment(t[x_1], 16, "x", "read or written by a kernel");
    allocate(t[a_1], {s0}, {1}, f32(), run);
    add(run, data(t[x_1]), data(t[w]), data(t[a_1]), 1.0, s0);
    drop(t[x_1]);
    allocate(t[b_1], {s0}, {1}, f32(), run);
    add(run, data(t[a_1]), data(t[w]), data(t[b_1]), 0.5, s0);
    drop(t[w]);
    drop(t[a_1]);
    outputs[0] = take(t[b_1]);
  }
};

// captured as a CUDA graph for each of its keys, 16 at a time
void run_graph_0(Tensor* c, Tensor* inputs, Tensor* outputs, Run& run, Int s0) {
  graphed(run, 0, {graph_key(s0)}, inputs, outputs, [&](Tensor* inputs, Tensor* outputs) {
    Graph_0Frame call{c, inputs, outputs, run, s0};
    call.part_0();
  });
}

struct Main {
  enum : int {
    x_2 = 0,
    w_1 = 1,
    lent = 2,
    b_2 = 4,
  };
  Tensor* const c;
  Tensor* const inputs;
  Tensor* const outputs;
  Run& run;
  Int s0_1{};
  Tensor t[5] = {};
  ~Main() { release(t, 5); }

  void part_0() {
    t[x_2] = take(inputs[0]);
    t[w_1] = take(inputs[1]);
    expect_tensor(t[x_2], "x", "f32[s0]", f32(), {any}, {1}, run.gpu);
    expect_tensor(t[w_1], "w", "f32[s0]", f32(), {any}, {1}, run.gpu);
    expect_storage(t[x_2], "x");
    expect_storage(t[w_1], "w");
    s0_1 = size(t[x_2], 0);
    check_layout(t[w_1], {s0_1}, {1}, "w", "");
    t[lent] = same(t[x_2]);
    t[lent + 1] = same(t[w_1]);
    run_graph_0(c, t + lent, t + b_2, run, s0_1);
    run.at = "";
    drop(t[x_2]);
    drop(t[w_1]);
    outputs[0] = take(t[b_2]);
  }
};

void run_main(Tensor* c, Tensor* inputs, Tensor* outputs, Run& run) {
  Main call{c, inputs, outputs, run};
  call.part_0();
}

const Blob kBlobs[] = {
  {0, 58, false, Blob::kImage},
  {0, 0, false},
};
const Constant kConstants[] = {
  {"", "", f32, 0, 0, 0},
};
const char* const kInputs[] = {"x", "w", nullptr};
const int kInputOf[] = {0, 1};
const Output kOutputs[] = {
  {Output::kResult, 0, 0.0},
  {Output::kNone, 0, 0.0},
};
const Convention kConvention = {
  2, 1, kInputs, nullptr, kOutputs,
  "[1, {\"type\": \"builtins.tuple\", \"context\": \"null\", \"children_spec\": [{\"type\": \"builtins.tuple\", \"context\": \"null\", \"children_spec\": [{\"type\": null, \"context\": null, \"children_spec\": []}, {\"type\": null, \"context\": null, \"children_spec\": []}]}, {\"type\": \"builtins.dict\", \"context\": \"[]\", \"children_spec\": []}]}]", "[1, {\"type\": \"builtins.tuple\", \"context\": \"null\", \"children_spec\": [{\"type\": null, \"context\": null, \"children_spec\": []}]}]",
};
const char* const kInstructions[] = {
  nullptr,
};
const Replayable kReplayables[] = {
  {"graph_0", "cs", "o"},
};
const GpuProgram kGpu = {kKernels, 1, 0, open_cuda, kReplayables, 1, 16, make_graphs};
}  // namespace
}  // namespace program

extern const wir::Program wir_program{
    2, 1, 1, 0, 0,
    program::kBlobs, program::kConstants, &program::kConvention, program::load, program::run_main,
    program::kInstructions, 0, nullptr,
    &program::kGpu,
};
