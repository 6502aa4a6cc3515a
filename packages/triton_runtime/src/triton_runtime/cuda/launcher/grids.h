// Computes the grid of a launch.
#pragma once

#include "kernel.h"

namespace {

inline std::int64_t floor_div(std::int64_t a, std::int64_t b) {
  const std::int64_t q = a / b;
  return (a % b != 0 && (a < 0) != (b < 0)) ? q - 1 : q;
}

// Evaluates the grid. Returns false on overflow of int64 or division by zero: Python then computes it or
// raises.
bool run_steps(const Kernel& k, const std::int64_t* numbers, std::int64_t* axes) {
  std::int64_t stack[kStack];
  int top = 0, axis = 0;
  for (std::int32_t i = 0; i < k.step_count; ++i) {
    const Step step = k.steps[i];
    if (step.op == Op::Const || step.op == Op::Number) {
      stack[top++] = step.op == Op::Const ? step.operand : numbers[step.operand];
      continue;
    }
    if (step.op == Op::Axis) {
      axes[axis++] = stack[--top];
      continue;
    }
    if (step.op == Op::Not) {
      stack[top - 1] = stack[top - 1] == 0;
      continue;
    }
    if (step.op == Op::Where) {
      top -= 2;
      stack[top - 1] = stack[top - 1] != 0 ? stack[top] : stack[top + 1];
      continue;
    }
    const std::int64_t b = stack[--top];
    std::int64_t& a = stack[top - 1];
    switch (step.op) {
      case Op::Add:
        if (__builtin_add_overflow(a, b, &a)) return false;
        break;
      case Op::Mul:
        if (__builtin_mul_overflow(a, b, &a)) return false;
        break;
      case Op::FloorDiv:
      case Op::CeilDiv:
      case Op::Mod:
        if (b == 0 || b == -1 || a == INT64_MIN) return false;
        a = step.op == Op::FloorDiv ? floor_div(a, b)
            : step.op == Op::Mod    ? a - b * floor_div(a, b)
                                    : -floor_div(-a, b);
        break;
      case Op::Min: a = b < a ? b : a; break;
      case Op::Max: a = b > a ? b : a; break;
      case Op::Eq: a = a == b; break;
      case Op::Ne: a = a != b; break;
      case Op::Lt: a = a < b; break;
      case Op::Le: a = a <= b; break;
      case Op::Gt: a = a > b; break;
      case Op::Ge: a = a >= b; break;
      case Op::And: a = a != 0 && b != 0; break;
      case Op::Or: a = a != 0 || b != 0; break;
      default: return false;
    }
  }
  return true;
}

[[gnu::noinline]] bool python_grid(const Kernel& k, PyObject* const* args, std::int64_t* axes) {
  PyObject* arguments = PyTuple_New(k.argument_count);
  for (Py_ssize_t i = 0; arguments != nullptr && i < k.argument_count; ++i) {
    PyTuple_SetItem(arguments, i, Py_NewRef(args[i]));
  }
  PyObject* sizes = arguments == nullptr ? nullptr : PyObject_CallObject(k.grid, arguments);
  Py_XDECREF(arguments);
  long long size[3] = {0, 0, 0};
  const bool fine = sizes != nullptr && PyArg_ParseTuple(sizes, "LLL", &size[0], &size[1], &size[2]);
  Py_XDECREF(sizes);
  for (int i = 0; i < 3; ++i) {
    axes[i] = size[i];
  }
  return fine;
}

bool make_grid(const Kernel& k, PyObject* const* args, const std::int64_t* numbers, unsigned* grid) {
  std::int64_t axes[3];
  if (k.steps == nullptr || !run_steps(k, numbers, axes)) [[unlikely]] {
    if (!python_grid(k, args, axes)) {
      return false;
    }
  }
  if (axes[0] < 0 || axes[0] > INT32_MAX / k.num_ctas || axes[1] < 0 || axes[1] > 65535 || axes[2] < 0 ||
      axes[2] > 65535) {
    PyObject* sizes = Py_BuildValue("LLL", static_cast<long long>(axes[0]), static_cast<long long>(axes[1]),
                                    static_cast<long long>(axes[2]));
    if (sizes != nullptr) {
      explain(k, "grid", 0, sizes);
      Py_DECREF(sizes);
    }
    return false;
  }
  for (int i = 0; i < 3; ++i) {
    grid[i] = static_cast<unsigned>(axes[i]);
  }
  return true;
}

}  // namespace
