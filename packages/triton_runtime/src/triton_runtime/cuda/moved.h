// Operators that make their results: where addresses of these stand in what was queued, found by comparing two recordings.
//
// Included by `launcher.cpp`, into its namespace, after `queued.h`.

struct Range {
  std::uint64_t begin, other, bytes;  // of a result in either recording; of memory that is kept, `other` is unused

  bool has(std::uint64_t address) const { return address - begin < bytes; }
};

struct Ranges {
  Range items[256];
  std::int32_t count = 0;

  // From a tuple of tuples of as many numbers as `format` has; false with an error set.
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

bool is_alike(const QueuedLaunch& a, const QueuedLaunch& b) {
  if (a.kind != b.kind || a.function != b.function || a.byte_count != b.byte_count || a.param_count != b.param_count) return false;
  if (a.kind == Queued::Copy) return a.copy.bytes == b.copy.bytes;
  if (a.kind == Queued::Fill) {
    return a.fill.value == b.fill.value && a.fill.element_size == b.fill.element_size && a.fill.width == b.fill.width;
  }
  return std::memcmp(a.config.grid, b.config.grid, sizeof(a.config.grid)) == 0 &&
         std::memcmp(a.config.block, b.config.block, sizeof(a.config.block)) == 0 && a.config.shared == b.config.shared &&
         a.config.count == b.config.count && std::memcmp(a.attributes, b.attributes, sizeof(a.attributes)) == 0;
}

// What is known of the memory that two recordings of one call use.
struct Memory {
  Ranges results, kept, others;
};

// Whether a word differs as the distance between something and a result does.
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

// Whether it is known what a word is: the same in both recordings; an address in a result, which is noted in `l`, the second one; an address in memory
// that is kept; or nothing that depends on where memory is, which is a part of a structure that nobody has set.
bool explain(Launches* l, std::int32_t item, std::size_t offset, std::uint64_t first, std::uint64_t second, const Memory& memory) {
  const Ranges& results = memory.results;
  bool is_near = false;
  for (std::int32_t i = 0; i < results.count; ++i) {
    const Range& r = results.items[i];
    if (r.has(first) && first - r.begin == second - r.other) {
      l->moved[l->moved_count++] = {item, i, offset, first - r.begin};
      return true;
    }
    // in one of the two a result, or in both where a result ends and something else begins
    is_near |= r.has(first) || second - r.other < r.bytes || (first == r.begin + r.bytes && second == r.other + r.bytes);
  }
  if (first == second) return true;
  if (is_near) return false;
  if (memory.kept.has(first) && memory.kept.has(second)) return true;
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
    if (!is_alike(a, b) || b.byte_count > kMostBytes || b.param_count > kMostParams) return false;
    const std::size_t count = b.kind == Queued::Kernel ? b.byte_count / 8 : b.kind == Queued::Fill ? 1 : 2;
    for (std::size_t word = 0; word < count; ++word) {
      if (!explain(l, i, word, *address_at(&a, a.bytes, word), *address_at(&b, b.bytes, word), memory)) return false;
    }
  }
  return true;
}

// Method of an operator: movable(first, second, results, kept, others, make) -> `second`, which from then on is launched for results that `make`
// gives, or None where the two recordings may differ by more than where these lie. `results` are (begin in the first, bytes, begin in the second),
// `kept` are (begin, bytes) of memory that stays the recordings' own, `others` that of others; make() gives a tuple: the operator's result, then a
// tensor at the begin of each.
PyObject* repeated_movable(PyObject*, PyObject* args) {
  PyObject *first, *second, *results, *kept, *others, *make;
  Memory memory;
  if (!PyArg_ParseTuple(args, "O!O!O!O!O!O", launches_type, &first, launches_type, &second, &PyTuple_Type, &results, &PyTuple_Type, &kept,
                        &PyTuple_Type, &others, &make) ||
      !memory.results.read(results, "KKK") || !memory.kept.read(kept, "KK") || !memory.others.read(others, "KK")) {
    return nullptr;
  }
  Launches* l = reinterpret_cast<Launches*>(second);
  if (static_cast<std::size_t>(memory.results.count) > kMostStorages || !find_moved(l, *reinterpret_cast<Launches*>(first), memory)) Py_RETURN_NONE;
  l->storage_count = memory.results.count;
  PyObject* before = l->make;
  l->make = Py_NewRef(make);
  Py_XDECREF(before);
  return Py_NewRef(second);
}
