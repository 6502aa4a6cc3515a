// Random numbers equal to those of torch's CPU generator: a Mersenne twister, and the same draws for each element.
#include "random.h"

namespace wir {

extern "C" [[gnu::weak]] constinit RandomState wir_op_random_state{};

namespace {

constexpr uint64_t kWideRange = uint64_t{1} << 28;  // from which on 64 bits are drawn

/// Makes 16 normal numbers of as many uniform ones.
template <class T> void make_normal(T* items, T mean, T deviation) {
  for (int i = 0; i < 8; ++i) {
    const T radius = std::sqrt(-2 * std::log(1 - items[i]));
    const T angle = static_cast<T>(2 * kPi * static_cast<double>(items[i + 8]));
    items[i] = radius * std::cos(angle) * deviation + mean;
    items[i + 8] = radius * std::sin(angle) * deviation + mean;
  }
}

template <class T> void fill_normal_blocks(T* items, int64_t count, double mean, double deviation) {
  constexpr int64_t kBlock = 16;
  const auto draw = [&](T* at, int64_t number) {
    for (int64_t i = 0; i < number; ++i) at[i] = static_cast<T>(generator().uniform<T>());
  };
  const T m = static_cast<T>(mean), s = static_cast<T>(deviation);
  draw(items, count);
  for (int64_t i = 0; i + kBlock <= count; i += kBlock) make_normal(items + i, m, s);
  if (count % kBlock == 0) return;
  draw(items + count - kBlock, kBlock);  // the last block again
  make_normal(items + count - kBlock, m, s);
}

/// As above for 16-bit floats, which torch draws block by block in single precision.
template <class T> void fill_small_normal(T* items, int64_t count, double mean, double deviation) {
  constexpr int64_t kBlock = 16;
  const auto draw_block = [&](T* at) {
    float drawn[kBlock];
    for (float& item : drawn) item = static_cast<float>(generator().uniform<float>());
    make_normal(drawn, static_cast<float>(mean), static_cast<float>(deviation));
    for (int64_t i = 0; i < kBlock; ++i) at[i] = converted<T>(drawn[i]);
  };
  for (int64_t i = 0; i + kBlock <= count; i += kBlock) draw_block(items + i);
  if (count % kBlock != 0) draw_block(items + count - kBlock);
}

Owned created(const int64_t* size, int64_t rank, const int32_t* dtype, int32_t otherwise) {
  return empty(Sizes(size, size + rank), dtype != nullptr ? *dtype : otherwise);
}

}  // namespace

Owned in_memory_order(Tensor tensor) {
  Sizes dims(static_cast<size_t>(tensor->rank)), sizes, strides;
  std::iota(dims.begin(), dims.end(), 0);
  const int64_t* given = tensor->strides();
  std::stable_sort(dims.begin(), dims.end(), [&](int64_t a, int64_t b) { return given[a] > given[b]; });
  for (const int64_t dim : dims) {
    sizes.push_back(tensor->sizes()[dim]);
    strides.push_back(given[dim]);
  }
  return view_of(tensor, sizes, strides);
}

/// Returns the view of complex numbers as pairs of real ones, in one more dimension.
static Owned view_pairs(Tensor tensor) {
  Sizes sizes = sizes_of(tensor), strides = strides_of(tensor);
  for (int64_t& stride : strides) stride *= 2;
  sizes.push_back(2);
  strides.push_back(1);
  const int32_t dtype = tensor->dtype == kC128 ? kF64 : tensor->dtype == kC64 ? kF32 : kF16;
  return Owned(new_view(tensor, tensor->offset, tensor->rank + 1, sizes.data(), strides.data(), dtype));
}

void fill_uniform(Tensor tensor, double from, double to, const char* name) {
  if (!(from <= to)) fail_operator(name, "the range is empty");
  if (is_complex(tensor->dtype)) return fill_uniform(view_pairs(tensor).get(), from, to, name);
  const Lock lock(generator().mutex);
  floats(tensor->dtype, name, [&]<class T>() {
    fill<T>(tensor, [&] {
      const double drawn = generator().uniform<T>();
      if constexpr (std::is_same_v<T, double>) {
        return drawn * (to - from) + from;
      } else {
        const auto low = static_cast<float>(from), high = static_cast<float>(to);
        const T value = converted<T>(static_cast<float>(drawn) * (high - low) + low);
        return converted<float>(value) == converted<float>(converted<T>(to)) ? converted<T>(from) : value;
      }
    });
  });
}

void fill_normal(Tensor tensor, double mean, double deviation, const char* name) {
  if (!(deviation >= 0)) fail_operator(name, "the standard deviation is negative");
  // the variance is that of both parts together
  if (is_complex(tensor->dtype)) return fill_normal(view_pairs(tensor).get(), mean, deviation / std::sqrt(2.0), name);
  const Lock lock(generator().mutex);
  floats(tensor->dtype, name, [&]<class T>() {
    if (tensor->count < 16 || !is_contiguous(tensor)) {
      fill<T>(tensor, [&] { return generator().normal() * deviation + mean; });
    } else if constexpr (is_small_float<T>) {
      fill_small_normal(data_of<T>(tensor), tensor->count, mean, deviation);
    } else {
      fill_normal_blocks(data_of<T>(tensor), tensor->count, mean, deviation);
    }
  });
}

void fill_integers(Tensor tensor, int64_t low, int64_t high, const char* name) {
  if (low >= high) fail_operator(name, "the range is empty");
  const uint64_t range = static_cast<uint64_t>(high) - static_cast<uint64_t>(low);
  const Lock lock(generator().mutex);
  numbers_and_bool(tensor->dtype, name, [&]<class T>() {
    fill<T>(tensor, [&] {
      const uint64_t drawn = range >= kWideRange ? generator().draw_wide() : generator().draw();
      return static_cast<int64_t>(drawn % range + static_cast<uint64_t>(low));
    });
  });
}

void set_random_seed(uint64_t seed) {
  const Lock lock(wir_op_random_state.mutex);
  wir_op_random_state.seed = seed;
  wir_op_random_state.is_seeded = false;
  wir_op_random_state.has_normal = false;
}

}  // namespace wir

using namespace wir;

/// Sets the state of the library's generator. Exported only from libraries that draw random numbers.
extern "C" __attribute__((visibility("default"), weak)) void wir_random_seed(uint64_t seed) { set_random_seed(seed); }

WIR_OPERATOR(rand)(const int64_t* size, int64_t size_len_, int32_t* dtype, int32_t*, int32_t*, int32_t, int32_t*,
                   Tensor* ret0) {
  Owned made = created(size, size_len_, dtype, kF32);
  fill_uniform(made.get(), 0, 1, "aten::rand");
  *ret0 = made.release();
  return 0;
}

WIR_OPERATOR(randn)(const int64_t* size, int64_t size_len_, int32_t* dtype, int32_t*, int32_t*, int32_t, int32_t*,
                    Tensor* ret0) {
  Owned made = created(size, size_len_, dtype, kF32);
  fill_normal(made.get(), 0, 1, "aten::randn");
  *ret0 = made.release();
  return 0;
}

WIR_OPERATOR(randint)(int64_t high, const int64_t* size, int64_t size_len_, int32_t* dtype, int32_t*, int32_t*, int32_t,
                      int32_t*, Tensor* ret0) {
  Owned made = created(size, size_len_, dtype, kI64);
  fill_integers(made.get(), 0, high, "aten::randint");
  *ret0 = made.release();
  return 0;
}

WIR_OPERATOR(randint_low)(int64_t low, int64_t high, const int64_t* size, int64_t size_len_, int32_t* dtype, int32_t*,
                          int32_t*, int32_t, int32_t*, Tensor* ret0) {
  Owned made = created(size, size_len_, dtype, kI64);
  fill_integers(made.get(), low, high, "aten::randint.low");
  *ret0 = made.release();
  return 0;
}

WIR_OPERATOR(randint_low_out)(Tensor out, int64_t low, int64_t high, const int64_t* size, int64_t size_len_) {
  constexpr const char* kName = "aten::randint.low_out";
  if (sizes_of(out) != Sizes(size, size + size_len_)) fail_operator(kName, "the result has another size");
  fill_integers(out, low, high, kName);
  return 0;
}

WIR_OPERATOR(randperm)(int64_t n, int32_t* dtype, int32_t*, int32_t*, int32_t, int32_t*, Tensor* ret0) {
  constexpr const char* kName = "aten::randperm";
  constexpr int64_t kFewest = UINT32_MAX / 20;
  if (n < 0) fail_operator(kName, "the number of elements is negative");
  Owned made = empty({n}, dtype != nullptr ? *dtype : kI64);
  const Lock lock(generator().mutex);
  reals(made->dtype, kName, [&]<class T>() {
    T* items = data_of<T>(made.get());
    for (int64_t i = 0; i < n; ++i) items[i] = converted<T>(i);
    for (int64_t i = 0; i < n - 1; ++i) {
      const auto left = static_cast<uint64_t>(n - i);
      const uint64_t drawn = n < kFewest ? generator().draw() % left : generator().draw_wide() % left;
      std::swap(items[i], items[i + static_cast<int64_t>(drawn)]);
    }
  });
  *ret0 = made.release();
  return 0;
}

WIR_OPERATOR(uniform)(Tensor self, double from, double to, Tensor* ret0) {
  Owned made = empty_like(self, self->dtype);
  fill_uniform(made.get(), from, to, "aten::uniform");
  *ret0 = made.release();
  return 0;
}

WIR_OPERATOR(uniform_)(Tensor self, double from, double to) {
  fill_uniform(self, from, to, "aten::uniform_");
  return 0;
}

WIR_OPERATOR(normal_functional)(Tensor self, double mean, double std, Tensor* ret0) {
  Owned made = empty_like(self, self->dtype);
  fill_normal(made.get(), mean, std, "aten::normal_functional");
  *ret0 = made.release();
  return 0;
}

WIR_OPERATOR(normal_)(Tensor self, double mean, double std) {
  fill_normal(self, mean, std, "aten::normal_");
  return 0;
}

WIR_OPERATOR(normal_float_float)(double mean, double std, const int64_t* size, int64_t size_len_, int32_t* dtype, int32_t*,
                                 int32_t*, int32_t, int32_t*, Tensor* ret0) {
  Owned made = created(size, size_len_, dtype, kF32);
  fill_normal(made.get(), mean, std, "aten::normal.float_float");
  *ret0 = made.release();
  return 0;
}

WIR_OPERATOR(normal)(const int64_t* shape, int64_t shape_len_, double mean, double std, int32_t dtype, int32_t, int32_t, int32_t,
                     Tensor* ret0) {
  Owned made = empty(Sizes(shape, shape + shape_len_), dtype);
  fill_normal(made.get(), mean, std, "prims::normal");
  *ret0 = made.release();
  return 0;
}
