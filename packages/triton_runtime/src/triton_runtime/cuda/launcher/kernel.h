// A loaded kernel as data: the layout of its arguments, its grid, its stream, and its errors.
#pragma once

#include "driver.h"
#include "tensors.h"

namespace {

enum class Kind : std::uint8_t { Pointer, Signed, Unsigned, F16, BF16, F32, F64, Descriptor };

constexpr int kMaxRank = 5, kMapWords = 16, kMapAlign = 8;  // words of 8 bytes

// The parameters of a tensor descriptor: a tensor map (TMA), or address, sizes and strides; then sizes and
// strides.
struct Descriptor {
  std::int32_t rank, with_map, flags, swizzle, element_size, element_type, padded;
  unsigned box[kMaxRank];  // innermost first
};

struct Slot {
  std::int32_t position;  // among the arguments of a launch
  std::int32_t dtype;     // of a tensor, numbered as in torch; -1: not checked
  std::int32_t value;     // index of its first value among those of a launch
  Kind kind;
  std::uint8_t bits;
  bool divisible;  // the compiled code assumes a multiple of 16
  Descriptor descriptor;
};

enum class Op : std::int64_t {
  Const,
  Number,
  Add,
  Mul,
  FloorDiv,
  CeilDiv,
  Mod,
  Min,
  Max,
  Where,
  Eq,
  Ne,
  Lt,
  Le,
  Gt,
  Ge,
  And,
  Or,
  Not,
  Axis
};

struct Step {
  Op op;
  std::int64_t operand;
};

constexpr int kStack = 32;
constexpr std::int32_t kAnyDtype = -1;
constexpr long long kAlign = 16;

struct Hooks {
  PyObject_HEAD
  PyObject* enter;
  PyObject* exit;
};

// The source of a device's current stream: torch's C function, or a Python function, or the default stream.
struct StreamSource {
  std::int32_t (*native)(std::int32_t, void**);
  std::int32_t index;
  PyObject *function, *argument;

  bool set(unsigned long long address, PyObject* python, std::int32_t device) {
    native = reinterpret_cast<std::int32_t (*)(std::int32_t, void**)>(static_cast<std::uintptr_t>(address));
    index = device;
    function = Py_NewRef(python);
    argument = PyLong_FromLong(device);
    return argument != nullptr;
  }
  bool current(void** stream) const {
    if (native != nullptr) [[likely]] {
      if (native(index, stream) == 0) [[likely]] {
        return true;
      }
      PyErr_SetString(PyExc_RuntimeError, "torch has no current stream");
      return false;
    }
    if (function == Py_None) {
      *stream = nullptr;
      return true;
    }
    PyObject* number = call_with(function, argument);
    *stream = number == nullptr ? nullptr : PyLong_AsVoidPtr(number);
    Py_XDECREF(number);
    return PyErr_Occurred() == nullptr;
  }
  bool is(const StreamSource& other) const {
    return native == other.native && function == other.function && index == other.index;
  }
};

struct Kernel {
  PyObject_HEAD
  Vectorcall call;
  const Api* api;
  void* function;
  void* context;
  Slot* slots;
  Step* steps;           // null: `grid` is a Python function
  std::int32_t* extras;  // positions of numbers that only the grid uses
  std::int32_t* params;  // value index of each kernel parameter, including two for scratch memory
  std::int32_t param_count, value_count;
  std::int32_t slot_count, step_count, extra_count, argument_count;
  std::int32_t device_type, device_index;
  std::int32_t num_ctas;  // blocks per program (cluster size)
  bool check;
  Config config;
  Attribute attributes[4];
  std::int64_t scratch[2], profile[2];  // bytes per program of the grid, alignment
  StreamSource stream;
  PyObject *name, *explain, *grid, *allocate, *driver;
  Hooks* hooks;
  void* module;
  int registers, local_bytes, shared_static;
};

[[gnu::cold]] bool explain(const Kernel& k, const char* reason, Py_ssize_t position, PyObject* value) {
  PyErr_Clear();
  PyObject* outcome = PyObject_CallFunction(k.explain, "snO", reason, position, value);
  if (outcome != nullptr) {
    Py_DECREF(outcome);
    PyErr_Format(PyExc_SystemError, "`explain` did not raise for '%s'", reason);
  }
  return false;
}

[[gnu::cold]] bool driver_failed(const Kernel& k, const char* what, Result status) {
  const char *name = nullptr, *text = nullptr;
  k.api->GetErrorName(status, &name);
  k.api->GetErrorString(status, &text);
  PyObject* value = Py_BuildValue("siss", what, status, name ? name : "unknown", text ? text : "");
  if (value != nullptr) {
    explain(k, "driver", status, value);
    Py_DECREF(value);
  }
  return false;
}

PyTypeObject *kernel_type, *hooks_type;  // set when the module is created

}  // namespace
