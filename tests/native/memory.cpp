// Counts allocations of calls, and lets each of them fail. The program's functions replace those of libc in all libraries.
#include <dlfcn.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <wrapper_ir/model.h>

#include <atomic>
#include <set>
#include <string>
#include <vector>

extern "C" {
void* __libc_malloc(size_t);
void* __libc_calloc(size_t, size_t);
void* __libc_realloc(void*, size_t);
void* __libc_memalign(size_t, size_t);
void __libc_free(void*);
}

namespace {

std::atomic<long> live{0}, count{0}, first_failure{-1};
std::atomic<bool> fails_once{true}, counts{false};

/// Returns whether an allocation fails. OpenMP's library ends the process if one of its own does.
bool fails(void* caller) {
  if (!counts) return false;
  Dl_info from{};
  if (dladdr(caller, &from) != 0 && strstr(from.dli_fname, "gomp") != nullptr) return false;
  const long number = count.fetch_add(1), first = first_failure;
  return first >= 0 && (fails_once ? number == first : number >= first);
}

void* counted(void* made) {
  if (made != nullptr) ++live;
  return made;
}

}  // namespace

extern "C" {
void* malloc(size_t n) { return fails(__builtin_return_address(0)) ? nullptr : counted(__libc_malloc(n)); }
void* calloc(size_t n, size_t of) { return fails(__builtin_return_address(0)) ? nullptr : counted(__libc_calloc(n, of)); }
void* realloc(void* old, size_t n) {
  if (fails(__builtin_return_address(0))) return nullptr;
  return old == nullptr ? counted(__libc_realloc(old, n)) : __libc_realloc(old, n);
}
int posix_memalign(void** made, size_t to, size_t n) {
  if (fails(__builtin_return_address(0))) return ENOMEM;
  *made = counted(__libc_memalign(to, n));
  return *made == nullptr ? ENOMEM : 0;
}
void* aligned_alloc(size_t to, size_t n) { return fails(__builtin_return_address(0)) ? nullptr : counted(__libc_memalign(to, n)); }
void free(void* memory) {
  if (memory != nullptr) --live;
  __libc_free(memory);
}
}

namespace {

const wir_api* api;

[[noreturn]] void stop(const char* what) {
  printf("%s: %s\n", what, api->last_error());
  exit(1);
}

wir_model* open_model() {
  wir_model* model = nullptr;
  if (api->open(nullptr, &model) != 0) stop("open");
  return model;
}

/// A tensor of floats for an input or a result, with `rows` for sizes that are not fixed.
struct Value {
  DLTensor tensor{};
  std::vector<int64_t> sizes;
  float* data = nullptr;
  size_t nbytes = sizeof(float);
  Value(const wir_value& of, int64_t rows) {
    for (int32_t i = 0; i < of.ndim; ++i) sizes.push_back(of.shape[i] < 0 ? rows : of.shape[i]);
    for (const int64_t size : sizes) nbytes *= static_cast<size_t>(size);
    data = static_cast<float*>(aligned_alloc(64, (nbytes + 63) / 64 * 64));
    for (size_t i = 0; i < nbytes / sizeof(float); ++i) data[i] = static_cast<float>(i % 13) - 6;
    tensor = wir_tensor(data, wir_float32(), of.ndim, sizes.data());
  }
  Value(const Value&) = delete;
  ~Value() { free(data); }
};

/// The inputs and results of a call.
class Call {
 public:
  explicit Call(int64_t rows) {
    const wir_description* about = api->description();
    for (size_t i = 0; i < about->num_inputs; ++i) inputs_.push_back(&(new Value(about->inputs[i], rows))->tensor);
    for (size_t i = 0; i < about->num_results; ++i) {
      values_.push_back(new Value(about->results[i], rows));
      results_.push_back(&values_.back()->tensor);
    }
    made_.resize(results_.size());
  }
  int32_t run_into(wir_model* model) {
    return api->run_into(model, inputs_.data(), inputs_.size(), results_.data(), results_.size());
  }
  int32_t run(wir_model* model) {
    const int32_t error = api->run(model, inputs_.data(), inputs_.size(), made_.data(), made_.size());
    for (size_t i = 0; error == 0 && i < made_.size(); ++i) memcpy(values_[i]->data, made_[i]->dl_tensor.data, values_[i]->nbytes);
    for (DLManagedTensorVersioned* one : made_) {
      if (one != nullptr) one->deleter(one);
    }
    return error;
  }
  std::string bytes() const {
    std::string all;
    for (const Value* value : values_) all.append(reinterpret_cast<const char*>(value->data), value->nbytes);
    return all;
  }

 private:
  std::vector<const DLTensor*> inputs_, results_;
  std::vector<Value*> values_;
  std::vector<DLManagedTensorVersioned*> made_;
};

std::set<std::string> codes;

/// Lets each allocation of an action fail, alone or with all later ones. Returns the number of failed actions.
template <class Action, class Check> int fail_each(const Action& action, const Check& check) {
  int failed = 0;
  for (const bool once : {true, false}) {
    for (long number = 0;; ++number) {
      count = 0, fails_once = once, first_failure = number, counts = true;
      const int32_t error = action();
      counts = false, first_failure = -1;
      if (error != 0) {
        ++failed;
        codes.insert(std::string(api->last_error()).substr(0, 8));
      }
      check(error);
      if (count <= number) break;
    }
  }
  return failed;
}

void check_calls(int64_t rows) {
  Call call(rows);
  wir_model* model = open_model();
  for (int i = 0; i < 3; ++i) {
    if (call.run_into(model) != 0) stop("run_into");
  }
  const std::string want = call.bytes();
  counts = true;
  for (int i = 0; i < 100; ++i) call.run_into(model);
  counts = false;
  printf("allocations %ld\n", count.load());
  api->close(model);
  const auto check = [&](int32_t error) {
    if (error == 0 && call.bytes() != want) stop("other results");
    if (call.run_into(model) != 0) stop("the next call");
    if (call.bytes() != want) stop("other results of the next call");
    api->close(model);
    model = open_model();
  };
  long before = 0;
  for (int pass = 0; pass < 2; ++pass) {  // the first one creates what the process keeps
    before = live;
    model = open_model();
    const int into = fail_each([&] { return call.run_into(model); }, check);
    const int own = fail_each([&] { return call.run(model); }, check);
    api->close(model);
    const int opened = fail_each([&] { return api->open(nullptr, &model); }, [&](int32_t error) {
      if (error == 0) api->close(model);
    });
    if (pass == 1) printf("failures %d\n", into > 0 && own > 0 && opened > 0);
  }
  printf("kept %ld\n", live - before);
}

}  // namespace

int main(int words, char** word) {
  void* library = dlopen(word[1], RTLD_NOW | RTLD_LOCAL);
  if (library == nullptr || words < 3) return puts(dlerror()), 2;
  wir_get_api_function get_api;
  *reinterpret_cast<void**>(&get_api) = dlsym(library, "wir_get_api");
  api = get_api(WIR_ABI);
  check_calls(atoll(word[2]));
  for (const std::string& code : codes) puts(code.c_str());
}
