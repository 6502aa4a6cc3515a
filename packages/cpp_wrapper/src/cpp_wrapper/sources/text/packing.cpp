// Packed constants: their originals, which callers know, as panels of 16 columns and back.
#include "container.h"

#include <cstring>

namespace wir {
namespace {

constexpr int64_t kPanelColumns = 16;

/// Calls `body(packed, original)` with the offset of each element in both memories.
template <class Body> void for_elements(const Packing& packing, const Body& body) {
  int64_t depth = 1;
  for (int dim = 0; dim < packing.rows; ++dim) depth *= packing.row_sizes[dim];
  std::vector<int64_t> rows(static_cast<size_t>(depth));  // offsets of rows in the original
  for (int64_t row = 0; row < depth; ++row) {
    int64_t rest = row;
    for (int dim = packing.rows; dim-- > 0; rest /= packing.row_sizes[dim]) {
      rows[static_cast<size_t>(row)] += rest % packing.row_sizes[dim] * packing.row_strides[dim];
    }
  }
  const int64_t lanes = packing.interleave, panels = (packing.columns + kPanelColumns - 1) / kPanelColumns;
  const int64_t panel = (depth + lanes - 1) / lanes * lanes * kPanelColumns;
  for (int64_t group = 0; group < packing.groups; ++group) {
    for (int64_t column = 0; column < packing.columns; ++column) {
      const int64_t to = (group * panels + column / kPanelColumns) * panel + column % kPanelColumns * lanes;
      const int64_t from = group * packing.group_stride + column * packing.column_stride;
      for (int64_t row = 0; row < depth; ++row) {
        body(to + row / lanes * lanes * kPanelColumns + row % lanes, from + rows[static_cast<size_t>(row)]);
      }
    }
  }
}

/// Copies elements of `Bits` between a packed tensor and its original.
template <class Bits> void copy_elements(const Packing& packing, Bits* packed, Bits* original, bool packs) {
  if (packs) {
    for_elements(packing, [&](int64_t to, int64_t from) { packed[to] = original[from]; });
  } else {
    for_elements(packing, [&](int64_t from, int64_t to) { original[to] = packed[from]; });
  }
}

[[gnu::hot]] void copy_packed(const Packing& packing, Tensor packed, Tensor original, bool packs) {
  void* const first = data(packed);
  void* const second = data(original);
  switch (aoti_torch_dtype_element_size(dtype_of(packed))) {
    case 1: return copy_elements(packing, static_cast<uint8_t*>(first), static_cast<uint8_t*>(second), packs);
    case 2: return copy_elements(packing, static_cast<uint16_t*>(first), static_cast<uint16_t*>(second), packs);
    case 4: return copy_elements(packing, static_cast<uint32_t*>(first), static_cast<uint32_t*>(second), packs);
    default: return copy_elements(packing, static_cast<uint64_t*>(first), static_cast<uint64_t*>(second), packs);
  }
}

}  // namespace

Tensor new_original(const Packing& packing, Tensor packed) {
  Tensor made = nullptr;
  ok(aoti_torch_empty_strided(packing.rank, packing.sizes, packing.strides, dtype_of(packed), aoti_torch_device_type_cpu(), 0,
                              &made), "allocation");
  return made;
}

void pack(const Packing& packing, Tensor packed, Tensor given) {
  Handles original(1, new_original(packing, packed));
  copy(original[0], given);
  std::memset(data(packed), 0, packing.packed_nbytes);
  copy_packed(packing, packed, original[0], true);
}

Tensor unpack(const Packing& packing, Tensor packed) {
  const Tensor original = new_original(packing, packed);
  copy_packed(packing, packed, original, false);
  return original;
}

}  // namespace wir
