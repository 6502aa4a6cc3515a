// Converts Python arguments to kernel parameters.
#pragma once

#include "kernel.h"

namespace {

// A null pointer is valid only for a tensor without elements.
[[gnu::cold]] bool is_empty(PyObject* tensor) {
  PyObject* count = PyObject_CallMethod(tensor, "numel", nullptr);
  const bool empty = count != nullptr && PyObject_IsTrue(count) == 0;
  Py_XDECREF(count);
  return empty;
}

// Handles subclasses of tensors, other devices, tensors without memory, and objects that are not tensors.
[[gnu::noinline]] bool slow_address(const Kernel& k, const Slot& slot, PyObject* o, std::uint64_t* out) {
  if (!PyObject_TypeCheck(o, torch.tensor)) {
    return explain(k, "tensor", slot.position, o);
  }
  PyObject* number = call_with(torch.method, o);
  if (number == nullptr) {
    return explain(k, "memory", slot.position, o);
  }
  *out = PyLong_AsUnsignedLongLong(number);
  Py_DECREF(number);
  if (PyErr_Occurred() != nullptr) {
    return false;
  }
  Facts f{};
  if (torch.offset == 0 || !k.check) {
    return true;
  }
  if (!read_facts(o, &f)) {
    return explain(k, "memory", slot.position, o);
  }
  if (slot.dtype != kAnyDtype && f.dtype != slot.dtype) {
    return explain(k, "dtype", slot.position, o);
  }
  if (f.device_type == k.device_type && f.device_index == k.device_index) {
    return *out != 0 || is_empty(o) || explain(k, "memory", slot.position, o);
  }
  // pinned host memory has a device address
  std::uint64_t mapped = 0;
  if (f.device_type == 0 && *out != 0 && k.api->PointerGetAttribute(&mapped, kPointerDevice, *out) == 0 &&
      mapped != 0) {
    *out = mapped;
    return true;
  }
  return explain(k, "device", slot.position, o);
}

inline bool fits(const Kernel& k, const Slot& slot, const Facts& f) {
  return (f.dtype == slot.dtype || slot.dtype == kAnyDtype) && f.device_type == k.device_type &&
         f.device_index == k.device_index;
}

// Reads the address of a tensor argument. `cached` holds the facts of this tensor across the launches of one
// call; null if there is a single launch.
inline bool address(const Kernel& k, const Slot& slot, PyObject* o, Facts* cached, std::uint64_t* out) {
  if (cached != nullptr && cached->data != nullptr && fits(k, slot, *cached)) {
    *out = reinterpret_cast<std::uintptr_t>(cached->data);
    return true;
  }
  const bool exact = Py_TYPE(o) == torch.tensor || Py_TYPE(o) == torch.parameter;
  if (!exact || torch.offset == 0) [[unlikely]] {
    return slow_address(k, slot, o, out);
  }
  Facts f;
  if (torch.data_ptr(handle_of(o), &f.data) != 0 || f.data == nullptr) [[unlikely]] {
    return slow_address(k, slot, o, out);
  }
  if (k.check || cached != nullptr) {
    if (!read_facts(o, &f) || (k.check && !fits(k, slot, f))) [[unlikely]] {
      return slow_address(k, slot, o, out);
    }
    if (cached != nullptr) {
      *cached = f;
    }
  }
  *out = reinterpret_cast<std::uintptr_t>(f.data);
  return true;
}

// Encodes a tensor map in place.
bool encode_map(const Kernel& k, const Descriptor& d, std::uint64_t base, const std::int64_t* sizes,
                const std::int64_t* strides, std::uint64_t* map) {
  std::uint64_t shape[kMaxRank], bytes[kMaxRank];
  const unsigned ones[kMaxRank] = {1, 1, 1, 1, 1};
  const int rank = d.rank;
  std::uint64_t last = 0;  // byte offset of the last element
  for (int i = 0; i < rank; ++i) {
    const int from = rank - 1 - i;  // the driver counts dimensions from the innermost
    shape[i] = static_cast<std::uint64_t>(sizes[from]) * (d.padded != 0 && i == 0 ? 2 : 1);
    if (i > 0) {
      bytes[i - 1] = static_cast<std::uint64_t>(strides[from]) * static_cast<std::uint64_t>(d.element_size);
    }
    if (shape[i] == 0) {  // an empty tensor: the map is never dereferenced
      std::memset(map, 0, kMapWords * sizeof(*map));
      return true;
    }
    last += (shape[i] - 1) * (i == 0 ? static_cast<std::uint64_t>(d.element_size) : bytes[i - 1]);
  }
  bytes[rank - 1] =
      shape[rank - 1] * (rank == 1 ? static_cast<std::uint64_t>(d.element_size) : bytes[rank - 2]);
  constexpr int kNoInterleave = 0, kPromote128 = 2, kFillZero = 0;
  if (const Result status = k.api->TensorMapEncodeTiled(
          map, d.element_type, static_cast<unsigned>(rank), reinterpret_cast<void*>(base), shape, bytes,
          d.box, ones, kNoInterleave, d.swizzle, kPromote128, kFillZero)) {
    return driver_failed(k, "describe a tensor", status);
  }
  int version = 0;
  // Drivers up to 13.1 set a wrong bit for tensors below 128 KiB. CUTLASS and Triton clear it too.
  if (k.api->DriverGetVersion(&version) == 0 && version <= 13010 && last + 1 < 128 * 1024) {
    map[1] &= ~(std::uint64_t{1} << 21);
  }
  return true;
}

bool describe_tensor(const Kernel& k, const Slot& slot, PyObject* o, std::uint64_t* value) {
  const Descriptor& d = slot.descriptor;
  std::uint64_t base = 0;
  if (!address(k, slot, o, nullptr, &base)) {
    return false;
  }
  std::int64_t rank = 0, *sizes = nullptr, *strides = nullptr;
  if (torch.offset == 0 || torch.dim(handle_of(o), &rank) != 0 || torch.sizes(handle_of(o), &sizes) != 0 ||
      torch.strides(handle_of(o), &strides) != 0) {
    return explain(k, "memory", slot.position, o);
  }
  if (rank != d.rank || strides[rank - 1] != 1) {
    return explain(k, "layout", slot.position, o);
  }
  if (d.with_map != 0) {
    if (!encode_map(k, d, base, sizes, strides, value)) {
      return false;
    }
    value += kMapWords;
  } else {
    *value++ = base;
    for (int i = 0; i < 2 * rank; ++i) {
      *value++ = static_cast<std::uint64_t>(i < rank ? sizes[i] : strides[i - rank]);
    }
    for (int i = 0; i < d.flags; ++i) {
      *value++ = 0;  // padding with zeros, no rounding
    }
  }
  for (int i = 0; i < 2 * rank; ++i) {
    *value++ = static_cast<std::uint64_t>(i < rank ? sizes[i] : strides[i - rank]);
  }
  return true;
}

// Converts an int, or an object with `__index__`. A tensor is refused, although it has one: the arguments are
// out of order.
bool whole(const Kernel& k, Py_ssize_t position, PyObject* o, int bits, bool is_signed, std::int64_t* out) {
  if (Py_TYPE(o) != &PyLong_Type && !PyLong_Check(o)) [[unlikely]] {
    if (PyObject_TypeCheck(o, torch.tensor) || !PyIndex_Check(o)) {
      return explain(k, "int", position, o);
    }
    PyObject* number = PyNumber_Index(o);
    const bool fine = number != nullptr && whole(k, position, number, bits, is_signed, out);
    Py_XDECREF(number);
    return fine;
  }
  int overflow = 0;
  const long long value = PyLong_AsLongLongAndOverflow(o, &overflow);
  if (overflow > 0 && !is_signed && bits == 64) {
    *out = static_cast<std::int64_t>(PyLong_AsUnsignedLongLong(o));
    return PyErr_Occurred() == nullptr || explain(k, "range", position, o);
  }
  *out = value;
  const long long top = bits == 64 ? INT64_MAX : (1LL << (is_signed ? bits - 1 : bits)) - 1;
  const long long bottom = !is_signed ? 0 : -top - 1;
  if (overflow != 0 || value < bottom || value > top) [[unlikely]] {
    return explain(k, "range", position, o);
  }
  return true;
}

std::uint64_t bfloat16(double value) {
  const float single = static_cast<float>(value);
  std::uint32_t word = 0;
  std::memcpy(&word, &single, sizeof(word));
  if (single != single) {
    return (word >> 16) | 0x40;
  }
  return (word + 0x7fff + ((word >> 16) & 1)) >> 16;  // to nearest, ties to even
}

// Converts to IEEE 754 binary16, rounding to nearest, ties to even; false if a finite value overflows.
bool half(double value, std::uint64_t* out) {
  constexpr int kDropped = 52 - 10;  // bits of the fraction that do not fit
  std::uint64_t word = 0;
  std::memcpy(&word, &value, sizeof(word));
  const std::uint64_t sign = word >> 63 << 15, fraction = word & ((std::uint64_t{1} << 52) - 1);
  const int exponent = static_cast<int>(word >> 52 & 0x7ff) - 1023;
  if (exponent == 1024) {
    *out = sign | (fraction != 0 ? 0x7e00 : 0x7c00);
    return true;
  }
  if (exponent < -25) {
    *out = sign;
    return true;
  }
  // below 2**-14, the implicit one is shifted into the fraction
  const int shift = kDropped + (exponent < -14 ? -14 - exponent : 0);
  const std::uint64_t whole = exponent < -14 ? fraction | std::uint64_t{1} << 52
                                             : fraction + (static_cast<std::uint64_t>(exponent + 15) << 52);
  const std::uint64_t rest = whole & ((std::uint64_t{1} << shift) - 1),
                      middle = std::uint64_t{1} << (shift - 1);
  const std::uint64_t truncated = whole >> shift;
  const std::uint64_t rounded =
      truncated + (rest > middle || (rest == middle && (truncated & 1) != 0) ? 1 : 0);
  *out = sign | rounded;
  return rounded < 0x7c00;
}

bool real(const Kernel& k, const Slot& slot, PyObject* o, std::uint64_t* out) {
  if (!PyFloat_CheckExact(o) && PyObject_TypeCheck(o, torch.tensor)) [[unlikely]] {
    return explain(k, "float", slot.position, o);
  }
  const double value = PyFloat_AsDouble(o);
  if (value == -1.0 && PyErr_Occurred() != nullptr) [[unlikely]] {
    return explain(k, "float", slot.position, o);
  }
  *out = 0;
  const float single = static_cast<float>(value);
  switch (slot.kind) {
    case Kind::F64: std::memcpy(out, &value, sizeof(value)); return true;
    case Kind::F32: std::memcpy(out, &single, sizeof(single)); return true;
    case Kind::BF16: *out = bfloat16(value); return true;
    default: return half(value, out) || explain(k, "range", slot.position, o);
  }
}

}  // namespace
