// Operators of a library that are recorded once and then launched by the launcher.
//
// torch executes an operator once on a captured stream for tensors at the given addresses. Later calls with
// the same addresses launch the recorded work directly.
#pragma once

#include "operator_cache.h"

namespace {

PyObject* call_torch(const Repeated& r, PyObject* const* args, Py_ssize_t count, PyObject* names) {
  return PyObject_Vectorcall(r.function, args, static_cast<std::size_t>(count), names);
}

// Records the operator through Python, once per cache entry; false with an error set. If the operator
// allocates its results, Python has also called it, and returns a tuple: the recording and these `results`.
bool record(Repeated& r, const Key& key, PyObject* const* args, Py_ssize_t count, PyObject* names,
            PyObject** results) {
  PyObject* recording = r.remaining == 0
                            ? Py_NewRef(Py_None)
                            : PyObject_Vectorcall(r.record, args, static_cast<std::size_t>(count), names);
  if (recording == nullptr) return false;
  r.remaining -= r.remaining == 0 ? 0 : 1;
  if (r.makes_results && PyTuple_Check(recording)) {
    PyObject *pair = recording, *second = PyTuple_GetItem(pair, 1);
    recording = second == nullptr ? nullptr : Py_NewRef(PyTuple_GetItem(pair, 0));
    if (recording != nullptr) *results = Py_NewRef(second);
    Py_DECREF(pair);
    if (recording == nullptr) return false;
  }
  Entry* place = find(r, key);  // Python may have called this operator recursively
  if (place != nullptr && place->launches == nullptr &&
      (recording == Py_None || Py_TYPE(recording) == launches_type)) {
    place->launches = Py_NewRef(recording);
  }
  Py_DECREF(recording);
  return true;
}

[[gnu::cold]] PyObject* repeat_failed(const Repeated& r, Result status) {
  const char *name = nullptr, *text = nullptr;
  r.api->GetErrorName(status, &name);
  r.api->GetErrorString(status, &text);
  PyObject* outcome =
      PyObject_CallFunction(r.failed, "iss", status, name ? name : "unknown", text ? text : "");
  if (outcome != nullptr) {
    Py_DECREF(outcome);
    PyErr_SetString(PyExc_SystemError, "`failed` did not raise for a failed launch");
  }
  return nullptr;
}

// Calls `launches.make`, and reads the start address of each storage; null with an error set.
PyObject* make_results(const Launches& launches, std::uint64_t* begins) {
  PyObject* results = PyObject_CallNoArgs(launches.make);
  if (results == nullptr) return nullptr;
  bool fine = PyTuple_Check(results) && PyTuple_Size(results) == launches.storage_count + 1;
  for (std::int32_t i = 0; fine && i < launches.storage_count; ++i) {
    void* data = nullptr;
    PyObject* begin = PyTuple_GetItem(results, i + 1);
    fine = Py_TYPE(begin) == torch.tensor && torch.data_ptr(handle_of(begin), &data) == 0 && data != nullptr;
    begins[i] = reinterpret_cast<std::uintptr_t>(data);
  }
  if (fine) return results;
  Py_DECREF(results);
  PyErr_SetString(PyExc_SystemError, "the results of an operator differ from those of its recording");
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
  Entry* entry = find(r, key);
  if (entry == nullptr) {
    remember(r, key);
    return call_torch(r, args, count, names);
  }
  if (entry->launches == nullptr) [[unlikely]] {
    PyObject* results = nullptr;
    if (!record(r, key, args, count, names, &results)) return nullptr;
    if (results != nullptr) return results;
    entry = find(r, key);
  }
  if (entry == nullptr || entry->launches == nullptr || entry->launches == Py_None) [[unlikely]] {
    return call_torch(r, args, count, names);
  }
  PyObject* owner = Py_NewRef(entry->launches);  // other threads may run while the lock is released
  const Launches& launches = *reinterpret_cast<Launches*>(owner);
  std::uint64_t begins[kMostStorages];
  PyObject* tuple = nullptr;
  if (launches.make != nullptr && (tuple = make_results(launches, begins)) == nullptr)
    return Py_DECREF(owner), nullptr;
  Result status = 0;
  Py_BEGIN_ALLOW_THREADS
  status = launch_queued(launches, begins, stream);
  Py_END_ALLOW_THREADS
  const Py_ssize_t all = count + (names == nullptr ? 0 : PyTuple_Size(names));
  PyObject* result = Py_NewRef(tuple == nullptr ? args[all - 1] : PyTuple_GetItem(tuple, 0));
  Py_DECREF(owner);
  Py_XDECREF(tuple);
  if (status == 0) [[likely]]
    return result;
  Py_DECREF(result);
  return repeat_failed(r, status);
}

void repeated_dealloc(PyObject* self) {
  Repeated* r = reinterpret_cast<Repeated*>(self);
  for (std::uint64_t i = 0; r->entries != nullptr && i < r->sets * kWays; ++i) forget(&r->entries[i]);
  PyMem_Free(r->entries);
  PyObject* const owned[] = {r->driver,   r->function, r->record,          r->settings,
                             r->watchers, r->failed,   r->stream.function, r->stream.argument};
  for (PyObject* o : owned) Py_XDECREF(o);
  free_object(self);
}

bool retain_context(const Api& api, int ordinal, void** context) {
  int device = 0;
  if (api.DeviceGet(&device, ordinal) == 0 && api.DevicePrimaryCtxRetain(context, device) == 0) return true;
  PyErr_Format(PyExc_OSError, "CUDA device %d cannot be used", ordinal);
  return false;
}

PyTypeObject* repeated_type;

// repeated(driver, graph functions, (ordinal, device type, device index), (address, function) stream,
//          operator, record, settings, watchers, failed, calls, makes results) -> callable
//
// The callable takes the operator's arguments, the last of which is its result unless it allocates results. It
// caches the recordings of four times `calls` calls.
PyObject* repeated(PyObject*, PyObject* args) {
  PyObject *driver, *graphs, *stream, *function, *record, *settings, *watchers, *failed;
  unsigned long long address;
  int ordinal, type, index, calls, makes_results;
  if (!PyArg_ParseTuple(args, "OS(iii)(KO)OOO!O!Oip", &driver, &graphs, &ordinal, &type, &index, &address,
                        &stream, &function, &record, &PyTuple_Type, &settings, &PyTuple_Type, &watchers,
                        &failed, &calls, &makes_results)) {
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
  r.remaining = static_cast<std::int64_t>(64 * r.sets * kWays);
  r.entries = static_cast<Entry*>(PyMem_Calloc(r.sets * kWays, sizeof(Entry)));
  if (r.entries == nullptr) PyErr_NoMemory();
  if (r.entries == nullptr || !r.stream.set(address, stream, index) || !copy_functions(graphs, &r.graphs) ||
      !retain_context(*api, ordinal, &r.context)) {
    Py_DECREF(self);
    return nullptr;
  }
  return self;
}

// --- recordings

// new_stream(driver, graph functions, ordinal) -> a new raw stream; raises OSError
PyObject* new_stream(PyObject*, PyObject* args) {
  PyObject *driver, *graphs;
  int ordinal;
  GraphApi functions{};
  void *context = nullptr, *stream = nullptr;
  if (!PyArg_ParseTuple(args, "OSi", &driver, &graphs, &ordinal) || !copy_functions(graphs, &functions))
    return nullptr;
  const Api* api = static_cast<const Api*>(PyCapsule_GetPointer(driver, kCapsule));
  if (api == nullptr || !retain_context(*api, ordinal, &context)) return nullptr;
  if (const Result status =
          in_context(*api, context, [&] { return functions.StreamCreate(&stream, kNonBlocking); })) {
    return PyErr_Format(PyExc_OSError, "cannot create a CUDA stream: status %d", status);
  }
  return PyLong_FromVoidPtr(stream);
}

// Methods of an operator: begin(stream) starts a capture; end(stream) returns the recording, or None if it
// cannot be launched again: it is not a linear sequence of kernels, fills and copies, or capture failed. The
// modules of kernels and the memory that they use must stay alive.
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
  PyObject* recording = PyType_GenericAlloc(launches_type, 0);
  if (recording == nullptr) return nullptr;
  Launches& l = *reinterpret_cast<Launches*>(recording);
  l.api = r.api;
  l.graphs = r.graphs;
  l.context = r.context;
  const Result status = in_context(*r.api, r.context, [&] {
    const Result copied = copy_chain(&l, graph);
    r.graphs.GraphDestroy(graph);
    return copied;
  });
  if (status == 0) return recording;
  Py_DECREF(recording);
  Py_RETURN_NONE;
}

}  // namespace
