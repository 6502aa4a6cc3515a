// Graphs: when and for which arguments they are created, and their replay.
//
// The rules are those of `wrapper_ir_runtime.GraphedFunction`. Here one call at a time owns a set of graphs of one stream,
// so nothing is locked and replays are in order.
#include "graphs.h"

#include <cstring>
#include <map>

#include "capture.h"

namespace wir {
namespace {

/// Maximum number of consecutive calls in which an argument moves before it is copied, and of all such calls.
constexpr int kSteady = 3, kMoves = 32;
/// Maximum number of keys of a function.
constexpr size_t kKnown = 1024;
/// A graph may be replaced after this many times the limit of graphs without use.
constexpr uint64_t kUnused = 8;

/// An argument that is copied to a graph's buffer, and back if the function writes it.
struct Copied {
  size_t index, nbytes;  // 0: there are gaps between elements, which are not copied
  Tensor buffer;
  bool is_written;
};
/// A result that leaves the call: `begin` and `end` of its bytes.
struct OwnedResult {
  size_t index;
  uint64_t begin, end;
};

struct Replay {
  Replay() = default;
  Replay(const Replay&) = delete;
  /// A running graph is freed after it ends, and its memory returns to its stream.
  ~Replay() {
    if (graph != nullptr) driver().GraphExecDestroy(graph);
  }
  bool fits(Tensor* inputs) const {
    for (const auto& [index, at] : bound) {
      if (address(inputs[index]) != at) return false;
    }
    return true;
  }

  void* graph = nullptr;
  std::vector<std::pair<size_t, uint64_t>> bound;
  std::vector<Copied> copied;
  std::vector<OwnedResult> owned;  // by address
  Handles buffers, results;
  Blocks blocks;
};

/// The state of calls with one key: addresses of arguments in the last call that was not a replay.
struct Entry {
  std::vector<uint64_t> seen;
  std::vector<bool> copied;
  int moves = 0, all_moves = 0;
  uint64_t used = 0;
  bool is_refused = false, is_waiting = false;  // waits for another graph to be removed
  std::unique_ptr<Replay> replay;
};
struct Function {
  std::map<std::vector<int64_t>, Entry> entries;
  std::vector<int64_t> last;
  uint64_t changes = 0;
  bool is_refused = false;
};
struct Call {
  Run& run;
  const Replayable& what;
  Function& function;
  Tensor *inputs, *outputs;
  GraphBody body;
  void* context;
  size_t count() const { return std::strlen(what.inputs); }
  void run_plain() const { body(context, inputs, outputs); }
};

bool is_static(const Call& call, const Entry* entry, size_t i) {
  return call.what.inputs[i] != 'c' && (entry == nullptr || !entry->copied[i]);
}
std::vector<uint64_t> addresses(const Call& call, const Entry* entry) {
  std::vector<uint64_t> found(call.count());
  for (size_t i = 0; i < found.size(); ++i) found[i] = is_static(call, entry, i) ? address(call.inputs[i]) : 0;
  return found;
}

/// Returns whether a graph for these addresses will last: each argument has not moved since the previous call, or
/// is copied from now on.
bool is_steady(const Call& call, Entry& entry, const std::vector<uint64_t>& here) {
  std::vector<uint64_t> last = entry.seen;
  if (entry.replay != nullptr) {
    for (const auto& [index, at] : entry.replay->bound) last[index] = at;
  }
  std::vector<size_t> moved;
  for (size_t i = 0; i < here.size(); ++i) {
    if (here[i] != 0 && here[i] != last[i] && call.what.inputs[i] != 'p') moved.push_back(i);
  }
  entry.all_moves += moved.empty() ? 0 : 1;
  const bool is_as_before = entry.seen == here;
  entry.seen = here;
  if (is_as_before && entry.all_moves < kMoves) return true;
  if (++entry.moves < kSteady || moved.empty()) return is_as_before;
  for (const size_t i : moved) {
    entry.copied[i] = true;
    entry.seen[i] = 0;
  }
  return true;
}

}  // namespace

class Graphs {
 public:
  explicit Graphs(const GpuProgram& program) : program_(program), functions_(static_cast<size_t>(program.replayables)) {}
  Graphs(const Graphs&) = delete;
  void call(Run& run, int number, std::initializer_list<int64_t> numbers, Tensor* inputs, Tensor* outputs, GraphBody body,
            void* context);

 private:
  Entry* find(Function& function, std::vector<int64_t> key);
  Replay* prepare(const Call& call, Entry& entry);
  bool make_room(Function& function);
  std::unique_ptr<Replay> capture(const Call& call, const Entry& entry);
  void place_inputs(const Call& call, const Entry& entry, Replay& made) const;
  std::vector<size_t> place_results(const Call& call, const Memory& memory, Replay& made) const;
  void replay(const Call& call, Replay& one) const;
  void warm_up(const Call& call);

  const GpuProgram& program_;
  Matmuls matmuls_;  // outlives the graphs that use it
  Blocks shared_;
  std::vector<Function> functions_;
  uint64_t constants_ = 0;
};

std::shared_ptr<Graphs> make_graphs(const GpuProgram& program) { return std::make_shared<Graphs>(program); }
void call_graph(Run& run, int number, std::initializer_list<int64_t> key, Tensor* inputs, Tensor* outputs, GraphBody body,
                   void* function) {
  run.graphs->call(run, number, key, inputs, outputs, body, function);
}

void Graphs::call(Run& run, int number, std::initializer_list<int64_t> numbers, Tensor* inputs, Tensor* outputs, GraphBody body,
                  void* context) {
  if (run.constants != constants_) {  // graphs read other constants
    for (Function& one : functions_) one.entries.clear();
    constants_ = run.constants;
  }
  Function& function = functions_[static_cast<size_t>(number)];
  const Call call{run, program_.replayable_table[number], function, inputs, outputs, body, context};
  if (function.is_refused || run.graph_memory != nullptr) return call.run_plain();
  const std::vector<int64_t> key(numbers);
  Entry* entry = find(function, key);
  if (entry == nullptr) {
    Entry& made = function.entries[key];
    made.seen = addresses(call, nullptr);
    made.copied.resize(call.count());
    return warm_up(call);
  }
  Replay* found = entry->replay.get();
  if (found == nullptr || !found->fits(inputs)) found = prepare(call, *entry);
  if (found != nullptr) return replay(call, *found);
  if (entry->is_refused || entry->is_waiting) return call.run_plain();
  warm_up(call);
}

/// Returns the state of a key. If there are too many, removes others without a graph.
Entry* Graphs::find(Function& function, std::vector<int64_t> key) {
  if (key != function.last) ++function.changes;
  const auto found = function.entries.find(key);
  function.last = std::move(key);
  if (found != function.entries.end()) {
    found->second.used = function.changes;
    return &found->second;
  }
  if (function.entries.size() >= kKnown) {
    std::erase_if(function.entries, [](const auto& known) { return known.second.replay == nullptr; });
  }
  return nullptr;
}

/// Runs the function without capturing it, but with the captured matmuls' library, which loads its kernels now.
void Graphs::warm_up(const Call& call) {
  struct Warm {
    Run& run;
    Warm(Run& run, Matmuls* matmuls) : run(run) { run.matmuls = matmuls; }
    ~Warm() { run.matmuls = nullptr; }
  } const warm(call.run, &matmuls_);
  call.run_plain();
}

/// Creates a graph for these arguments if it will last.
Replay* Graphs::prepare(const Call& call, Entry& entry) {
  if (entry.is_refused) return nullptr;
  if (!is_steady(call, entry, addresses(call, &entry))) return nullptr;
  entry.is_waiting = entry.replay == nullptr && !make_room(call.function);
  if (entry.is_waiting) return nullptr;
  entry.moves = 0;
  entry.replay.reset();
  try {
    entry.replay = capture(call, entry);
  } catch (const std::exception& error) {
    entry.is_refused = true;
    // if the device is out of memory, only this key is affected
    call.function.is_refused = std::strstr(error.what(), "out of memory") == nullptr;
    std::fprintf(stderr, "[CPP595] @%s runs as it is, since it could not be captured: %s\n", call.what.name, error.what());
  }
  return entry.replay.get();
}

/// Returns whether another graph may be created; removes an unused one if necessary.
bool Graphs::make_room(Function& function) {
  int count = 0;
  Entry* oldest = nullptr;
  for (auto& [key, entry] : function.entries) {
    if (entry.replay == nullptr) continue;
    ++count;
    if (oldest == nullptr || entry.used < oldest->used) oldest = &entry;
  }
  const auto limit = static_cast<uint64_t>(program_.cuda_graphs);
  if (count < program_.cuda_graphs) return true;
  if (oldest == nullptr || function.changes - oldest->used < kUnused * limit) return false;
  oldest->replay.reset();
  return true;
}

/// Captures the function, a second time if memory of a lent result is shared with other graphs.
std::unique_ptr<Replay> Graphs::capture(const Call& call, const Entry& entry) {
  std::vector<size_t> apart;
  for (;;) {
    auto made = std::make_unique<Replay>();
    place_inputs(call, entry, *made);
    Handles given(call.count(), nullptr);
    for (size_t i = 0; i < given.size(); ++i) given[i] = same(made->buffers[i] != nullptr ? made->buffers[i] : call.inputs[i]);
    made->results.resize(std::strlen(call.what.results));
    Memory memory(call.run, call.run.stream, shared_, apart);
    {
      Capture capture(call.run, memory, matmuls_);
      call.body(call.context, given.data(), made->results.data());
      made->graph = capture.end();
    }
    made->blocks = memory.used;
    std::vector<size_t> lent = place_results(call, memory, *made);
    const auto is_shared = [&](size_t i) { return std::find(shared_.begin(), shared_.end(), memory.used[i]) != shared_.end(); };
    if (std::none_of(lent.begin(), lent.end(), is_shared)) {
      for (size_t i = 0; i < memory.used.size(); ++i) {
        if (!is_shared(i) && !std::binary_search(lent.begin(), lent.end(), i)) shared_.push_back(memory.used[i]);
      }
      return made;
    }
    apart = std::move(lent);
  }
}

/// Binds arguments by address, or creates buffers for them.
void Graphs::place_inputs(const Call& call, const Entry& entry, Replay& made) const {
  made.buffers.resize(call.count());
  for (size_t i = 0; i < call.count(); ++i) {
    const Layout layout(call.inputs[i]);
    const Extent found = layout.extent();
    if (is_static(call, &entry, i)) {
      made.bound.emplace_back(i, address(call.inputs[i]));
      continue;
    }
    ok(aoti_torch_empty_strided(layout.rank, layout.sizes, layout.strides, layout.dtype, aoti_torch_device_type_cuda(),
                                call.run.gpu.index, &made.buffers[i]), "allocation");
    const size_t nbytes = found.is_dense || found.overlaps ? found.nbytes : 0;
    made.copied.push_back({i, nbytes, made.buffers[i], call.what.inputs[i] == 'w'});
  }
}

/// Finds the memory of results. Returns the sorted numbers of the allocations that contain lent ones.
std::vector<size_t> Graphs::place_results(const Call& call, const Memory& memory, Replay& made) const {
  std::vector<size_t> lent;
  for (size_t i = 0; i < made.results.size(); ++i) {
    const Extent found = Layout(made.results[i]).extent();
    const uint64_t begin = address(made.results[i]);
    if (found.nbytes == 0) continue;
    const size_t number = memory.find(begin);
    if (number == memory.used.size()) fail("CPP595", "a result lies in memory from before it");
    if (call.what.results[i] == 'l') lent.push_back(number);
    if (call.what.results[i] == 'o') made.owned.push_back({i, begin, begin + found.nbytes});
  }
  std::sort(lent.begin(), lent.end());
  lent.erase(std::unique(lent.begin(), lent.end()), lent.end());
  std::sort(made.owned.begin(), made.owned.end(), [](const OwnedResult& a, const OwnedResult& b) { return a.begin < b.begin; });
  return lent;
}

namespace {

void copy_bytes(uint64_t target, uint64_t source, size_t nbytes, const Run& run) {
  if (nbytes != 0) check(driver().MemcpyDtoDAsync(target, source, nbytes, run.stream), "copy on the device");
}
void copy_argument(const Copied& one, Tensor target, Tensor source, const Run& run) {
  if (one.nbytes == 0) return start_copy(target, source);
  copy_bytes(address(target), address(source), one.nbytes, run);
}

/// Copies results from `first` up to `last`, which share bytes, to new memory that they also share.
void give_copies(const Replay& one, size_t first, size_t last, uint64_t end, Tensor* outputs, const Run& run) {
  Handles bytes(1, nullptr);
  const uint64_t begin = one.owned[first].begin & ~uint64_t{15};
  allocate(bytes[0], {Int(end - begin)}, {1}, u8(), run.gpu);
  copy_bytes(address(bytes[0]), begin, end - begin, run);
  for (size_t i = first; i < last; ++i) {
    const OwnedResult& owned = one.owned[i];
    const Layout layout(one.results[owned.index]);
    ok(aoti_torch__alloc_from_pool(bytes[0], static_cast<int64_t>(owned.begin - begin), layout.dtype, layout.rank, layout.sizes,
                                   layout.strides, &outputs[owned.index]), "a view");
  }
}

}  // namespace

void Graphs::replay(const Call& call, Replay& one) const {
  const Run& run = call.run;
  for (const Copied& each : one.copied) copy_argument(each, each.buffer, call.inputs[each.index], run);
  check(driver().GraphLaunch(one.graph, run.stream), "replay a graph");
  for (const Copied& each : one.copied) {
    if (each.is_written) copy_argument(each, call.inputs[each.index], each.buffer, run);
  }
  for (size_t first = 0, last = 0; first < one.owned.size(); first = last) {
    uint64_t end = one.owned[first].end;
    for (last = first + 1; last < one.owned.size() && one.owned[last].begin < end; ++last) end = std::max(end, one.owned[last].end);
    give_copies(one, first, last, end, call.outputs, run);
  }
  for (size_t i = 0; i < one.results.size(); ++i) {
    if (call.outputs[i] == nullptr) call.outputs[i] = same(one.results[i]);
  }
  release(call.inputs, call.count());
}

}  // namespace wir
