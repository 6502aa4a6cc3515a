// Operators of a library whose launches are repeated: torch is asked once what an operator queues for tensors at these addresses,
// on a stream that is recorded, and from then on its kernels are launched as the launcher's own are.
//
// Included by `launcher.cpp`, into its namespace, after `queued.h` and `moved.h`.

constexpr std::int32_t kMostWords = 160, kWays = 8;

// One call as numbers: where its tensors lie, how, and all else that its launches depend on.
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

struct Known {
  std::int64_t* words;  // null: nothing is known here
  std::int32_t count;
  std::uint64_t hash, used;
  PyObject* launches;  // null: it was called once; None: it cannot be repeated
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
  Known* known;
  std::uint64_t sets, clock;
  std::int64_t left;  // recordings that it may still make
  int makes_results;  // else its last argument is its result
};

bool add_tensor(const Repeated& r, PyObject* o, Key* key) {
  Facts f{};
  std::int64_t rank = 0, *sizes = nullptr, *strides = nullptr;
  if (torch.offset == 0) return false;
  void* handle = handle_of(o);
  constexpr int kHost = 0, kComplexHalf = 8, kComplexDouble = 10;
  if (torch.data_ptr(handle, &f.data) != 0 || f.data == nullptr || !read_facts(o, &f)) return false;
  if (r.makes_results && f.device_type == kHost && r.device_type != kHost) f.data = nullptr;  // no kernel sees it
  else if (f.device_type != r.device_type || f.device_index != r.device_index) return false;
  if ((f.dtype >= kComplexHalf && f.dtype <= kComplexDouble) || torch.dim(handle, &rank) != 0 ||
      torch.sizes(handle, &sizes) != 0 || torch.strides(handle, &strides) != 0 ||
      !key->add(static_cast<std::int64_t>(f.dtype) << 8 | rank) || !key->add(reinterpret_cast<std::intptr_t>(f.data))) {
    return false;
  }
  for (std::int64_t i = 0; i < rank; ++i) {
    if (!key->add(sizes[i]) || !key->add(strides[i])) return false;
  }
  return true;
}

// False: arguments of another kind, which only torch understands.
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

// Whether somebody watches what torch is asked for, or that cannot be told.
bool is_watched(const Repeated& r) {
  for (Py_ssize_t i = 0; i < r.watcher_count; ++i) {
    PyObject* found = PyObject_CallNoArgs(PyTuple_GetItem(r.watchers, i));
    const int is_true = found == nullptr ? -1 : PyObject_IsTrue(found);
    Py_XDECREF(found);
    if (is_true != 0) {
      PyErr_Clear();
      return true;
    }
  }
  return false;
}

// What torch's settings say, bools or tuples of them; false where one cannot be told.
bool add_settings(const Repeated& r, Key* key) {
  for (Py_ssize_t i = 0; i < r.setting_count; ++i) {
    PyObject* found = PyObject_CallNoArgs(PyTuple_GetItem(r.settings, i));
    const Py_hash_t hash = found == nullptr ? -1 : found == Py_True ? 1 : found == Py_False ? 0 : PyObject_Hash(found);
    Py_XDECREF(found);
    if (hash == -1) {
      PyErr_Clear();
      return false;
    }
    if (!key->add(hash)) return false;
  }
  return true;
}

bool read_key(const Repeated& r, PyObject* const* args, Py_ssize_t count, PyObject* names, void* stream, Key* key) {
  const Py_ssize_t named = names == nullptr ? 0 : PyTuple_Size(names);
  key->count = 0;
  key->hash = 0;
  bool fine = !is_watched(r) && add_settings(r, key) && key->add(reinterpret_cast<std::intptr_t>(stream)) && key->add(count);
  for (Py_ssize_t i = 0; fine && i < named; ++i) fine = key->add(reinterpret_cast<std::intptr_t>(PyTuple_GetItem(names, i)));
  for (Py_ssize_t i = 0; fine && i < count + named; ++i) fine = add_argument(r, args[i], key);
  return fine;
}

Known* set_of(const Repeated& r, const Key& key) { return &r.known[(key.hash % r.sets) * kWays]; }

Known* find(Repeated& r, const Key& key) {
  Known* const begin = set_of(r, key);
  for (Known* one = begin; one != begin + kWays; ++one) {
    if (one->hash == key.hash && one->count == key.count && one->words != nullptr &&
        std::memcmp(one->words, key.words, static_cast<std::size_t>(key.count) * sizeof(std::int64_t)) == 0) {
      one->used = ++r.clock;
      return one;
    }
  }
  return nullptr;
}

void forget(Known* one) {
  PyMem_Free(one->words);
  PyObject* launches = one->launches;
  *one = Known{};
  Py_XDECREF(launches);
}

// Takes the place of what was used least lately.
void remember(Repeated& r, const Key& key) {
  Known* const begin = set_of(r, key);
  Known* oldest = begin;
  for (Known* one = begin; one != begin + kWays; ++one) {
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

PyObject* call_torch(const Repeated& r, PyObject* const* args, Py_ssize_t count, PyObject* names) {
  return PyObject_Vectorcall(r.function, args, static_cast<std::size_t>(count), names);
}

// Asks Python, which calls the operator in a recording, once for each call that is known; false with an error set. Where the operator makes its
// results, Python has called it besides, and gives a tuple: what was recorded, and these `results`.
bool record(Repeated& r, const Key& key, PyObject* const* args, Py_ssize_t count, PyObject* names, PyObject** results) {
  PyObject* made = r.left == 0 ? Py_NewRef(Py_None) : PyObject_Vectorcall(r.record, args, static_cast<std::size_t>(count), names);
  if (made == nullptr) return false;
  r.left -= r.left == 0 ? 0 : 1;
  if (r.makes_results && PyTuple_Check(made)) {
    PyObject *pair = made, *second = PyTuple_GetItem(pair, 1);
    made = second == nullptr ? nullptr : Py_NewRef(PyTuple_GetItem(pair, 0));
    if (made != nullptr) *results = Py_NewRef(second);
    Py_DECREF(pair);
    if (made == nullptr) return false;
  }
  Known* place = find(r, key);  // Python may have called this operator again
  if (place != nullptr && place->launches == nullptr && (made == Py_None || Py_TYPE(made) == launches_type)) {
    place->launches = Py_NewRef(made);
  }
  Py_DECREF(made);
  return true;
}

[[gnu::cold]] PyObject* repeat_failed(const Repeated& r, Result status) {
  const char *name = nullptr, *text = nullptr;
  r.api->GetErrorName(status, &name);
  r.api->GetErrorString(status, &text);
  PyObject* done = PyObject_CallFunction(r.failed, "iss", status, name ? name : "unknown", text ? text : "");
  if (done != nullptr) {
    Py_DECREF(done);
    PyErr_SetString(PyExc_SystemError, "nobody explained a launch that failed");
  }
  return nullptr;
}

// What `launches.make` gives, and where each of its storages begins; null with an error set.
PyObject* make_results(const Launches& launches, std::uint64_t* begins) {
  PyObject* made = PyObject_CallNoArgs(launches.make);
  if (made == nullptr) return nullptr;
  bool fine = PyTuple_Check(made) && PyTuple_Size(made) == launches.storage_count + 1;
  for (std::int32_t i = 0; fine && i < launches.storage_count; ++i) {
    void* data = nullptr;
    PyObject* begin = PyTuple_GetItem(made, i + 1);
    fine = Py_TYPE(begin) == torch.tensor && torch.data_ptr(handle_of(begin), &data) == 0 && data != nullptr;
    begins[i] = reinterpret_cast<std::uintptr_t>(data);
  }
  if (fine) return made;
  Py_DECREF(made);
  PyErr_SetString(PyExc_SystemError, "the results of an operator are not what they were when it was recorded");
  return nullptr;
}

PyObject* repeated_call(PyObject* self, PyObject* const* args, std::size_t flags, PyObject* names) {
  Repeated& r = *reinterpret_cast<Repeated*>(self);
  const Py_ssize_t count = count_of(flags);
  void* stream = nullptr;
  int capturing = 0;
  Key key;
  if (!r.stream.current(&stream)) return nullptr;
  if (r.graphs.StreamIsCapturing(stream, &capturing) != 0 || capturing != 0 ||
      !read_key(r, args, count, names, stream, &key)) {
    return call_torch(r, args, count, names);
  }
  Known* known = find(r, key);
  if (known == nullptr) {
    remember(r, key);
    return call_torch(r, args, count, names);
  }
  if (known->launches == nullptr) [[unlikely]] {
    PyObject* results = nullptr;
    if (!record(r, key, args, count, names, &results)) return nullptr;
    if (results != nullptr) return results;
    known = find(r, key);
  }
  if (known == nullptr || known->launches == nullptr || known->launches == Py_None) [[unlikely]] {
    return call_torch(r, args, count, names);
  }
  PyObject* kept = Py_NewRef(known->launches);  // others may run while the lock is given away
  const Launches& launches = *reinterpret_cast<Launches*>(kept);
  std::uint64_t begins[kMostStorages];
  PyObject* made = nullptr;
  if (launches.make != nullptr && (made = make_results(launches, begins)) == nullptr) return Py_DECREF(kept), nullptr;
  Result status = 0;
  Py_BEGIN_ALLOW_THREADS
  status = launch_queued(launches, begins, stream);
  Py_END_ALLOW_THREADS
  const Py_ssize_t all = count + (names == nullptr ? 0 : PyTuple_Size(names));
  PyObject* result = Py_NewRef(made == nullptr ? args[all - 1] : PyTuple_GetItem(made, 0));
  Py_DECREF(kept);
  Py_XDECREF(made);
  if (status == 0) [[likely]] return result;
  Py_DECREF(result);
  return repeat_failed(r, status);
}

void repeated_dealloc(PyObject* self) {
  Repeated* r = reinterpret_cast<Repeated*>(self);
  for (std::uint64_t i = 0; r->known != nullptr && i < r->sets * kWays; ++i) forget(&r->known[i]);
  PyMem_Free(r->known);
  PyObject* const owned[] = {r->driver, r->function, r->record, r->settings, r->watchers, r->failed, r->stream.function, r->stream.argument};
  for (PyObject* o : owned) Py_XDECREF(o);
  free_object(self);
}

bool retain_context(const Api& api, int ordinal, void** context) {
  int device = 0;
  if (api.DeviceGet(&device, ordinal) == 0 && api.DevicePrimaryCtxRetain(context, device) == 0) return true;
  PyErr_Format(PyExc_OSError, "CUDA device %d cannot be used", ordinal);
  return false;
}

// repeated(driver, graph functions, (ordinal, device type, device index), (address, function) stream, operator, record, settings,
//          watchers, failed, calls, makes results) -> callable: takes the operator's arguments, the last of which is its result unless it makes
//          its own. It holds what four times as many calls queue.
PyObject* repeated(PyObject*, PyObject* args) {
  PyObject *driver, *graphs, *stream, *function, *record, *settings, *watchers, *failed;
  unsigned long long address;
  int ordinal, type, index, calls, makes_results;
  if (!PyArg_ParseTuple(args, "OS(iii)(KO)OOO!O!Oip", &driver, &graphs, &ordinal, &type, &index, &address, &stream, &function, &record,
                        &PyTuple_Type, &settings, &PyTuple_Type, &watchers, &failed, &calls, &makes_results)) {
    return nullptr;
  }
  const Api* api = static_cast<const Api*>(PyCapsule_GetPointer(driver, kCapsule));
  PyObject* self = api == nullptr ? nullptr : PyType_GenericAlloc(repeated_type, 0);
  if (self == nullptr) return nullptr;
  Repeated& r = *reinterpret_cast<Repeated*>(self);
  r.call = repeated_call;
  r.api = api;
  r.driver = Py_NewRef(driver);
  r.function = Py_NewRef(function);
  r.record = Py_NewRef(record);
  r.settings = Py_NewRef(settings);
  r.setting_count = PyTuple_Size(settings);
  r.watchers = Py_NewRef(watchers);
  r.watcher_count = PyTuple_Size(watchers);
  r.failed = Py_NewRef(failed);
  r.device_type = type;
  r.device_index = index;
  r.makes_results = makes_results;
  r.sets = (4 * static_cast<std::uint64_t>(calls < 1 ? 1 : calls) + kWays - 1) / kWays + 1;
  r.left = static_cast<std::int64_t>(64 * r.sets * kWays);
  r.known = static_cast<Known*>(PyMem_Calloc(r.sets * kWays, sizeof(Known)));
  if (r.known == nullptr) PyErr_NoMemory();
  if (r.known == nullptr || !r.stream.set(address, stream, index) || !copy_functions(graphs, &r.graphs) ||
      !retain_context(*api, ordinal, &r.context)) {
    Py_DECREF(self);
    return nullptr;
  }
  return self;
}

// --- recordings

// new_stream(driver, graph functions, ordinal) -> a raw stream that nobody else has; raises OSError
PyObject* new_stream(PyObject*, PyObject* args) {
  PyObject *driver, *graphs;
  int ordinal;
  GraphApi functions{};
  void *context = nullptr, *stream = nullptr;
  if (!PyArg_ParseTuple(args, "OSi", &driver, &graphs, &ordinal) || !copy_functions(graphs, &functions)) return nullptr;
  const Api* api = static_cast<const Api*>(PyCapsule_GetPointer(driver, kCapsule));
  if (api == nullptr || !retain_context(*api, ordinal, &context)) return nullptr;
  if (const Result status = in_context(*api, context, [&] { return functions.StreamCreate(&stream, kNonBlocking); })) {
    return PyErr_Format(PyExc_OSError, "CUDA gives no stream: status %d", status);
  }
  return PyLong_FromVoidPtr(stream);
}

// Methods of an operator: begin(stream) records what is queued on it; end(stream) gives what that was, or None where it cannot be
// repeated: more than kernels, fills and copies one after the other, or what may not be recorded. Kernels' modules, and the memory that they
// use, have to stay.
PyObject* repeated_begin(PyObject* self, PyObject* number) {
  const Repeated& r = *reinterpret_cast<Repeated*>(self);
  void* stream = PyLong_AsVoidPtr(number);
  if (PyErr_Occurred() != nullptr) return nullptr;
  const auto begin = [&] { return r.graphs.StreamBeginCapture(stream, kRelaxed); };
  if (const Result status = in_context(*r.api, r.context, begin)) return repeat_failed(r, status);
  Py_RETURN_NONE;
}

PyObject* repeated_end(PyObject* self, PyObject* number) {
  const Repeated& r = *reinterpret_cast<Repeated*>(self);
  void *stream = PyLong_AsVoidPtr(number), *graph = nullptr;
  if (PyErr_Occurred() != nullptr) return nullptr;
  const auto end = [&] { return r.graphs.StreamEndCapture(stream, &graph); };
  if (in_context(*r.api, r.context, end) != 0 || graph == nullptr) Py_RETURN_NONE;
  PyObject* made = PyType_GenericAlloc(launches_type, 0);
  if (made == nullptr) return nullptr;
  Launches& l = *reinterpret_cast<Launches*>(made);
  l.api = r.api;
  l.graphs = r.graphs;
  l.context = r.context;
  const Result status = in_context(*r.api, r.context, [&] {
    const Result copied = copy_chain(&l, graph);
    r.graphs.GraphDestroy(graph);
    return copied;
  });
  if (status == 0) return made;
  Py_DECREF(made);
  Py_RETURN_NONE;
}
