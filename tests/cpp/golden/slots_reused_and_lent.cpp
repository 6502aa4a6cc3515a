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

enum : int { memory_0, a_1, inner, b_1, c_1 };
void make_persistent(Tensor* k, const Run&) {
  allocate(k[memory_0], {128}, {1}, u8());
  byte_window(k[a_1], k[memory_0], f32(), {8}, {1}, 0);
  byte_window(k[inner], k[memory_0], u8(), {64}, {1}, 32);
  byte_window(k[b_1], k[memory_0], f32(), {8}, {1}, 64);
  byte_window(k[c_1], k[memory_0], i32(), {8}, {1}, 0);
  resize(k[memory_0], 0);
}

void double_1(void* source, void* target, Int count_1) {
  const Slot slots[] = {pointer(source), pointer(target), whole<int64_t>(count_1, "an argument for count does not fit i64")};
  wir_5a036fedf5a5ddd9ea3bc5536c2d9604251c69a9(slots);
}

void run_twice(Tensor* c, Tensor* inputs, Tensor* outputs, Run& run);
void run_once(Tensor* c, Tensor* inputs, Tensor* outputs, Run& run);
void run_small(Tensor* c, Tensor* inputs, Tensor* outputs, Run& run);
void run_grow(Tensor* c, Tensor* inputs, Tensor* outputs, Run& run);

struct TwiceFrame {
  enum : int {
    x = 0,
    room = 1,
    a_2 = 2,
    low = 3,
    lent = 4,
    r_1 = 6,
  };
  Tensor* const c;
  Tensor* const inputs;
  Tensor* const outputs;
  Run& run;
  Tensor t[7] = {};
  ~TwiceFrame() { release(t, 7); }

  void part_0() {
    t[x] = take(inputs[0]);
    t[room] = take(inputs[1]);
    byte_window(t[a_2], t[room], f32(), {8}, {1}, 32);
    double_1(data(t[x]), data(t[a_2]), 8);
    window(t[low], t[room], {32}, {1}, 0);
    t[lent] = same(t[a_2]);
    t[lent + 1] = same(t[low]);
    run_once(c, t + lent, t + r_1, run);
    run.at = "";
    drop(t[low]);
    drop(t[a_2]);
    outputs[0] = take(t[r_1]);
  }
};

void run_twice(Tensor* c, Tensor* inputs, Tensor* outputs, Run& run) {
  TwiceFrame call{c, inputs, outputs, run};
  call.part_0();
}

struct OnceFrame {
  enum : int {
    x_1 = 0,
    room_1 = 1,
    a_3 = 2,
    r_2 = 3,
  };
  Tensor* const c;
  Tensor* const inputs;
  Tensor* const outputs;
  Run& run;
  Tensor t[4] = {};
  ~OnceFrame() { release(t, 4); }

  void part_0() {
    t[x_1] = take(inputs[0]);
    t[room_1] = take(inputs[1]);
    byte_window(t[a_3], t[room_1], f32(), {8}, {1}, 0);
    double_1(data(t[x_1]), data(t[a_3]), 8);
    allocate(t[r_2], {8}, {1}, f32());
    copy(t[r_2], t[a_3]);
    outputs[0] = take(t[r_2]);
  }
};

void run_once(Tensor* c, Tensor* inputs, Tensor* outputs, Run& run) {
  OnceFrame call{c, inputs, outputs, run};
  call.part_0();
}

struct SmallFrame {
  enum : int {
    i_1 = 0,
    x_2 = 1,
    room_2 = 2,
    number_1 = 3,
    go = 4,
  };
  Tensor* const c;
  Tensor* const inputs;
  Tensor* const outputs;
  Run& run;
  Tensor t[5] = {};
  ~SmallFrame() { release(t, 5); }

  void part_0() {
    t[i_1] = take(inputs[0]);
    t[x_2] = take(inputs[1]);
    t[room_2] = take(inputs[2]);
    number_tensor(t[number_1], Int(4), i64());
    call("aten::lt", "Tensor", {tensor(t[i_1]), tensor(t[number_1])}, &t[go], 1);
    drop(t[number_1]);
    check_result(t[go], boolean(), "go");
    check_layout(t[go], {}, {}, "go", "");
    outputs[0] = take(t[go]);
  }
};

void run_small(Tensor* c, Tensor* inputs, Tensor* outputs, Run& run) {
  SmallFrame call{c, inputs, outputs, run};
  call.part_0();
}

struct GrowFrame {
  enum : int {
    i_2 = 0,
    x_3 = 1,
    room_3 = 2,
    low_1 = 3,
    lent_1 = 4,
    r_3 = 6,
    number_2 = 7,
    j = 8,
  };
  Tensor* const c;
  Tensor* const inputs;
  Tensor* const outputs;
  Run& run;
  Tensor t[9] = {};
  ~GrowFrame() { release(t, 9); }

  void part_0() {
    t[i_2] = take(inputs[0]);
    t[x_3] = take(inputs[1]);
    t[room_3] = take(inputs[2]);
    window(t[low_1], t[room_3], {32}, {1}, 0);
    t[lent_1] = same(t[x_3]);
    t[lent_1 + 1] = same(t[low_1]);
    run_once(c, t + lent_1, t + r_3, run);
    run.at = "";
    drop(t[low_1]);
    number_tensor(t[number_2], Int(2), i64());
    call("aten::mul", "Tensor", {tensor(t[i_2]), tensor(t[number_2])}, &t[j], 1);
    drop(t[number_2]);
    check_result(t[j], i64(), "j");
    check_layout(t[j], {}, {}, "j", "");
    outputs[0] = take(t[j]);
    outputs[1] = take(t[r_3]);
  }
};

void run_grow(Tensor* c, Tensor* inputs, Tensor* outputs, Run& run) {
  GrowFrame call{c, inputs, outputs, run};
  call.part_0();
}

struct Main {
  enum : int {
    x_4 = 0,
    p = 1,
    i_3 = 2,
    lent_2 = 3,
    y = 5,
    j_1 = 6,
    z = 7,
    lent_3 = 8,
    go_1 = 11,
    next = 12,
  };
  Tensor* const c;
  Tensor* const inputs;
  Tensor* const outputs;
  Run& run;
  Tensor* const k;
  bool taken{};
  Int trips{};
  bool going{};
  Tensor t[14] = {};
  ~Main() { release(t, 14); }

  void part_0() {
    t[x_4] = take(inputs[0]);
    t[p] = take(inputs[1]);
    t[i_3] = take(inputs[2]);
    expect_tensor(t[x_4], "x", "f32[8]", f32(), {8}, {1});
    expect_tensor(t[p], "p", "bool[]", boolean(), {}, {});
    expect_tensor(t[i_3], "i", "i64[]", i64(), {}, {});
    expect_storage(t[x_4], "x");
    expect_storage(t[p], "p");
    expect_storage(t[i_3], "i");
    resize(k[memory_0], 128);
    double_1(data(t[x_4]), data(k[a_1]), 8);
    double_1(data(k[a_1]), data(k[b_1]), 8);
    double_1(data(k[b_1]), data(k[a_1]), 8);
    taken = item_bool(t[p]);
    t[lent_2] = same(k[a_1]);
    t[lent_2 + 1] = same(k[inner]);
    if (taken) {
      run_twice(c, t + lent_2, t + y, run);
    } else {
      run_once(c, t + lent_2, t + y, run);
    }
    run.at = "";
    t[j_1] = same(t[i_3]);
    t[z] = same(t[y]);
    for (trips = 0;; trips = trips + 1) {
      t[lent_3] = same(t[j_1]);
      t[lent_3 + 1] = same(t[z]);
      t[lent_3 + 2] = same(k[inner]);
      run_small(c, t + lent_3, t + go_1, run);
      going = item_bool(t[go_1]);
      drop(t[go_1]);
      if (!going) break;
      t[lent_3] = same(t[j_1]);
      t[lent_3 + 1] = same(t[z]);
      t[lent_3 + 2] = same(k[inner]);
      run_grow(c, t + lent_3, t + next, run);
      replace(t[j_1], t[next]);
      replace(t[z], t[next + 1]);
    }
    if (trips == 0) make_fresh(t[j_1]);
    if (trips == 0) make_fresh(t[z]);
    run.at = "";
    drop(t[j_1]);
    drop(t[y]);
    resize(k[memory_0], 0);
    outputs[0] = take(t[z]);
  }
};

void run_main(Tensor* c, Tensor* inputs, Tensor* outputs, Run& run) {
  Main call{c, inputs, outputs, run, run.persistent};
  call.part_0();
}

const Blob kBlobs[] = {
  {0, 0, false},
};
const Constant kConstants[] = {
  {"", "", f32, 0, 0, 0},
};
const char* const kInputs[] = {"x", "p", "i", nullptr};
const int kInputOf[] = {0, 1, 2};
const Output kOutputs[] = {
  {Output::kResult, 0, 0.0},
  {Output::kNone, 0, 0.0},
};
const Convention kConvention = {
  3, 1, kInputs, nullptr, kOutputs,
  "[1, {\"type\": \"builtins.tuple\", \"context\": \"null\", \"children_spec\": [{\"type\": \"builtins.tuple\", \"context\": \"null\", \"children_spec\": [{\"type\": null, \"context\": null, \"children_spec\": []}, {\"type\": null, \"context\": null, \"children_spec\": []}, {\"type\": null, \"context\": null, \"children_spec\": []}]}, {\"type\": \"builtins.dict\", \"context\": \"[]\", \"children_spec\": []}]}]", "[1, {\"type\": \"builtins.tuple\", \"context\": \"null\", \"children_spec\": [{\"type\": null, \"context\": null, \"children_spec\": []}]}]",
};
const char* const kInstructions[] = {
  nullptr,
};
}  // namespace
}  // namespace program

extern const wir::Program wir_program{
    3, 1, 0, 0, 0,
    program::kBlobs, program::kConstants, &program::kConvention, program::load, program::run_main,
    program::kInstructions, 5, program::make_persistent,
};
