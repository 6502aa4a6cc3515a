// Several launches in one call.
#pragma once

#include <type_traits>

#include "launch.h"

namespace {

struct Sequence {
  PyObject_HEAD
  Vectorcall call;
  PyObject* kernel_tuple;
  PyObject* constant_tuple;
  const Kernel** kernels;
  PyObject** constants;   // values that are not arguments of the call
  std::int32_t* indices;  // for each argument of each kernel: index into the call's values, then constants
  std::int32_t kernel_count, index_count, value_count;
  std::int32_t widest;
  std::size_t bytes;  // bytes of the values and parameters of all launches
  bool is_plain;      // no kernel uses scratch memory
};

constexpr std::size_t kStackBytes = 16 * 1024;

// Temporary buffers of a call.
struct Work {
  Ready* ready;
  Facts* facts;          // of each of the call's values that is a tensor and was read
  PyObject** arguments;  // of one launch
  Facts** cached;        // of those
};

// Looks up the current stream of each kernel's device, once for consecutive kernels of one device.
bool streams_of(const Sequence& s, void* const* stream, Ready* ready) {
  for (std::int32_t i = 0; i < s.kernel_count; ++i) {
    const Kernel &k = *s.kernels[i], &before = *s.kernels[i == 0 ? 0 : i - 1];
    const bool same = i > 0 && k.stream.is(before.stream);
    if (stream != nullptr || same) {
      ready[i].stream = stream != nullptr ? *stream : ready[i - 1].stream;
    } else if (!k.stream.current(&ready[i].stream)) [[unlikely]] {
      return false;
    }
  }
  return true;
}

bool read_launches(const Sequence& s, PyObject* const* args, char* buffer, const Work& work) {
  const std::int32_t* index = s.indices;
  for (std::int32_t i = 0; i < s.kernel_count; ++i) {
    const Kernel& k = *s.kernels[i];
    for (int j = 0; j < k.argument_count; ++j, ++index) {
      const bool is_given = *index < s.value_count;
      work.arguments[j] = is_given ? args[*index] : s.constants[*index - s.value_count];
      work.cached[j] = is_given ? &work.facts[*index] : nullptr;
    }
    place(k, buffer, &work.ready[i]);
    buffer += bytes_of(k);
    if (!read_arguments(k, work.arguments, work.cached, &work.ready[i])) [[unlikely]] {
      return false;
    }
  }
  return true;
}

// True without hooks and scratch memory, which both call Python.
bool is_native(const Sequence& s) {
  bool native = s.is_plain;
  for (std::int32_t i = 0; native && i < s.kernel_count; ++i) {
    const Hooks& h = *s.kernels[i]->hooks;
    native = (h.enter == nullptr || h.enter == Py_None) && (h.exit == nullptr || h.exit == Py_None);
  }
  return native;
}

bool launch_all(const Sequence& s, const Ready* ready) {
  if (!is_native(s)) {
    bool fine = true;
    for (std::int32_t i = 0; fine && i < s.kernel_count; ++i) {
      fine = ready[i].is_empty() || launch_ready(*s.kernels[i], ready[i]);
    }
    return fine;
  }
  Result status = 0;
  std::int32_t i = 0;
  Py_BEGIN_ALLOW_THREADS
  for (; i < s.kernel_count; ++i) {
    const Kernel& k = *s.kernels[i];
    if (!ready[i].is_empty() && (status = launch_anywhere(k, config_of(k, ready[i]), ready[i].params)) != 0)
        [[unlikely]] {
      break;
    }
  }
  Py_END_ALLOW_THREADS
  return status == 0 || driver_failed(*s.kernels[i], "launch", status);
}

bool run_sequence(const Sequence& s, PyObject* const* args, void* const* stream, char* buffer) {
  Work work;
  char* at = buffer + s.bytes;
  const auto take = [&at](auto** part, std::int32_t count) {
    *part = reinterpret_cast<std::remove_pointer_t<decltype(part)>>(at);
    at += static_cast<std::size_t>(count) * sizeof(**part);
  };
  take(&work.ready, s.kernel_count);
  take(&work.facts, s.value_count);
  take(&work.arguments, s.widest);
  take(&work.cached, s.widest);
  std::memset(work.facts, 0, static_cast<std::size_t>(s.value_count) * sizeof(Facts));
  return read_launches(s, args, buffer, work) && streams_of(s, stream, work.ready) &&
         launch_all(s, work.ready);
}

std::size_t work_of(const Sequence& s) {
  return s.bytes + static_cast<std::size_t>(s.kernel_count) * sizeof(Ready) +
         static_cast<std::size_t>(s.value_count) * sizeof(Facts) +
         static_cast<std::size_t>(s.widest) * 2 * sizeof(void*);
}

// Reads all arguments before the first launch.
PyObject* sequence_call(PyObject* self, PyObject* const* args, std::size_t flags, PyObject* kwnames) {
  const Sequence& s = *reinterpret_cast<Sequence*>(self);
  const Py_ssize_t count = count_of(flags);
  void* stream = nullptr;
  const bool has_stream = kwnames != nullptr && PyTuple_Size(kwnames) != 0;
  if (has_stream && !parse_stream(kwnames, args + count, &stream)) [[unlikely]] {
    return nullptr;
  }
  if (count != s.value_count) [[unlikely]] {
    return PyErr_Format(PyExc_TypeError, "a sequence of launches takes %d values, got %zd", s.value_count,
                        count);
  }
  const std::size_t bytes = work_of(s) + kLine;
  void* heap = bytes <= kStackBytes ? nullptr : PyMem_Malloc(bytes);
  if (heap == nullptr && bytes > kStackBytes) {
    return PyErr_NoMemory();
  }
  char* buffer = static_cast<char*>(aligned(heap == nullptr ? alloca(bytes) : heap));
  const bool fine = run_sequence(s, args, has_stream ? &stream : nullptr, buffer);
  PyMem_Free(heap);
  return fine ? Py_NewRef(Py_None) : nullptr;
}

void sequence_dealloc(PyObject* self) {
  Sequence* s = reinterpret_cast<Sequence*>(self);
  PyMem_Free(s->kernels);
  PyMem_Free(s->constants);
  PyMem_Free(s->indices);
  Py_XDECREF(s->kernel_tuple);
  Py_XDECREF(s->constant_tuple);
  free_object(self);
}

PyTypeObject* sequence_type;

bool check_sequence(Sequence& s) {
  std::int64_t argument_count = 0;
  s.is_plain = true;
  for (std::int32_t i = 0; i < s.kernel_count; ++i) {
    PyObject* kernel = PyTuple_GetItem(s.kernel_tuple, i);
    if (Py_TYPE(kernel) != kernel_type) {
      PyErr_Format(PyExc_TypeError, "not a loaded kernel: %R", Py_TYPE(kernel));
      return false;
    }
    const Kernel& k = *s.kernels[i];
    argument_count += k.argument_count;
    s.widest = k.argument_count > s.widest ? k.argument_count : s.widest;
    s.bytes += bytes_of(k);
    s.is_plain = s.is_plain && k.scratch[0] == 0 && k.profile[0] == 0;
  }
  const Py_ssize_t limit = s.value_count + PyTuple_Size(s.constant_tuple);
  bool fine = argument_count == s.index_count;
  for (std::int32_t i = 0; fine && i < s.index_count; ++i) {
    fine = s.indices[i] >= 0 && s.indices[i] < limit;
  }
  if (!fine) {
    PyErr_SetString(PyExc_ValueError, "the indices do not fit the kernels' arguments");
  }
  return fine;
}

// sequence(kernels, value count, constants, indices) -> callable
PyObject* sequence(PyObject*, PyObject* args) {
  PyObject *kernels, *constants, *indices;
  int values;
  if (!PyArg_ParseTuple(args, "O!iO!S", &PyTuple_Type, &kernels, &values, &PyTuple_Type, &constants,
                        &indices)) {
    return nullptr;
  }
  PyObject* self = PyType_GenericAlloc(sequence_type, 0);
  if (self == nullptr) {
    return nullptr;
  }
  Sequence& s = *reinterpret_cast<Sequence*>(self);
  s.call = sequence_call;
  s.kernel_tuple = Py_NewRef(kernels);
  s.constant_tuple = Py_NewRef(constants);
  s.value_count = values;
  std::int32_t constant_count = 0;
  s.kernels = items_of<const Kernel>(kernels, &s.kernel_count);
  s.constants = items_of<PyObject>(constants, &constant_count);
  if (s.kernels == nullptr || s.constants == nullptr || !copy_records(indices, &s.indices, &s.index_count) ||
      !check_sequence(s)) {
    Py_DECREF(self);
    return nullptr;
  }
  return self;
}

}  // namespace
