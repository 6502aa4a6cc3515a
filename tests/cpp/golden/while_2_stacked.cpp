#include "steps.h"
#include "helpers.h"
#include "symbols.h"

using namespace wir;

extern "C" {
int32_t aoti_torch_cpu_add_Tensor(AtenTensorHandle self, AtenTensorHandle other, double alpha, AtenTensorHandle* ret0);
}

namespace program {  // hides names of C's headers
namespace {
void load([[maybe_unused]] Tensor* c, [[maybe_unused]] const Bytes* b) {
}

void run_test(Tensor* c, Tensor* inputs, Tensor* outputs, Run& run);
void run_body(Tensor* c, Tensor* inputs, Tensor* outputs, Run& run);

struct TestFrame {
  enum : int {
    i_1 = 0,
    x = 1,
    w = 2,
    number_1 = 3,
    go = 4,
  };
  Tensor* const c;
  Tensor* const inputs;
  Tensor* const outputs;
  Run& run;
  Tensor t[5] = {};
  ~TestFrame() { release(t, 5); }

  void part_0() {
    t[i_1] = take(inputs[0]);
    t[x] = take(inputs[1]);
    t[w] = take(inputs[2]);
    number_tensor(t[number_1], Int(3), i64());
    call("aten::lt", "Tensor", {tensor(t[i_1]), tensor(t[number_1])}, &t[go], 1);
    drop(t[number_1]);
    check_result(t[go], boolean(), "go");
    check_layout(t[go], {}, {}, "go", "");
    outputs[0] = take(t[go]);
  }
};

void run_test(Tensor* c, Tensor* inputs, Tensor* outputs, Run& run) {
  TestFrame call{c, inputs, outputs, run};
  call.part_0();
}

struct BodyFrame {
  enum : int {
    i_2 = 0,
    x_1 = 1,
    w_1 = 2,
    one = 3,
    j = 4,
    y = 5,
  };
  Tensor* const c;
  Tensor* const inputs;
  Tensor* const outputs;
  Run& run;
  Tensor t[6] = {};
  ~BodyFrame() { release(t, 6); }

  void part_0() {
    t[i_2] = take(inputs[0]);
    t[x_1] = take(inputs[1]);
    t[w_1] = take(inputs[2]);
    allocate(t[one], {}, {}, i64());
    copy(t[one], t[i_2]);
    add_whole(t[j], t[one], t[one], i64());
    check_result(t[j], i64(), "j");
    check_layout(t[j], {}, {}, "j", "");
    drop(t[one]);
    ok(aoti_torch_cpu_add_Tensor(t[x_1], t[w_1], static_cast<double>(1), &t[y]), "aten::add.Tensor");
    check_result(t[y], f32(), "y");
    check_layout(t[y], {4}, {1}, "y", "");
    outputs[0] = take(t[j]);
    outputs[1] = take(t[y]);
  }
};

void run_body(Tensor* c, Tensor* inputs, Tensor* outputs, Run& run) {
  BodyFrame call{c, inputs, outputs, run};
  call.part_0();
}

struct Main {
  enum : int {
    i_3 = 0,
    x_2 = 1,
    w_2 = 2,
    j_1 = 3,
    y_1 = 4,
    lent = 5,
    go_1 = 8,
    next = 9,
  };
  Tensor* const c;
  Tensor* const inputs;
  Tensor* const outputs;
  Run& run;
  Int trips{};
  bool going{};
  Int u0{};
  Tensor t[11] = {};
  ~Main() { release(t, 11); }

  void part_0() {
    t[i_3] = take(inputs[0]);
    t[x_2] = take(inputs[1]);
    t[w_2] = take(inputs[2]);
    expect_tensor(t[i_3], "i", "i64[]", i64(), {}, {});
    expect_tensor(t[x_2], "x", "f32[4]", f32(), {4}, {1});
    expect_tensor(t[w_2], "w", "f32[4]", f32(), {4}, {1});
    expect_storage(t[i_3], "i");
    expect_storage(t[x_2], "x");
    expect_storage(t[w_2], "w");
    t[j_1] = same(t[i_3]);
    t[y_1] = same(t[x_2]);
    Trips kept, kept_1;
    for (trips = 0;; trips = trips + 1) {
      t[lent] = same(t[j_1]);
      t[lent + 1] = same(t[y_1]);
      t[lent + 2] = same(t[w_2]);
      run_test(c, t + lent, t + go_1, run);
      going = item_bool(t[go_1]);
      drop(t[go_1]);
      if (!going) break;
      t[lent] = same(t[j_1]);
      t[lent + 1] = same(t[y_1]);
      t[lent + 2] = same(t[w_2]);
      run_body(c, t + lent, t + next, run);
      replace(t[j_1], t[next]);
      kept.keep(t[j_1]);
      replace(t[y_1], t[next + 1]);
      kept_1.keep(t[y_1]);
    }
    kept.stack(t[j_1]);
    kept_1.stack(t[y_1]);
    run.at = "";
    u0 = size(t[j_1], 0);
    check_layout(t[j_1], {u0}, {1}, "j", "a result");
    check_layout(t[y_1], {u0, 4}, {4, 1}, "y", "a result");
    outputs[0] = take(t[j_1]);
    outputs[1] = take(t[y_1]);
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
const char* const kInputs[] = {"i", "x", "w", nullptr};
const int kInputOf[] = {0, 1, 2};
const Output kOutputs[] = {
  {Output::kResult, 0, 0.0},
  {Output::kResult, 1, 0.0},
  {Output::kNone, 0, 0.0},
};
const Convention kConvention = {
  3, 2, kInputs, nullptr, kOutputs,
  "[1, {\"type\": \"builtins.tuple\", \"context\": \"null\", \"children_spec\": [{\"type\": \"builtins.tuple\", \"context\": \"null\", \"children_spec\": [{\"type\": null, \"context\": null, \"children_spec\": []}, {\"type\": null, \"context\": null, \"children_spec\": []}, {\"type\": null, \"context\": null, \"children_spec\": []}]}, {\"type\": \"builtins.dict\", \"context\": \"[]\", \"children_spec\": []}]}]", "[1, {\"type\": \"builtins.tuple\", \"context\": \"null\", \"children_spec\": [{\"type\": null, \"context\": null, \"children_spec\": []}, {\"type\": null, \"context\": null, \"children_spec\": []}]}]",
};
const char* const kInstructions[] = {
  nullptr,
};
}  // namespace
}  // namespace program

extern const wir::Program wir_program{
    3, 2, 0, 0, 0,
    program::kBlobs, program::kConstants, &program::kConvention, program::load, program::run_main,
    program::kInstructions, 0, nullptr,
};
