// Launches a kernel: reads its arguments, calls hooks, and calls the driver without the interpreter's lock.
#pragma once

#include <alloca.h>

#include "arguments.h"
#include "grids.h"

namespace {

// Allocates scratch memory of the kernel; it may be freed once the launch is queued on its stream.
[[gnu::noinline]] bool scratch(const Kernel& k, const unsigned* grid, const std::int64_t* request,
                               void* stream, PyObject** owner, std::uint64_t* out) {
  const long long programs = static_cast<long long>(grid[0]) * grid[1] * grid[2];
  *owner = PyObject_CallFunction(k.allocate, "LLK", static_cast<long long>(request[0]) * programs,
                                 static_cast<long long>(request[1]),
                                 static_cast<unsigned long long>(reinterpret_cast<std::uintptr_t>(stream)));
  PyObject* number = *owner == nullptr ? nullptr : call_with(torch.method, *owner);
  *out = number == nullptr ? 0 : PyLong_AsUnsignedLongLong(number);
  Py_XDECREF(number);
  return PyErr_Occurred() == nullptr;
}

bool call_hook(const Kernel& k, PyObject* hook, const unsigned* grid, void* stream) {
  if (hook == nullptr || hook == Py_None) {
    return true;
  }
  PyObject* outcome =
      PyObject_CallFunction(hook, "O(III)K", &k, grid[0], grid[1], grid[2],
                            static_cast<unsigned long long>(reinterpret_cast<std::uintptr_t>(stream)));
  Py_XDECREF(outcome);
  return outcome != nullptr;
}

inline Result raw_launch(const Kernel& k, const Config& c, void** params) {
  return c.count == 0 ? k.api->LaunchKernel(k.function, c.grid[0], c.grid[1], c.grid[2], c.block[0], 1, 1,
                                            c.shared, c.stream, params, nullptr)
                      : k.api->LaunchKernelEx(&c, k.function, params, nullptr);
}

Result launch_anywhere(const Kernel& k, const Config& config, void** params) {
  return launch_anywhere(*k.api, k.context, [&] { return raw_launch(k, config, params); });
}

// A prepared launch: its grid, its stream, and buffers for its values and for pointers to its parameters.
struct Ready {
  unsigned grid[3];
  void* stream;
  std::uint64_t* values;
  void** params;

  bool is_empty() const { return grid[0] == 0 || grid[1] == 0 || grid[2] == 0; }
};

// Alignment of the values of a launch: tensor maps need 64 bytes.
constexpr std::size_t kLine = 64;

std::size_t bytes_of(const Kernel& k) {
  const std::size_t words = static_cast<std::size_t>(k.value_count) + static_cast<std::size_t>(k.param_count);
  return (words * sizeof(std::uint64_t) + kLine - 1) & ~(kLine - 1);
}

void* aligned(void* buffer) {
  return reinterpret_cast<void*>((reinterpret_cast<std::uintptr_t>(buffer) + kLine - 1) & ~(kLine - 1));
}

void place(const Kernel& k, void* buffer, Ready* ready) {
  ready->values = static_cast<std::uint64_t*>(buffer);
  ready->params = reinterpret_cast<void**>(ready->values + k.value_count);
  for (int i = 0; i < k.param_count; ++i) {
    ready->params[i] = &ready->values[k.params[i]];
  }
  ready->values[k.value_count - 2] = ready->values[k.value_count - 1] = 0;
}

Config config_of(const Kernel& k, const Ready& ready) {
  Config config = k.config;
  config.grid[0] = ready.grid[0] * static_cast<unsigned>(k.num_ctas);
  config.grid[1] = ready.grid[1];
  config.grid[2] = ready.grid[2];
  config.stream = ready.stream;
  return config;
}

bool launch_ready(const Kernel& k, const Ready& ready) {
  PyObject* owners[2] = {nullptr, nullptr};
  std::uint64_t* own = ready.values + k.value_count - 2;
  bool fine = (k.scratch[0] == 0 || scratch(k, ready.grid, k.scratch, ready.stream, &owners[0], &own[0])) &&
              (k.profile[0] == 0 || scratch(k, ready.grid, k.profile, ready.stream, &owners[1], &own[1]));
  fine = fine && call_hook(k, k.hooks->enter, ready.grid, ready.stream);
  if (fine) {
    const Config config = config_of(k, ready);
    Result status = 0;
    Py_BEGIN_ALLOW_THREADS
    status = launch_anywhere(k, config, ready.params);
    Py_END_ALLOW_THREADS
    fine = status == 0 ? call_hook(k, k.hooks->exit, ready.grid, ready.stream)
                       : driver_failed(k, "launch", status);
  }
  Py_XDECREF(owners[0]);
  Py_XDECREF(owners[1]);
  return fine;
}

// Reads the arguments of a launch. `cached` has a cache for each argument (see `address`), or is null. Not
// inlined, because it allocates on the stack and a sequence calls it in a loop.
[[gnu::noinline]] bool read_arguments(const Kernel& k, PyObject* const* args, Facts* const* cached,
                                      Ready* ready) {
  if (k.function == nullptr) [[unlikely]] {
    return explain(k, "unloaded", 0, Py_None);
  }
  const int n = k.slot_count;
  std::int64_t* numbers = static_cast<std::int64_t*>(
      alloca(static_cast<std::size_t>(k.argument_count + 1) * sizeof(std::int64_t)));
  for (int i = 0; i < n; ++i) {
    const Slot& slot = k.slots[i];
    PyObject* o = args[slot.position];
    std::uint64_t* value = &ready->values[slot.value];
    if (slot.kind == Kind::Pointer) [[likely]] {
      if (!address(k, slot, o, cached == nullptr ? nullptr : cached[slot.position], value)) [[unlikely]] {
        return false;
      }
    } else if (slot.kind == Kind::Descriptor) {
      if (!describe_tensor(k, slot, o, value)) [[unlikely]] {
        return false;
      }
    } else if (slot.kind <= Kind::Unsigned) {
      std::int64_t& number = numbers[slot.position];
      if (!whole(k, slot.position, o, slot.bits, slot.kind == Kind::Signed, &number)) [[unlikely]] {
        return false;
      }
      *value = static_cast<std::uint64_t>(number);
    } else if (!real(k, slot, o, value)) [[unlikely]] {
      return false;
    }
    if (slot.divisible && *value % kAlign != 0 && k.check) [[unlikely]] {
      return explain(k, "divisible", slot.position, o);
    }
  }
  for (int i = 0; i < k.extra_count; ++i) {
    if (!whole(k, k.extras[i], args[k.extras[i]], 64, true, &numbers[k.extras[i]])) [[unlikely]] {
      return false;
    }
  }
  return make_grid(k, args, numbers, ready->grid);
}

// Launches on `stream`; null: on the current stream.
bool launch(const Kernel& k, PyObject* const* args, void* const* stream) {
  Ready ready;
  place(k, aligned(alloca(bytes_of(k) + kLine)), &ready);
  if (!read_arguments(k, args, nullptr, &ready)) [[unlikely]] {
    return false;
  }
  if (ready.is_empty()) [[unlikely]] {
    return true;
  }
  if (stream != nullptr) {
    ready.stream = *stream;
  } else if (!k.stream.current(&ready.stream)) [[unlikely]] {
    return false;
  }
  return launch_ready(k, ready);
}

// Parses the only keyword, `stream`, a raw stream as an int.
bool parse_stream(PyObject* kwnames, PyObject* const* values, void** stream) {
  if (PyTuple_Size(kwnames) != 1 ||
      PyUnicode_CompareWithASCIIString(PyTuple_GetItem(kwnames, 0), "stream") != 0) {
    PyErr_SetString(PyExc_TypeError, "the only keyword of a launch is `stream`");
    return false;
  }
  *stream = PyLong_AsVoidPtr(values[0]);
  return PyErr_Occurred() == nullptr;
}

PyObject* kernel_call(PyObject* self, PyObject* const* args, std::size_t flags, PyObject* kwnames) {
  const Kernel& k = *reinterpret_cast<Kernel*>(self);
  const Py_ssize_t count = count_of(flags);
  void* stream = nullptr;
  const bool has_stream = kwnames != nullptr && PyTuple_Size(kwnames) != 0;
  if (has_stream && !parse_stream(kwnames, args + count, &stream)) [[unlikely]] {
    return nullptr;
  }
  if (count != k.argument_count) [[unlikely]] {
    explain(k, "count", count, Py_None);
    return nullptr;
  }
  if (!launch(k, args, has_stream ? &stream : nullptr)) [[unlikely]] {
    return nullptr;
  }
  Py_RETURN_NONE;
}

}  // namespace
