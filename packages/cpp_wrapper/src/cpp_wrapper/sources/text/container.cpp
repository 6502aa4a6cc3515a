// A loaded program, and its constants: mapped, updated, swapped.
#include "gpu.h"

#include <sched.h>

#include <cstring>

namespace wir {

// --- errors

void Part::append_to(std::string& text) const {
  if (text_ != nullptr) {
    text += text_;
  } else {
    text += std::to_string(number_);
  }
}

std::string join(Parts parts) {
  std::string text;
  for (const Part& part : parts) part.append_to(text);
  return text;
}

std::string note(const char* message) { return *message ? join({" (", message, ")"}) : ""; }

void fail_text(const char* code, Parts parts) { throw Failure(join({"[", code, "] ", join(parts)})); }

namespace {
constexpr const char* kNoMemory = "[WIR927] allocation failed: no memory";

/// Stores the text of the exception that is handled.
[[gnu::cold]] void store_failure(const Run* run) {
  std::string text;
  try {
    throw;
  } catch (const Failure& error) {
    text = error.what();
  } catch (const std::bad_alloc&) {
    text = kNoMemory;
  } catch (const std::exception& error) {
    text = join({"[CPP406] ", error.what()});
  } catch (...) {
    text = "[CPP406] an error that is not a std::exception";
  }
  if (run != nullptr && *run->at) text += join({"\n  at ", run->at});
  store_error(text.c_str());
}
}  // namespace

int32_t guard(const Run* run, void (*body)(void*), void* state) noexcept {
  try {
    body(state);
    store_error("");
    return 0;
  } catch (...) {
    try {
      store_failure(run);
    } catch (...) {
      store_error(kNoMemory);
    }
  }
  report_failure(last_error());
  return 1;
}

// --- sets of constants

void Set::reset() {
  for (Bytes& part : bytes) drop(part.holder);
  bytes.clear();
  handles.reset();
  kept.reset();
}

namespace {

/// A tensor over bytes of the host. Compiled for speed: constants may be large.
[[gnu::hot]] void copy_bytes(Bytes& made, const unsigned char* source, size_t nbytes) {
  allocate(made.holder, {static_cast<int64_t>(nbytes)}, {1}, u8());
  void* target = data(made.holder);
  std::memcpy(target, source, nbytes);
  made.data = static_cast<unsigned char*>(target);
}

/// Copies bytes of the host to a device.
void move_to(Gpu gpu, Bytes& bytes, const Blob& blob) {
  Tensor host = take(bytes.holder);
  bytes.gpu = gpu;
  allocate(bytes.holder, {static_cast<int64_t>(blob.nbytes)}, {1}, u8(), gpu);
  copy(bytes.holder, host);
  drop(host);
}

/// Replaces bytes by a copy.
void make_own(Bytes& bytes, const Blob& blob) {
  if (blob.kind == Blob::kHost) {
    Bytes made = bytes;
    copy_bytes(made, bytes.data, blob.nbytes);
    drop(bytes.holder);
    bytes = made;
    return;
  }
  Tensor made = nullptr;
  ok(aoti_torch_clone_preserve_strides(bytes.holder, &made), "a copy");
  drop(bytes.holder);
  bytes.holder = made;
}

/// The first names of a list, as text.
class NameList {
 public:
  void add(const char* name) {
    if (count_ < 6) text_ += join({count_ == 0 ? "" : ", ", count_ == 5 ? "..." : name});
    ++count_;
  }
  void check(const char* message) const {
    if (count_ != 0) fail_text("CPP530", {message, text_});
  }

 private:
  std::string text_;
  int count_ = 0;
};

void check_value(const Constant& constant, Tensor held, Tensor given, bool is_borrowed) {
  const Handles original(1, constant.packing == nullptr ? nullptr : new_original(*constant.packing, held));
  const std::string found = tensor_text(given), want = tensor_text(constant.packing == nullptr ? held : original[0]);
  std::string type = found, expected = want;
  if (!is_borrowed || constant.packing != nullptr) {  // copied values may have any strides, and be on the host
    const size_t device = found.find(" on cpu");
    if (device != std::string::npos) type.replace(device, std::string::npos, want, want.find(" on "), std::string::npos);
    type = without_strides(type), expected = without_strides(want);
  }
  if (type != expected) fail_text("CPP530", {"constant ", constant.full_name, ": expected ", want, ", got ", found});
}

/// A copy of a constant as callers know it.
Tensor copy_of(const Constant& constant, const Set& set) {
  const Tensor held = set.handles[static_cast<size_t>(constant.handle)];
  if (constant.packing != nullptr) return unpack(*constant.packing, held);
  Tensor copied = nullptr;
  ok(aoti_torch_clone_preserve_strides(held, &copied), "a copy");
  return copied;
}

/// Raises CPP530 for values that do not match constants.
Changes changes_of(const Named& values, const Set& like, bool is_full, bool is_borrowed) {
  Changes changes(wir_program.blobs);
  std::unordered_multimap<std::string, const Constant*> known;
  std::vector<char> is_given(wir_program.handles);
  for (size_t i = 0; i < wir_program.constants; ++i) {
    const Constant& constant = wir_program.constant_table[i];
    known.emplace(constant.name, &constant);
    if (std::strcmp(constant.name, constant.full_name) != 0) known.emplace(constant.full_name, &constant);
  }
  NameList unknown, missing;
  for (const auto& [name, value] : values) {
    const auto [first, last] = known.equal_range(name);
    if (first == last) unknown.add(name.c_str());
    for (auto found = first; found != last; ++found) {
      const Constant& constant = *found->second;
      check_value(constant, like.handles[static_cast<size_t>(constant.handle)], value, is_borrowed);
      char& is_repeated = is_given[static_cast<size_t>(constant.handle)];
      if (constant.nbytes != 0 && !is_repeated) changes[static_cast<size_t>(constant.blob)].emplace_back(&constant, value);
      is_repeated = true;
    }
  }
  unknown.check("the program has no constants ");
  for (size_t i = 0; is_full && i < wir_program.constants; ++i) {
    const Constant& constant = wir_program.constant_table[i];
    if (!is_given[static_cast<size_t>(constant.handle)]) missing.add(constant.full_name);
  }
  missing.check("a full update lacks ");
  return changes;
}

}  // namespace

// --- a loaded program

namespace {
/// Enters a device during its lifetime.
struct Entered {
  Device* device;
  Run& run;
  Entered(Device* device, Run& run) : device(device), run(run) {}
  void enter() { if (device != nullptr) device->enter(run); }
  ~Entered() { if (device != nullptr) device->leave(run); }
};
}  // namespace

Container::Container(int32_t device) {
  require_instructions();
  file_ = constant_file();
  if (wir_program.gpu != nullptr) device_ = wir_program.gpu->open(*wir_program.gpu, device);
  Set& first = unused();
  fill(first, nullptr, {}, false);
  synchronize();
  active_ = &first;
}

Container::~Container() {
  synchronize();
  release_shared();
}

/// Waits for the device: queued work may read memory that will be freed, or write memory that others will read.
void Container::synchronize() {
  if (device_ != nullptr) device_->synchronize();
}

/// Fills `set` with the constants of `base`, or of the file if that is null, and changes.
void Container::fill(Set& set, const Set* base, const Changes& changes, bool is_borrowed) {
  set.version = ++versions_;
  set.bytes.resize(wir_program.blobs);
  set.handles.resize(wir_program.handles);
  set.kept.resize(wir_program.blobs);
  for (size_t i = 0; i < wir_program.blobs; ++i) {
    const Blob& blob = wir_program.blob_table[i];
    if (blob.kind == Blob::kImage) continue;
    Bytes& bytes = set.bytes[i];
    if (base != nullptr) {
      bytes = base->bytes[i];
      if (bytes.holder != nullptr) bytes.holder = same(bytes.holder);
    } else if (blob.kind == Blob::kDevice) {
      bytes = device_->constant(blob);
    } else {
      bytes.data = file_->bytes() + blob.offset;
      reads_file_ = reads_file_ || !blob.is_owned;
    }
    if (changes.empty() || changes[i].empty()) {
      if (base == nullptr && blob.is_owned) make_own(bytes, blob);
      if (bytes.is_borrowed) set.kept[i] = same(base->kept[i]);
      continue;
    }
    const auto& [constant, given] = changes[i].front();
    bytes.is_borrowed = is_borrowed && constant->packing == nullptr && constant->nbytes == blob.nbytes;
    if (!bytes.is_borrowed) {
      make_own(bytes, blob);
      continue;
    }
    drop(bytes.holder);
    set.kept[i] = same(given);
    bytes.data = static_cast<unsigned char*>(data(given));
    if (blob.kind == Blob::kDevice) bytes.holder = same(given);
  }
  wir_program.load(set.handles.data(), set.bytes.data());
  for (size_t i = 0; i < changes.size(); ++i) {
    if (set.bytes[i].is_borrowed) continue;
    for (const auto& [constant, given] : changes[i]) {
      const Tensor to = set.handles[static_cast<size_t>(constant->handle)];
      constant->packing == nullptr ? copy(to, given) : pack(*constant->packing, to, given);
    }
  }
}

Set& Container::acquire() {
  for (;;) {
    Set* found = active_.load();
    found->users.fetch_add(1);
    if (active_.load() == found) return *found;
    found->users.fetch_sub(1);  // an update replaced it
  }
}

void Container::run(Tensor* inputs, Tensor* outputs, Run& run) {
  struct Use {
    Set& set;
    ~Use() { set.users.fetch_sub(1); }
  } const use{acquire()};
  const Given given{inputs, wir_program.params};
  check_file();
  const NoGrad no_grad;
  Entered device(device_.get(), run);
  device.enter();
  const bool has_graphs = wir_program.gpu != nullptr && wir_program.gpu->replayables != 0;
  if (wir_program.persistent == 0 && !has_graphs) return wir_program.run(use.set.handles.data(), inputs, outputs, run);
  // a graph that captures a call may replay it at any time, on any stream
  const bool is_captured = device_ != nullptr && device_->is_captured(run);
  std::unique_ptr<Persistent> set = is_captured ? Spares::make(run) : spares_.take(run);
  run.persistent = set->handles.data();
  run.constants = use.set.version;
  run.graphs = is_captured ? nullptr : set->graphs.get();
  wir_program.run(use.set.handles.data(), inputs, outputs, run);
  if (!is_captured) spares_.give(std::move(set));
}

Set& Container::unused() {
  for (const auto& set : sets_) {
    if (set.get() != active_.load() && set.get() != inactive_ && set->users.load() == 0) {
      set->reset();
      return *set;
    }
  }
  sets_.push_back(std::make_unique<Set>());
  return *sets_.back();
}

void Container::retire(Set* old) {
  if (old == nullptr) return;
  while (old->users.load() != 0) sched_yield();
  synchronize();
  old->reset();
}

void Container::publish(Set& filled, bool is_inactive) {
  if (is_inactive) {
    Set* old = inactive_;
    inactive_ = &filled;
    retire(old);
  } else {
    retire(active_.exchange(&filled));
  }
}

void Container::update(const Named& values, bool is_inactive, bool is_full, bool is_borrowed) {
  const std::lock_guard<std::mutex> lock(updating_);
  check_file();
  const NoGrad no_grad;
  Set* active = active_.load();
  const Set* base = is_inactive && inactive_ != nullptr ? inactive_ : active;
  const Changes changes = changes_of(values, *active, is_full, is_borrowed);
  Set& filled = unused();
  fill(filled, base, changes, is_borrowed);
  synchronize();
  publish(filled, is_inactive);
}

void Container::update(const unsigned char* bytes) {
  const std::lock_guard<std::mutex> lock(updating_);
  Set& filled = unused();
  filled.version = ++versions_;
  filled.bytes.resize(wir_program.blobs);
  filled.handles.resize(wir_program.handles);
  for (size_t i = 0; i < wir_program.blobs; ++i) {
    const Blob& blob = wir_program.blob_table[i];
    if (blob.kind == Blob::kImage) continue;
    copy_bytes(filled.bytes[i], bytes + blob.offset, blob.nbytes);
    if (blob.kind == Blob::kDevice) move_to(device_->gpu, filled.bytes[i], blob);
  }
  synchronize();
  wir_program.load(filled.handles.data(), filled.bytes.data());
  publish(filled, false);
}

void Container::swap() {
  const std::lock_guard<std::mutex> lock(updating_);
  if (inactive_ == nullptr) fail("CPP531", "there is no second set of constants: update the inactive ones first");
  inactive_ = active_.exchange(inactive_);
}

void Container::free_inactive() {
  const std::lock_guard<std::mutex> lock(updating_);
  Set* old = inactive_;
  inactive_ = nullptr;
  retire(old);
}

const Set& Container::set_to_read(bool is_inactive) const {
  check_file();
  if (is_inactive && inactive_ == nullptr) fail("CPP531", "there is no second set of constants");
  return is_inactive ? *inactive_ : *active_.load();
}

Tensor Container::extract(const char* name, bool is_inactive) {
  const std::lock_guard<std::mutex> lock(updating_);
  const Set& set = set_to_read(is_inactive);
  for (size_t i = 0; i < wir_program.constants; ++i) {
    const Constant& constant = wir_program.constant_table[i];
    if (std::strcmp(constant.name, name) != 0 && std::strcmp(constant.full_name, name) != 0) continue;
    return copy_of(constant, set);
  }
  fail_text("CPP530", {"the program has no constants ", name});
}

void Container::extract(Named& found, bool is_inactive) {
  const std::lock_guard<std::mutex> lock(updating_);
  const Set& set = set_to_read(is_inactive);
  extracted_.reset();
  for (size_t i = 0; i < wir_program.constants; ++i) {
    const Constant& constant = wir_program.constant_table[i];
    const Tensor copied = copy_of(constant, set);
    extracted_.push_back(copied);
    found.insert_or_assign(constant.full_name, copied);
  }
}

}  // namespace wir
