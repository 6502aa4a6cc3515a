// Recordings: when they are made, for which arguments, and what a call gets of them.
//
// As `wrapper_ir.runtime.Recorded`, but for what belongs to one call at a time here: a set of recordings is taken by a call, and
// belongs to one stream, so that nothing is locked and replays are in order.
#include "graphs.h"

#include <algorithm>
#include <cstring>

#include "driver.h"

extern "C" {
int32_t aoti_torch_create_cuda_stream_guard(void* stream, int32_t device_index, wir::CudaStreamGuardOpaque** ret_guard);
int32_t aoti_torch_delete_cuda_stream_guard(wir::CudaStreamGuardOpaque* guard);
}

namespace wir {
namespace {

/// Calls in a row in which an argument may lie elsewhere than before, before it is copied instead; calls in all that may.
constexpr int kSteady = 3, kMoves = 32;
/// Keys that a function remembers.
constexpr size_t kKnown = 1024;
/// How many times the limit of recordings a recording is unused before another may take its place.
constexpr uint64_t kUnused = 8;

void use_stream(void* stream, int32_t index, CudaStreamGuardOpaque** guard) {
  ok(aoti_torch_create_cuda_stream_guard(stream, index, guard), "making a stream current");
}

// --- layouts

/// The bytes from the first element of a tensor to its last one, and whether each of them is of exactly one element.
struct Extent {
  size_t nbytes = 0;
  bool is_dense = false, overlaps = false;
};

Extent extent(size_t element, int64_t rank, const int64_t* sizes, const int64_t* strides) {
  std::vector<std::pair<int64_t, int64_t>> dims;  // stride, size
  int64_t count = 1, last = 0;
  for (int64_t i = 0; i < rank; ++i) {
    count = raw(Int(count) * Int(sizes[i]));
    if (sizes[i] > 1) dims.emplace_back(strides[i], sizes[i]);
    if (sizes[i] > 1) last = raw(Int(last) + Int(sizes[i] - 1) * Int(strides[i]));
  }
  if (count == 0) return {0, true, false};
  std::sort(dims.begin(), dims.end());
  bool overlaps = false;
  int64_t covered = 1;  // elements up to the end of the dimensions before
  for (const auto& [stride, size] : dims) {
    overlaps = overlaps || stride < covered;
    covered = raw(Int(size - 1) * Int(stride) + Int(covered));
  }
  return {static_cast<size_t>(raw(Int(last + 1) * Int(element))), !overlaps && last + 1 == count, overlaps};
}

struct Layout {
  int64_t rank = 0, *sizes = nullptr, *strides = nullptr;
  int32_t dtype = 0;
  explicit Layout(Tensor tensor) {
    ok(aoti_torch_get_dim(tensor, &rank), "dim");
    ok(aoti_torch_get_sizes(tensor, &sizes), "sizes");
    ok(aoti_torch_get_strides(tensor, &strides), "strides");
    ok(aoti_torch_get_dtype(tensor, &dtype), "dtype");
  }
  Extent extent() const { return wir::extent(aoti_torch_dtype_element_size(dtype), rank, sizes, strides); }
};
uint64_t address(Tensor tensor) { return reinterpret_cast<uint64_t>(data(tensor)); }

// --- memory

/// Bytes of the device that recordings write in each replay.
struct Block {
  Tensor handle = nullptr;
  uint64_t begin = 0;
  size_t nbytes = 0;
  Block(size_t nbytes, Gpu gpu) : nbytes(nbytes) {
    wir::allocate(handle, {Int(nbytes)}, {1}, u8(), gpu);
    begin = address(handle);
  }
  Block(const Block&) = delete;
  ~Block() { drop(handle); }
  bool has(uint64_t at) const { return at >= begin && at < begin + nbytes; }
};
using Blocks = std::vector<std::shared_ptr<Block>>;

/// What a function allocates while it is recorded. Blocks of `shared` may be used by other recordings, too: they hold nothing from
/// one replay to the next. The allocations whose numbers are in `apart` get blocks of their own.
class Memory final : public RecordedMemory {
 public:
  Memory(const Run& run, void* stream, const Blocks& shared, const std::vector<size_t>& apart)
      : run_(run), stream_(stream), free_(shared), apart_(apart) {}
  void allocate(Tensor& made, Ints sizes, Ints strides, int32_t dtype) override {
    const auto rank = static_cast<int64_t>(sizes.size());
    const size_t nbytes = std::max<size_t>(extent(aoti_torch_dtype_element_size(dtype), rank, ints(sizes), ints(strides)).nbytes, 1);
    used.push_back(block(nbytes));
    byte_window(made, used.back()->handle, dtype, sizes, strides, 0);
  }
  /// The number of the allocation that a result lies in; those of `used` for none.
  size_t find(uint64_t at) const {
    size_t number = 0;
    while (number < used.size() && !used[number]->has(at)) ++number;
    return number;
  }
  Blocks used;

 private:
  std::shared_ptr<Block> block(size_t nbytes) {
    auto best = free_.end();
    const bool is_apart = std::find(apart_.begin(), apart_.end(), used.size()) != apart_.end();
    for (auto one = free_.begin(); one != free_.end() && !is_apart; ++one) {
      if ((*one)->nbytes >= nbytes && (best == free_.end() || (*one)->nbytes < (*best)->nbytes)) best = one;
    }
    if (best != free_.end()) {
      std::shared_ptr<Block> found = *best;
      free_.erase(best);
      return found;
    }
    // of the stream that replays are queued on: torch's allocator gives freed memory to that again, in order
    CudaStreamGuardOpaque* guard = nullptr;
    use_stream(stream_, run_.gpu.index, &guard);
    struct Back {
      CudaStreamGuardOpaque* guard;
      ~Back() { aoti_torch_delete_cuda_stream_guard(guard); }
    } const back{guard};
    return std::make_shared<Block>(nbytes, run_.gpu);
  }

  const Run& run_;
  void* stream_;
  Blocks free_;
  const std::vector<size_t>& apart_;
};

// --- recording

/// While this lives what the run queues is recorded, on a stream of its own.
class Capture {
 public:
  Capture(Run& run, Memory& memory, Products& products) : run_(run), before_(run.stream) {
    check(driver().StreamCreate(&stream_, kNonBlocking), "make a stream");
    try {
      use_stream(stream_, run.gpu.index, &guard_);
      check(driver().StreamBeginCapture(stream_, kRelaxedCapture), "begin to record");
    } catch (...) {
      leave();
      throw;
    }
    run.stream = stream_;
    run.recorded = &memory;
    run.products = &products;
    is_open_ = true;
  }
  Capture(const Capture&) = delete;
  ~Capture() {
    void* graph = nullptr;
    if (is_open_ && driver().StreamEndCapture(stream_, &graph) == 0 && graph != nullptr) driver().GraphDestroy(graph);
    leave();
  }
  /// What was recorded, to be replayed.
  void* end() {
    void *graph = nullptr, *made = nullptr;
    is_open_ = false;
    check(driver().StreamEndCapture(stream_, &graph), "record");
    const int status = driver().GraphInstantiate(&made, graph, 0);
    driver().GraphDestroy(graph);
    check(status, "make a graph of what was recorded");
    return made;
  }

 private:
  void leave() noexcept {
    run_.stream = before_;
    run_.recorded = nullptr;
    run_.products = nullptr;
    if (guard_ != nullptr) aoti_torch_delete_cuda_stream_guard(guard_);
    if (stream_ != nullptr) driver().StreamDestroy(stream_);
  }

  Run& run_;
  void *before_, *stream_ = nullptr;
  CudaStreamGuardOpaque* guard_ = nullptr;
  bool is_open_ = false;
};

/// An argument that is copied to where a recording reads it, and back where the function writes it.
struct Copied {
  size_t index, dense_nbytes;  // 0: not dense
  Tensor buffer;
  bool is_written;
};
/// A result that leaves the call: `begin` and `end` of its bytes.
struct Owned {
  size_t index;
  uint64_t begin, end;
};

struct Recording {
  Recording() = default;
  Recording(const Recording&) = delete;
  /// A graph that still runs is freed when it has ended, and its memory goes back to its own stream.
  ~Recording() {
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
  std::vector<Owned> owned;  // by address
  Handles buffers, results;
  Blocks blocks;
};

/// What is known about the calls with one key: where arguments lay in the last one that was not a replay.
struct Entry {
  std::vector<uint64_t> seen;
  std::vector<bool> copied;
  int moves = 0, all_moves = 0;
  uint64_t used = 0;
  bool is_refused = false;
  std::unique_ptr<Recording> recording;
};
struct Function {
  std::map<std::vector<int64_t>, Entry> entries;
  std::vector<int64_t> last;
  uint64_t changes = 0;
  bool is_refused = false;
};
struct Call {
  Run& run;
  const Recordable& what;
  Function& function;
  Tensor *inputs, *outputs;
  RecordedBody body;
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

/// Whether a recording for these addresses will last: arguments lie where they lay in the call before, or those that do not are
/// copied from now on.
bool is_steady(const Call& call, Entry& entry, const std::vector<uint64_t>& here) {
  std::vector<uint64_t> last = entry.seen;
  if (entry.recording != nullptr) {
    for (const auto& [index, at] : entry.recording->bound) last[index] = at;
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
  explicit Graphs(const GpuProgram& program) : program_(program), functions_(static_cast<size_t>(program.recordables)) {}
  Graphs(const Graphs&) = delete;
  void call(Run& run, int number, std::initializer_list<int64_t> numbers, Tensor* inputs, Tensor* outputs, RecordedBody body,
            void* context);

 private:
  Entry* find(Function& function, std::vector<int64_t> key);
  Recording* prepare(const Call& call, Entry& entry);
  bool make_room(Function& function);
  std::unique_ptr<Recording> record(const Call& call, const Entry& entry);
  void place_inputs(const Call& call, const Entry& entry, Recording& made) const;
  std::vector<size_t> place_results(const Call& call, const Memory& memory, Recording& made) const;
  void replay(const Call& call, Recording& one) const;
  void warm_up(const Call& call);

  const GpuProgram& program_;
  Products products_;  // lives longer than what was recorded with it
  Blocks shared_;
  std::vector<Function> functions_;
  uint64_t constants_ = 0;
};

std::shared_ptr<Graphs> make_graphs(const GpuProgram& program) { return std::make_shared<Graphs>(program); }
void call_recorded(Run& run, int number, std::initializer_list<int64_t> key, Tensor* inputs, Tensor* outputs, RecordedBody body,
                   void* function) {
  run.graphs->call(run, number, key, inputs, outputs, body, function);
}

void Graphs::call(Run& run, int number, std::initializer_list<int64_t> numbers, Tensor* inputs, Tensor* outputs, RecordedBody body,
                  void* context) {
  if (run.constants != constants_) {  // what was recorded reads others
    for (Function& one : functions_) one.entries.clear();
    constants_ = run.constants;
  }
  Function& function = functions_[static_cast<size_t>(number)];
  const Call call{run, program_.recordable_table[number], function, inputs, outputs, body, context};
  if (function.is_refused || run.recorded != nullptr) return call.run_plain();
  const std::vector<int64_t> key(numbers);
  Entry* entry = find(function, key);
  if (entry == nullptr) {
    Entry& made = function.entries[key];
    made.seen = addresses(call, nullptr);
    made.copied.resize(call.count());
    return warm_up(call);
  }
  Recording* found = entry->recording.get();
  if (found == nullptr || !found->fits(inputs)) found = prepare(call, *entry);
  if (found != nullptr) return replay(call, *found);
  if (entry->is_refused) return call.run_plain();
  warm_up(call);
}

/// What is known of a key. Others are forgotten where there are too many, but for those with a recording.
Entry* Graphs::find(Function& function, std::vector<int64_t> key) {
  if (key != function.last) ++function.changes;
  const auto found = function.entries.find(key);
  function.last = std::move(key);
  if (found != function.entries.end()) {
    found->second.used = function.changes;
    return &found->second;
  }
  if (function.entries.size() >= kKnown) {
    std::erase_if(function.entries, [](const auto& known) { return known.second.recording == nullptr; });
  }
  return nullptr;
}

/// As it is, with the library of products that is recorded later: it loads kernels now.
void Graphs::warm_up(const Call& call) {
  struct Warm {
    Run& run;
    Warm(Run& run, Products* products) : run(run) { run.products = products; }
    ~Warm() { run.products = nullptr; }
  } const warm(call.run, &products_);
  call.run_plain();
}

/// A recording for these arguments, where it is time for one.
Recording* Graphs::prepare(const Call& call, Entry& entry) {
  if (entry.is_refused) return nullptr;
  if (!is_steady(call, entry, addresses(call, &entry))) return nullptr;
  if (entry.recording == nullptr && !make_room(call.function)) return nullptr;
  entry.moves = 0;
  entry.recording.reset();
  try {
    entry.recording = record(call, entry);
  } catch (const std::exception& error) {
    entry.is_refused = true;
    // where the device has no memory left, that concerns one key
    call.function.is_refused = std::strstr(error.what(), "out of memory") == nullptr;
    std::fprintf(stderr, "[CPP595] @%s runs as it is, since it could not be recorded: %s\n", call.what.name, error.what());
  }
  return entry.recording.get();
}

/// Whether one more recording may be made; forgets one that is not used any more.
bool Graphs::make_room(Function& function) {
  int count = 0;
  Entry* oldest = nullptr;
  for (auto& [key, entry] : function.entries) {
    if (entry.recording == nullptr) continue;
    ++count;
    if (oldest == nullptr || entry.used < oldest->used) oldest = &entry;
  }
  const auto limit = static_cast<uint64_t>(program_.recordings);
  if (count < program_.recordings) return true;
  if (oldest == nullptr || function.changes - oldest->used < kUnused * limit) return false;
  oldest->recording.reset();
  return true;
}

/// Records; a second time where a result that is lent lies in memory of other recordings.
std::unique_ptr<Recording> Graphs::record(const Call& call, const Entry& entry) {
  std::vector<size_t> apart;
  for (;;) {
    auto made = std::make_unique<Recording>();
    place_inputs(call, entry, *made);
    Handles given(call.count(), nullptr);
    for (size_t i = 0; i < given.size(); ++i) given[i] = same(made->buffers[i] != nullptr ? made->buffers[i] : call.inputs[i]);
    made->results.resize(std::strlen(call.what.results));
    Memory memory(call.run, call.run.stream, shared_, apart);
    {
      Capture capture(call.run, memory, products_);
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

/// Which arguments are bound where they lie, and buffers for the others.
void Graphs::place_inputs(const Call& call, const Entry& entry, Recording& made) const {
  made.buffers.resize(call.count());
  for (size_t i = 0; i < call.count(); ++i) {
    const Layout layout(call.inputs[i]);
    const Extent found = layout.extent();
    if (is_static(call, &entry, i) || found.overlaps) {  // nothing can be copied to elements that share bytes
      made.bound.emplace_back(i, address(call.inputs[i]));
      continue;
    }
    ok(aoti_torch_empty_strided(layout.rank, layout.sizes, layout.strides, layout.dtype, aoti_torch_device_type_cuda(),
                                call.run.gpu.index, &made.buffers[i]), "allocation");
    made.copied.push_back({i, found.is_dense ? found.nbytes : 0, made.buffers[i], call.what.inputs[i] != 's' && call.what.inputs[i] != 'c'});
  }
}

/// Where results lie; gives the numbers of the allocations that lent ones lie in, in order.
std::vector<size_t> Graphs::place_results(const Call& call, const Memory& memory, Recording& made) const {
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
  std::sort(made.owned.begin(), made.owned.end(), [](const Owned& a, const Owned& b) { return a.begin < b.begin; });
  return lent;
}

namespace {

void copy_bytes(uint64_t target, uint64_t source, size_t nbytes, const Run& run) {
  if (nbytes != 0) check(driver().MemcpyDtoDAsync(target, source, nbytes, run.stream), "copy on the device");
}
void copy_argument(const Copied& one, Tensor target, Tensor source, const Run& run) {
  if (one.dense_nbytes == 0) return start_copy(target, source);
  copy_bytes(address(target), address(source), one.dense_nbytes, run);
}

/// Copies of results from `first` up to `last`, which share bytes, in memory of their own that they share, too.
void give_copies(const Recording& one, size_t first, size_t last, uint64_t end, Tensor* outputs, const Run& run) {
  Handles bytes(1, nullptr);
  const uint64_t begin = one.owned[first].begin & ~uint64_t{15};
  allocate(bytes[0], {Int(end - begin)}, {1}, u8(), run.gpu);
  copy_bytes(address(bytes[0]), begin, end - begin, run);
  for (size_t i = first; i < last; ++i) {
    const Owned& owned = one.owned[i];
    const Layout layout(one.results[owned.index]);
    ok(aoti_torch__alloc_from_pool(bytes[0], static_cast<int64_t>(owned.begin - begin), layout.dtype, layout.rank, layout.sizes,
                                   layout.strides, &outputs[owned.index]), "a view");
  }
}

}  // namespace

void Graphs::replay(const Call& call, Recording& one) const {
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
