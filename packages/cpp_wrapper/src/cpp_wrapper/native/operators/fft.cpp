// Fourier transforms of any length: mixed radices, and Bluestein's algorithm for large prime factors. Lines are transformed
// in double precision.
#include "layouts.h"

#include <complex>

namespace wir {
namespace {

using C = std::complex<double>;
constexpr int64_t kLargestRadix = 31;
constexpr double kPi = 3.14159265358979323846;

/// exp(2 pi i k / n), exact at multiples of an eighth.
C root(int64_t k, int64_t n) {
  const double angle = 2 * kPi * static_cast<double>(k % n) / static_cast<double>(n);
  return {std::cos(angle), std::sin(angle)};
}
C times(C a, C b) { return {a.real() * b.real() - a.imag() * b.imag(), a.real() * b.imag() + a.imag() * b.real()}; }

/// The transform of lines of one length; immutable, so that threads share it.
class Plan {
 public:
  Plan(int64_t length, bool forward) : length_(length) {
    int64_t rest = length;
    for (const int64_t radix : {4, 2, 3, 5}) {
      for (; rest % radix == 0; rest /= radix) radices_.push_back(radix);
    }
    for (int64_t radix = 7; radix <= kLargestRadix; radix += 2) {
      for (; rest % radix == 0; rest /= radix) radices_.push_back(radix);
    }
    if (rest > 1) {
      plan_chirp(forward);
      return;
    }
    roots_.resize(static_cast<size_t>(length));
    for (int64_t k = 0; k < length; ++k) roots_[k] = forward ? std::conj(root(k, length)) : root(k, length);
  }

  /// Elements of scratch that `run` needs.
  int64_t scratch() const { return chirp_.empty() ? length_ : 2 * inner_->length_ + inner_->scratch(); }

  /// Transforms a line in place.
  void run(C* line, C* scratch) const { chirp_.empty() ? run_radices(line, scratch) : run_chirp(line, scratch); }

 private:
  void run_radices(C* line, C* scratch) const {
    C *from = line, *to = scratch;
    int64_t done = 1;  // length of the transforms so far
    for (const int64_t radix : radices_) {
      combine(from, to, done, radix);
      std::swap(from, to);
      done *= radix;
    }
    if (from != line) std::copy(from, from + length_, line);
  }

  /// Makes transforms of length `done * radix` of those of length `done`. Input `k` of transform `s` is at `k * count + s`.
  void combine(const C* from, C* to, int64_t done, int64_t radix) const {
    const int64_t count = length_ / done / radix;
    C items[kLargestRadix];
    for (int64_t k = 0; k < done; ++k) {
      C factors[kLargestRadix];
      for (int64_t p = 0; p < radix; ++p) factors[p] = roots_[p * k * count];
      for (int64_t s = 0; s < count; ++s) {
        const C* at = from + k * count * radix + s;
        items[0] = at[0];
        for (int64_t p = 1; p < radix; ++p) items[p] = times(at[p * count], factors[p]);
        butterfly(items, to + k * count + s, done * count, radix);
      }
    }
  }

  /// Writes the transform of `radix` items, `stride` elements apart.
  void butterfly(const C* items, C* to, int64_t stride, int64_t radix) const {
    if (radix == 2) {
      to[0] = items[0] + items[1];
      to[stride] = items[0] - items[1];
    } else if (radix == 4) {
      const C sum = items[0] + items[2], difference = items[0] - items[2];
      const C odd_sum = items[1] + items[3], odd = times(items[1] - items[3], roots_[length_ / 4]);
      to[0] = sum + odd_sum;
      to[stride] = difference + odd;
      to[2 * stride] = sum - odd_sum;
      to[3 * stride] = difference - odd;
    } else {
      const int64_t step = length_ / radix;
      for (int64_t q = 0; q < radix; ++q) {
        C sum = items[0];
        for (int64_t p = 1; p < radix; ++p) sum += times(items[p], roots_[p * q % radix * step]);
        to[q * stride] = sum;
      }
    }
  }

  /// Prepares a transform as a convolution with a chirp, whose length is a power of two.
  void plan_chirp(bool forward) {
    radices_.clear();
    int64_t wide = 1;
    while (wide < 2 * length_ - 1) wide *= 2;
    chirp_.resize(static_cast<size_t>(length_));
    for (int64_t k = 0; k < length_; ++k) {
      const auto square = static_cast<int64_t>(static_cast<unsigned __int128>(k) * static_cast<uint64_t>(k) % (2 * length_));
      chirp_[k] = forward ? std::conj(root(square, 2 * length_)) : root(square, 2 * length_);
    }
    inner_ = std::make_unique<Plan>(wide, true);
    spectrum_.assign(static_cast<size_t>(wide), C(0));
    for (int64_t k = 0; k < length_; ++k) {
      spectrum_[k] = std::conj(chirp_[k]);
      if (k > 0) spectrum_[wide - k] = std::conj(chirp_[k]);
    }
    std::vector<C> scratch(static_cast<size_t>(inner_->scratch()));
    inner_->run(spectrum_.data(), scratch.data());
  }

  void run_chirp(C* line, C* scratch) const {
    const int64_t wide = inner_->length_;
    C* padded = scratch;
    std::fill(padded, padded + wide, C(0));
    for (int64_t k = 0; k < length_; ++k) padded[k] = times(line[k], chirp_[k]);
    inner_->run(padded, scratch + wide);
    // The inverse transform is the conjugate of the transform of the conjugate.
    for (int64_t k = 0; k < wide; ++k) padded[k] = std::conj(times(padded[k], spectrum_[k]));
    inner_->run(padded, scratch + wide);
    const double scale = 1.0 / static_cast<double>(wide);
    for (int64_t k = 0; k < length_; ++k) line[k] = times(std::conj(padded[k]) * scale, chirp_[k]);
  }

  int64_t length_;
  std::vector<int64_t> radices_;
  std::vector<C> roots_, chirp_, spectrum_;
  std::unique_ptr<Plan> inner_;
};

// --- lines of tensors

C load(const unsigned char* at, int32_t dtype) {
  switch (dtype) {
    case kF32: return *reinterpret_cast<const float*>(at);
    case kF64: return *reinterpret_cast<const double*>(at);
    case kC64: return C(*reinterpret_cast<const std::complex<float>*>(at));
    default: return *reinterpret_cast<const C*>(at);
  }
}
void store(unsigned char* at, int32_t dtype, C value) {
  switch (dtype) {
    case kF32: *reinterpret_cast<float*>(at) = static_cast<float>(value.real()); return;
    case kF64: *reinterpret_cast<double*>(at) = value.real(); return;
    case kC64: *reinterpret_cast<std::complex<float>*>(at) = std::complex<float>(value); return;
    default: *reinterpret_cast<C*>(at) = value;
  }
}

/// Transforms lines of `length` along a dimension, multiplied by `scale`. Inputs that are shorter are one half of a line
/// whose other half is the conjugate; results may be as short.
void transform(Tensor from, Tensor to, int64_t dim, int64_t length, bool forward, double scale) {
  if (to->count == 0) return;
  const Plan plan(length, forward);
  const Lines lines(dim, {from, to});
  const int64_t given = std::min(length, lines.length(0)), wanted = lines.length(1);
  const bool is_half = lines.length(0) < length || !is_complex(to->dtype);
  const int64_t grain = std::max<int64_t>(1, (1 << 12) / length);
  parallel_for(lines.count(), grain, [&](int64_t begin, int64_t end) {
    std::vector<C> line(static_cast<size_t>(length)), scratch(static_cast<size_t>(plan.scratch()));
    for (int64_t number = begin; number < end; ++number) {
      const unsigned char* at = lines.at(0, number);
      for (int64_t i = 0; i < given; ++i) line[i] = load(at + i * lines.step(0), from->dtype) * scale;
      if (is_half) {
        line[0] = line[0].real();
        if (length % 2 == 0) line[length / 2] = line[length / 2].real();
        for (int64_t i = length / 2 + 1; i < length; ++i) line[i] = std::conj(line[length - i]);
      }
      plan.run(line.data(), scratch.data());
      unsigned char* target = lines.at(1, number);
      for (int64_t i = 0; i < wanted; ++i) store(target + i * lines.step(1), to->dtype, line[i]);
    }
  });
}

/// The strides of a result: transformed dimensions are the inner ones, in the order of `dims`; the others are in the order of
/// the input's strides.
Sizes result_strides(Tensor self, const Sizes& sizes, const Sizes& dims) {
  Sizes others;
  for (int64_t i = 0; i < self->rank; ++i) {
    if (std::find(dims.begin(), dims.end(), i) == dims.end()) others.push_back(i);
  }
  const int64_t* given = self->strides();
  std::stable_sort(others.begin(), others.end(), [&](int64_t a, int64_t b) { return given[a] > given[b]; });
  others.insert(others.end(), dims.begin(), dims.end());
  Sizes strides(sizes.size());
  int64_t running = 1;
  for (size_t i = others.size(); i-- > 0;) {
    strides[static_cast<size_t>(others[i])] = running;
    running *= std::max<int64_t>(sizes[static_cast<size_t>(others[i])], 1);
  }
  return strides;
}

Sizes wrapped(Tensor self, const int64_t* dim, int64_t count, const char* name) {
  Sizes dims(dim, dim + count);
  for (int64_t& item : dims) item = wrap_dim(item, self->rank, name);
  return dims;
}
/// Orders all but the last `kept` dimensions by strides, the largest first.
Sizes by_stride(Tensor self, Sizes dims, int64_t kept) {
  const int64_t* strides = self->strides();
  std::stable_sort(dims.begin(), dims.end() - kept, [&](int64_t a, int64_t b) { return strides[a] > strides[b]; });
  return dims;
}

/// The factor of a normalisation by torch's code: none, by the root of the number of elements, by that number.
double scale_of(int64_t normalization, const Sizes& sizes, const Sizes& dims) {
  double count = 1;
  for (const int64_t dim : dims) count *= static_cast<double>(sizes[static_cast<size_t>(dim)]);
  return normalization == 0 ? 1 : normalization == 1 ? 1 / std::sqrt(count) : 1 / count;
}

Owned complex_transform(Tensor self, const Sizes& given, double scale, bool forward) {
  const Sizes dims = by_stride(self, given, 0), sizes = sizes_of(self);
  Owned made = empty(sizes, result_strides(self, sizes, dims), self->dtype);
  Tensor from = self;
  for (size_t i = dims.size(); i-- > 0;) {
    transform(from, made.get(), dims[i], sizes[static_cast<size_t>(dims[i])], forward, scale);
    from = made.get();
    scale = 1;
  }
  return made;
}

}  // namespace
}  // namespace wir

using namespace wir;

WIR_OPERATOR(_fft_c2c)(Tensor self, const int64_t* dim, int64_t dim_len_, int64_t normalization, int32_t forward,
                       Tensor* ret0) {
  constexpr const char* kName = "aten::_fft_c2c";
  if (self->dtype != kC64 && self->dtype != kC128) fail_dtype(kName, self->dtype);
  const Sizes dims = wrapped(self, dim, dim_len_, kName);
  if (dims.empty()) {
    *ret0 = clone_like(self).release();
    return 0;
  }
  *ret0 = complex_transform(self, dims, scale_of(normalization, sizes_of(self), dims), forward != 0).release();
  return 0;
}

WIR_OPERATOR(_fft_r2c)(Tensor self, const int64_t* dim, int64_t dim_len_, int64_t normalization, int32_t onesided,
                       Tensor* ret0) {
  constexpr const char* kName = "aten::_fft_r2c";
  if (self->dtype != kF32 && self->dtype != kF64) fail_dtype(kName, self->dtype);
  const Sizes dims = by_stride(self, wrapped(self, dim, dim_len_, kName), 1);
  if (dims.empty()) fail_operator(kName, "no dimension is transformed");
  const int64_t last = dims.back(), length = self->sizes()[last];
  Sizes sizes = sizes_of(self);
  if (onesided != 0) sizes[static_cast<size_t>(last)] = length / 2 + 1;
  Owned made = empty(sizes, result_strides(self, sizes, dims), self->dtype == kF32 ? kC64 : kC128);
  transform(self, made.get(), last, length, true, scale_of(normalization, sizes_of(self), dims));
  for (size_t i = dims.size() - 1; i-- > 0;) {
    transform(made.get(), made.get(), dims[i], sizes[static_cast<size_t>(dims[i])], true, 1);
  }
  *ret0 = made.release();
  return 0;
}

WIR_OPERATOR(_fft_c2r)(Tensor self, const int64_t* dim, int64_t dim_len_, int64_t normalization, int64_t last_dim_size,
                       Tensor* ret0) {
  constexpr const char* kName = "aten::_fft_c2r";
  if (self->dtype != kC64 && self->dtype != kC128) fail_dtype(kName, self->dtype);
  Sizes dims = wrapped(self, dim, dim_len_, kName), sizes = sizes_of(self);
  if (dims.empty()) fail_operator(kName, "no dimension is transformed");
  const int64_t last = dims.back();
  if (self->sizes()[last] < last_dim_size / 2 + 1) fail_operator(kName, "the last dimension is too small");
  sizes[static_cast<size_t>(last)] = last_dim_size;
  const double scale = scale_of(normalization, sizes, dims);
  dims.pop_back();
  const Owned source = dims.empty() ? Owned(same(self)) : complex_transform(self, dims, 1, false);
  Owned made = empty(sizes, result_strides(source.get(), sizes, {last}), self->dtype == kC64 ? kF32 : kF64);
  transform(source.get(), made.get(), last, last_dim_size, false, scale);
  *ret0 = made.release();
  return 0;
}
