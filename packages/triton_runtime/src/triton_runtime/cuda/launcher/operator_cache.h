// The cache of an operator's calls: from the arguments and settings of a call to its recording.
#pragma once

#include "kernel.h"
#include "relocation.h"

namespace {

constexpr std::int32_t kMostWords = 160, kWays = 8;

// A cache key of a call: addresses and layouts of its tensors, and everything else that its launches depend
// on.
struct Key {
  std::int64_t words[kMostWords];
  std::int32_t count;
  std::uint64_t hash;

  bool add(std::int64_t word) {
    if (count == kMostWords) return false;
    words[count++] = word;
    hash = (hash ^ static_cast<std::uint64_t>(word)) * 0x9e3779b97f4a7c15ULL;
    hash ^= hash >> 29;
    return true;
  }
};

struct Entry {
  std::int64_t* words;  // null: the entry is empty
  std::int32_t count;
  std::uint64_t hash, used;
  PyObject* launches;  // null: called once; None: cannot be recorded
};

struct Repeated {
  PyObject_HEAD
  Vectorcall call;
  const Api* api;
  GraphApi graphs;
  void* context;
  std::int32_t device_type, device_index;
  StreamSource stream;
  PyObject *driver, *function, *record, *settings, *watchers, *failed;
  Py_ssize_t setting_count, watcher_count;
  Entry* entries;
  std::uint64_t sets, clock;
  std::int64_t remaining;  // remaining recordings
  int makes_results;       // otherwise its last argument is its result
};

bool add_tensor(const Repeated& r, PyObject* o, Key* key) {
  Facts f{};
  std::int64_t rank = 0, *sizes = nullptr, *strides = nullptr;
  if (torch.offset == 0) return false;
  void* handle = handle_of(o);
  constexpr int kHost = 0, kComplexHalf = 8, kComplexDouble = 10;
  if (torch.data_ptr(handle, &f.data) != 0 || f.data == nullptr || !read_facts(o, &f)) return false;
  if (r.makes_results && f.device_type == kHost && r.device_type != kHost)
    f.data = nullptr;  // no kernel reads it
  else if (f.device_type != r.device_type || f.device_index != r.device_index)
    return false;
  if ((f.dtype >= kComplexHalf && f.dtype <= kComplexDouble) || torch.dim(handle, &rank) != 0 ||
      torch.sizes(handle, &sizes) != 0 || torch.strides(handle, &strides) != 0 ||
      !key->add(static_cast<std::int64_t>(f.dtype) << 8 | rank) ||
      !key->add(reinterpret_cast<std::intptr_t>(f.data))) {
    return false;
  }
  for (std::int64_t i = 0; i < rank; ++i) {
    if (!key->add(sizes[i]) || !key->add(strides[i])) return false;
  }
  return true;
}

// False for arguments of other types, which only torch can handle.
bool add_argument(const Repeated& r, PyObject* o, Key* key) {
  if (Py_TYPE(o) == torch.tensor || Py_TYPE(o) == torch.parameter) return add_tensor(r, o, key);
  if (Py_TYPE(o) == &PyFloat_Type) {
    const double value = PyFloat_AsDouble(o);
    std::int64_t word = 0;
    std::memcpy(&word, &value, sizeof(word));
    return key->add(-1) && key->add(word);
  }
  if (o == Py_None) return key->add(-4);
  if (Py_TYPE(o) == &PyList_Type) {
    bool fine = key->add(-5) && key->add(PyList_Size(o));
    for (Py_ssize_t i = 0; fine && i < PyList_Size(o); ++i) fine = add_argument(r, PyList_GetItem(o, i), key);
    return fine;
  }
  if (Py_TYPE(o) != &PyLong_Type && Py_TYPE(o) != &PyBool_Type) return false;
  int overflow = 0;
  const long long value = PyLong_AsLongLongAndOverflow(o, &overflow);
  return overflow == 0 && key->add(Py_TYPE(o) == &PyLong_Type ? -2 : -3) && key->add(value);
}

// True if a dispatch mode or similar observes calls of torch, or if that is unknown.
bool is_watched(const Repeated& r) {
  for (Py_ssize_t i = 0; i < r.watcher_count; ++i) {
    PyObject* value = PyObject_CallNoArgs(PyTuple_GetItem(r.watchers, i));
    const int is_true = value == nullptr ? -1 : PyObject_IsTrue(value);
    Py_XDECREF(value);
    if (is_true != 0) {
      PyErr_Clear();
      return true;
    }
  }
  return false;
}

// Adds torch's settings, bools or tuples of them; false if one cannot be read.
bool add_settings(const Repeated& r, Key* key) {
  for (Py_ssize_t i = 0; i < r.setting_count; ++i) {
    PyObject* value = PyObject_CallNoArgs(PyTuple_GetItem(r.settings, i));
    const Py_hash_t hash = value == nullptr    ? -1
                           : value == Py_True  ? 1
                           : value == Py_False ? 0
                                               : PyObject_Hash(value);
    Py_XDECREF(value);
    if (hash == -1) {
      PyErr_Clear();
      return false;
    }
    if (!key->add(hash)) return false;
  }
  return true;
}

bool read_key(const Repeated& r, PyObject* const* args, Py_ssize_t count, PyObject* names, void* stream,
              Key* key) {
  const Py_ssize_t name_count = names == nullptr ? 0 : PyTuple_Size(names);
  key->count = 0;
  key->hash = 0;
  bool fine = !is_watched(r) && add_settings(r, key) && key->add(reinterpret_cast<std::intptr_t>(stream)) &&
              key->add(count);
  for (Py_ssize_t i = 0; fine && i < name_count; ++i)
    fine = key->add(reinterpret_cast<std::intptr_t>(PyTuple_GetItem(names, i)));
  for (Py_ssize_t i = 0; fine && i < count + name_count; ++i) fine = add_argument(r, args[i], key);
  return fine;
}

Entry* set_of(const Repeated& r, const Key& key) { return &r.entries[(key.hash % r.sets) * kWays]; }

Entry* find(Repeated& r, const Key& key) {
  Entry* const begin = set_of(r, key);
  for (Entry* one = begin; one != begin + kWays; ++one) {
    if (one->hash == key.hash && one->count == key.count && one->words != nullptr &&
        std::memcmp(one->words, key.words, static_cast<std::size_t>(key.count) * sizeof(std::int64_t)) == 0) {
      one->used = ++r.clock;
      return one;
    }
  }
  return nullptr;
}

void forget(Entry* one) {
  PyMem_Free(one->words);
  PyObject* launches = one->launches;
  *one = Entry{};
  Py_XDECREF(launches);
}

// Replaces the least recently used entry.
void remember(Repeated& r, const Key& key) {
  Entry* const begin = set_of(r, key);
  Entry* oldest = begin;
  for (Entry* one = begin; one != begin + kWays; ++one) {
    if (one->used < oldest->used) oldest = one;
  }
  forget(oldest);
  const std::size_t bytes = static_cast<std::size_t>(key.count) * sizeof(std::int64_t);
  oldest->words = static_cast<std::int64_t*>(PyMem_Malloc(bytes));
  if (oldest->words == nullptr) return;
  std::memcpy(oldest->words, key.words, bytes);
  oldest->count = key.count;
  oldest->hash = key.hash;
  oldest->used = ++r.clock;
}

}  // namespace
