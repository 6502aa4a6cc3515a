// What files of operators over indices share: reductions of elements, and checks of indices.
#pragma once
#include "layouts.h"

namespace wir {

/// The kind of a value that a scatter combines with an element.
enum class Reduce { kReplace, kSum, kProduct, kMean, kLargest, kSmallest };
/// Returns the reduction that torch names so; fails with the operator's name for others.
Reduce reduce_of(const char* text, const char* name);

[[noreturn, gnu::cold]] void fail_index(const char* name, int64_t index, int64_t size);
int64_t load_index(const unsigned char* at, int32_t dtype);
/// Fails unless the tensor contains i64, i32 or u8.
void require_indices(Tensor index, const char* name);

/// Combines an element with a value of the same type.
using Combine = void (*)(unsigned char* to, const unsigned char* from, Reduce reduce);
Combine combine_of(int32_t dtype, const char* name);
/// The value with which a reduction begins.
Number first_of(Reduce reduce, int32_t dtype);
/// Divides an element by a count; integers are rounded down.
void divide(unsigned char* at, int32_t dtype, int64_t count);

}  // namespace wir
