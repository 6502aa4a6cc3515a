// Relocates recorded work to new results: compares two recordings to find the addresses of results in it.
#pragma once

#include "recording.h"

namespace {

struct Range {
  std::uint64_t begin, other, bytes;  // of a result in both recordings; `other` is unused for retained memory

  bool has(std::uint64_t address) const { return address - begin < bytes; }
};

struct Ranges {
  Range items[256];
  std::int32_t count = 0;

  // Reads a tuple of tuples of numbers; false with an error set.
  bool read(PyObject* rows, const char* format) {
    for (Py_ssize_t i = 0; i < PyTuple_Size(rows); ++i) {
      unsigned long long begin = 0, bytes = 0, other = 0;
      if (count == 256) return PyErr_SetString(PyExc_ValueError, "more than 256 pieces of memory"), false;
      if (!PyArg_ParseTuple(PyTuple_GetItem(rows, i), format, &begin, &bytes, &other)) return false;
      items[count++] = {begin, other, bytes};
    }
    return true;
  }
  bool has(std::uint64_t address) const {
    for (std::int32_t i = 0; i < count; ++i) {
      if (items[i].has(address)) return true;
    }
    return false;
  }
};

bool is_equivalent(const QueuedLaunch& a, const QueuedLaunch& b) {
  if (a.kind != b.kind || a.function != b.function || a.byte_count != b.byte_count ||
      a.param_count != b.param_count)
    return false;
  if (a.kind == Queued::Copy) return a.copy.bytes == b.copy.bytes;
  if (a.kind == Queued::Fill) {
    return a.fill.value == b.fill.value && a.fill.element_size == b.fill.element_size &&
           a.fill.width == b.fill.width;
  }
  return std::memcmp(a.config.grid, b.config.grid, sizeof(a.config.grid)) == 0 &&
         std::memcmp(a.config.block, b.config.block, sizeof(a.config.block)) == 0 &&
         a.config.shared == b.config.shared && a.config.count == b.config.count &&
         std::memcmp(a.attributes, b.attributes, sizeof(a.attributes)) == 0;
}

// The memory that two recordings of one call use.
struct Memory {
  Ranges results, retained, others;
};

// True if a word differs by the distance that a result moved relative to fixed memory or to another result.
bool is_distance(std::uint64_t difference, const Ranges& results) {
  for (std::int32_t i = 0; i < results.count; ++i) {
    const std::uint64_t moved = results.items[i].other - results.items[i].begin;
    if (difference == moved || difference == 0 - moved) return true;
    for (std::int32_t j = 0; j < results.count; ++j) {
      const std::uint64_t apart = moved - (results.items[j].other - results.items[j].begin);
      if (apart != 0 && difference == apart) return true;
    }
  }
  return false;
}

// Classifies a word; false if its meaning is unknown. A known word is equal in both recordings, an address in
// a result (added to `l`, the second recording), an address in retained memory, or independent of addresses:
// padding of a structure.
bool classify(Launches* l, std::int32_t item, std::size_t offset, std::uint64_t first, std::uint64_t second,
              const Memory& memory) {
  const Ranges& results = memory.results;
  bool is_near = false;
  for (std::int32_t i = 0; i < results.count; ++i) {
    const Range& r = results.items[i];
    if (r.has(first) && first - r.begin == second - r.other) {
      l->moved[l->moved_count++] = {item, i, offset, first - r.begin};
      return true;
    }
    // in a result in one recording only, or at the end of a result in both
    is_near |= r.has(first) || second - r.other < r.bytes ||
               (first == r.begin + r.bytes && second == r.other + r.bytes);
  }
  if (first == second) return true;
  if (is_near) return false;
  if (memory.retained.has(first) && memory.retained.has(second)) return true;
  return !is_distance(second - first, results) && !(memory.others.has(first) && memory.others.has(second));
}

bool find_moved(Launches* l, Launches& first, const Memory& memory) {
  std::size_t words = 0;
  for (std::int32_t i = 0; i < l->count; ++i) words += l->items[i].byte_count / 8 + 2;
  PyMem_Free(l->moved);
  l->moved_count = 0;
  l->moved = static_cast<Moved*>(PyMem_Calloc(words, sizeof(Moved)));
  if (l->moved == nullptr || first.count != l->count) return false;
  for (std::int32_t i = 0; i < l->count; ++i) {
    QueuedLaunch &a = first.items[i], &b = l->items[i];
    if (!is_equivalent(a, b) || b.byte_count > kMostBytes || b.param_count > kMostParams) return false;
    const std::size_t count = b.kind == Queued::Kernel ? b.byte_count / 8 : b.kind == Queued::Fill ? 1 : 2;
    for (std::size_t word = 0; word < count; ++word) {
      if (!classify(l, i, word, *address_at(&a, a.bytes, word), *address_at(&b, b.bytes, word), memory))
        return false;
    }
  }
  return true;
}

// Method of an operator: movable(first, second, results, retained, others, make) -> `second`, which is then
// launched for the results of `make`, or None if the recordings may differ by more than the addresses of
// results. `results` are (begin in the first, bytes, begin in the second). `retained` are (begin, bytes) of
// memory that the recordings own, `others` of any other memory. make() returns a tuple: the operator's
// result, then a tensor at the start of each storage.
PyObject* repeated_movable(PyObject*, PyObject* args) {
  PyObject *first, *second, *results, *retained, *others, *make;
  Memory memory;
  if (!PyArg_ParseTuple(args, "O!O!O!O!O!O", launches_type, &first, launches_type, &second, &PyTuple_Type,
                        &results, &PyTuple_Type, &retained, &PyTuple_Type, &others, &make) ||
      !memory.results.read(results, "KKK") || !memory.retained.read(retained, "KK") ||
      !memory.others.read(others, "KK")) {
    return nullptr;
  }
  Launches* l = reinterpret_cast<Launches*>(second);
  if (static_cast<std::size_t>(memory.results.count) > kMostStorages ||
      !find_moved(l, *reinterpret_cast<Launches*>(first), memory))
    Py_RETURN_NONE;
  l->storage_count = memory.results.count;
  PyObject* before = l->make;
  l->make = Py_NewRef(make);
  Py_XDECREF(before);
  return Py_NewRef(second);
}

}  // namespace
