// Operators that draw from distributions: the numbers of torch's CPU generator, in its order of draws.
#include "random.h"

namespace wir {
namespace {

/// Creates a result as `empty_like` with its optional arguments.
Owned created_like(Tensor self, const int32_t* dtype, const int32_t* format, const char* name) {
  constexpr int32_t kPreserve = 1;
  const int32_t type = dtype != nullptr ? *dtype : self->dtype;
  if (format == nullptr || *format == kPreserve) return empty_like(self, type);
  return empty(sizes_of(self), strides_of_format(sizes_of(self), *format, name), type);
}

/// Creates a result like `self` whose elements are `draw()`, of a group of types.
template <class Draw> Owned drawn_like(Tensor self, const char* name, const Draw& draw) {
  Owned made = empty_like(self, self->dtype);
  const Lock lock(generator().mutex);
  floats(self->dtype, name, [&]<class T>() { fill<T>(made.get(), draw); });
  return made;
}

// --- bernoulli

void require_probability(double p, const char* name) {
  if (!(p >= 0 && p <= 1)) fail_operator(name, "a probability is not in [0, 1]");
}
void fill_bernoulli(Tensor tensor, double p, const char* name) {
  require_probability(p, name);
  const Lock lock(generator().mutex);
  numbers_and_bool(tensor->dtype, name, [&]<class T>() {
    fill<T>(tensor, [&] { return generator().uniform<double>() < p ? 1 : 0; });
  });
}

/// Returns the view of a tensor that broadcasts to `target`, with the dimensions of `in_memory_order(target)`.
Owned in_order_of(Tensor target, Tensor given, const char* name) {
  const Sizes sizes = sizes_of(target);
  if (broadcast(sizes, sizes_of(given), name) != sizes) fail_operator(name, "the probabilities have more elements");
  Sizes dims(sizes.size()), ordered, strides;
  std::iota(dims.begin(), dims.end(), 0);
  const int64_t *order = target->strides(), missing = target->rank - given->rank;
  std::stable_sort(dims.begin(), dims.end(), [&](int64_t a, int64_t b) { return order[a] > order[b]; });
  for (const int64_t dim : dims) {
    const bool is_repeated = dim < missing || given->sizes()[dim - missing] == 1;
    ordered.push_back(sizes[static_cast<size_t>(dim)]);
    strides.push_back(is_repeated ? 0 : given->strides()[dim - missing]);
  }
  return view_of(given, ordered, strides);
}

void fill_bernoulli(Tensor tensor, Tensor p, const char* name) {
  const Owned chances = in_order_of(tensor, p, name), ordered = in_memory_order(tensor);
  const Loop loop(sizes_of(ordered.get()), {ordered.get(), chances.get()});
  const Lock lock(generator().mutex);
  numbers_and_bool(tensor->dtype, name, [&]<class T>() {
    floats(p->dtype, name, [&]<class P>() {
      loop.run([&](unsigned char* const* at, const int64_t* steps, int64_t count) {
        for (int64_t i = 0; i < count; ++i) {
          const auto chance = converted<double>(*reinterpret_cast<const P*>(at[1] + i * steps[1]));
          require_probability(chance, name);
          const double drawn = std::is_same_v<P, double> ? generator().uniform<double>() : generator().uniform<float>();
          *reinterpret_cast<T*>(at[0] + i * steps[0]) = converted<T>(drawn < chance ? 1 : 0);
        }
      });
    });
  });
}

/// Creates the product of each element, its flag and a factor.
Owned masked_product(Tensor self, Tensor mask, double factor, const char* name) {
  Owned made = empty(sizes_of(self), dense_strides(sizes_of(self), &self, 1), self->dtype);
  floats(self->dtype, name, [&]<class T>() {
    using Wide = std::conditional_t<is_small_float<T>, float, T>;
    const auto scale = static_cast<Wide>(factor);
    Loop(sizes_of(self), {made.get(), self, mask}).run([&](unsigned char* const* at, const int64_t* steps, int64_t count) {
      for (int64_t i = 0; i < count; ++i) {
        const auto value = converted<Wide>(*reinterpret_cast<const T*>(at[1] + i * steps[1]));
        const Wide kept = value * static_cast<Wide>(*(at[2] + i * steps[2]));
        *reinterpret_cast<T*>(at[0] + i * steps[0]) = converted<T>(kept * scale);
      }
    });
  });
  return made;
}

// --- normal numbers with tensors of parameters

/// Creates normal numbers; null parameters are those of the standard distribution, or the given deviation.
Owned normal_of(Tensor mean, Tensor deviation, double both, const char* name) {
  const Tensor first = mean != nullptr ? mean : deviation;
  const bool has_both = mean != nullptr && deviation != nullptr;
  const Sizes sizes = has_both ? broadcast(sizes_of(mean), sizes_of(deviation), name) : sizes_of(first);
  Owned made = empty(sizes, first->dtype);
  fill_normal(made.get(), 0, deviation == nullptr ? both : 1, name);
  const double shift = mean == nullptr ? both : 0;
  const Owned deviations = deviation != nullptr ? contiguous(deviation, made->dtype) : nullptr;
  const Owned means = mean != nullptr ? contiguous(mean, made->dtype) : nullptr;
  bool is_negative = false;
  floats(made->dtype, name, [&]<class T>() {
    const Loop loop(sizes, {made.get(), deviations.get(), means.get()});
    loop.run([&](unsigned char* const* at, const int64_t* steps, int64_t count) {
      for (int64_t i = 0; i < count; ++i) {
        T& item = *reinterpret_cast<T*>(at[0] + i * steps[0]);
        if (deviations) {
          const auto factor = converted<double>(*reinterpret_cast<const T*>(at[1] + i * steps[1]));
          is_negative = is_negative || !(factor >= 0);
          item = converted<T>(converted<double>(item) * factor);
        }
        const double add = means ? converted<double>(*reinterpret_cast<const T*>(at[2] + i * steps[2])) : shift;
        item = converted<T>(converted<double>(item) + add);
      }
    });
  });
  if (is_negative) fail_operator(name, "a standard deviation is negative");
  return made;
}

// --- multinomial

/// Samples categories with replacement, by their cumulative weights.
template <class T> void sample_with_replacement(const T* weights, int64_t categories, int64_t* found, int64_t samples) {
  using Wide = std::conditional_t<is_small_float<T>, float, T>;
  std::vector<Wide> sums(static_cast<size_t>(categories));
  Wide sum = 0;
  for (int64_t i = 0; i < categories; ++i) sums[static_cast<size_t>(i)] = sum += converted<Wide>(weights[i]);
  for (Wide& item : sums) item /= sum;
  sums.back() = 1;
  for (int64_t i = 0; i < samples; ++i) {
    const double drawn = generator().uniform<double>();
    const auto is_below = [](Wide item, double value) { return static_cast<double>(item) < value; };
    found[i] = std::lower_bound(sums.begin(), sums.end(), drawn, is_below) - sums.begin();
  }
}

/// Orders categories by their weights over exponential numbers; the first ones are a sample without replacement.
template <class T>
void sample_distinct(const T* weights, const T* exponential, int64_t categories, int64_t* found, int64_t samples) {
  using Wide = std::conditional_t<is_small_float<T>, float, T>;
  std::vector<std::pair<Wide, int64_t>> ranks(static_cast<size_t>(categories));
  for (int64_t i = 0; i < categories; ++i) {
    const T rank = converted<T>(converted<Wide>(weights[i]) / converted<Wide>(exponential[i]));
    ranks[static_cast<size_t>(i)] = {converted<Wide>(rank), i};
  }
  std::partial_sort(ranks.begin(), ranks.begin() + samples, ranks.end(), [](const auto& a, const auto& b) {
    return a.first > b.first || (a.first == b.first && a.second < b.second);
  });
  for (int64_t i = 0; i < samples; ++i) found[i] = ranks[static_cast<size_t>(i)].second;
}

template <class T> void require_weights(const T* weights, int64_t categories, const char* name) {
  double sum = 0;
  for (int64_t i = 0; i < categories; ++i) {
    const auto weight = converted<double>(weights[i]);
    if (!(weight >= 0 && weight < std::numeric_limits<double>::infinity())) {
      fail_operator(name, "a weight is negative or not finite");
    }
    sum += weight;
  }
  if (sum == 0) fail_operator(name, "a sum of weights is zero");
}

// --- poisson

/// A Poisson number: products of uniform numbers below 10, else W. Hoermann's transformed rejection (PTRS, 1993).
double poisson_number(double rate) {
  const auto uniform = [] { return generator().uniform<double>(); };
  if (rate == 0) return 0;
  if (rate < 10) {
    const double limit = std::exp(-rate);
    double number = 0;
    for (double product = uniform(); product > limit; product *= uniform()) ++number;
    return number;
  }
  const double b = 0.931 + 2.53 * std::sqrt(rate), a = -0.059 + 0.02483 * b;
  const double inverse_alpha = 1.1239 + 1.1328 / (b - 3.4), fast = 0.9277 - 3.6224 / (b - 2);
  for (;;) {
    const double u = uniform() - 0.5, v = uniform(), distance = 0.5 - std::fabs(u);
    const double k = std::floor((2 * a / distance + b) * u + rate + 0.43);
    if (distance >= 0.07 && v <= fast) return k;
    if (k < 0 || (distance < 0.013 && v > distance)) continue;
    const double density = -rate + k * std::log(rate) - std::lgamma(k + 1);
    if (std::log(v) + std::log(inverse_alpha) - std::log(a / (distance * distance) + b) <= density) return k;
  }
}

}  // namespace
}  // namespace wir

using namespace wir;

WIR_OPERATOR(rand_like)(Tensor self, int32_t* dtype, int32_t*, int32_t*, int32_t, int32_t*, int32_t* memory_format,
                        Tensor* ret0) {
  Owned made = created_like(self, dtype, memory_format, "aten::rand_like");
  fill_uniform(made.get(), 0, 1, "aten::rand_like");
  *ret0 = made.release();
  return 0;
}

WIR_OPERATOR(randn_like)(Tensor self, int32_t* dtype, int32_t*, int32_t*, int32_t, int32_t*, int32_t* memory_format,
                         Tensor* ret0) {
  Owned made = created_like(self, dtype, memory_format, "aten::randn_like");
  fill_normal(made.get(), 0, 1, "aten::randn_like");
  *ret0 = made.release();
  return 0;
}

WIR_OPERATOR(randint_like)(Tensor self, int64_t high, int32_t* dtype, int32_t*, int32_t*, int32_t, int32_t*,
                           int32_t* memory_format, Tensor* ret0) {
  Owned made = created_like(self, dtype, memory_format, "aten::randint_like");
  fill_integers(made.get(), 0, high, "aten::randint_like");
  *ret0 = made.release();
  return 0;
}

WIR_OPERATOR(randint_like_low_dtype)(Tensor self, int64_t low, int64_t high, int32_t* dtype, int32_t*, int32_t*, int32_t,
                                     int32_t*, int32_t* memory_format, Tensor* ret0) {
  Owned made = created_like(self, dtype, memory_format, "aten::randint_like.low_dtype");
  fill_integers(made.get(), low, high, "aten::randint_like.low_dtype");
  *ret0 = made.release();
  return 0;
}

WIR_OPERATOR(normal_Tensor_float)(Tensor mean, double std, Tensor* ret0) {
  *ret0 = normal_of(mean, nullptr, std, "aten::normal.Tensor_float").release();
  return 0;
}

WIR_OPERATOR(normal_float_Tensor)(double mean, Tensor std, Tensor* ret0) {
  *ret0 = normal_of(nullptr, std, mean, "aten::normal.float_Tensor").release();
  return 0;
}

WIR_OPERATOR(normal_Tensor_Tensor)(Tensor mean, Tensor std, Tensor* ret0) {
  *ret0 = normal_of(mean, std, 0, "aten::normal.Tensor_Tensor").release();
  return 0;
}

WIR_OPERATOR(exponential)(Tensor self, double lambd, Tensor* ret0) {
  constexpr const char* kName = "aten::exponential";
  if (!(lambd > 0)) fail_operator(kName, "lambd is not positive");
  *ret0 = drawn_like(self, kName, [&] { return -1 / lambd * std::log1p(-generator().uniform<double>()); }).release();
  return 0;
}

WIR_OPERATOR(geometric)(Tensor self, double p, Tensor* ret0) {
  constexpr const char* kName = "aten::geometric";
  if (!(p > 0 && p < 1)) fail_operator(kName, "the probability is not in (0, 1)");
  Owned made = empty_like(self, self->dtype);
  const Lock lock(generator().mutex);
  reals(self->dtype, kName, [&]<class T>() {
    fill<T>(made.get(), [&] { return std::ceil(std::log(generator().uniform<double>()) / std::log1p(-p)); });
  });
  *ret0 = made.release();
  return 0;
}

WIR_OPERATOR(cauchy)(Tensor self, double median, double sigma, Tensor* ret0) {
  constexpr const char* kName = "aten::cauchy";
  if (!(sigma > 0)) fail_operator(kName, "sigma is not positive");
  const auto draw = [&] { return median + sigma * std::tan(kPi * (generator().uniform<double>() - 0.5)); };
  *ret0 = drawn_like(self, kName, draw).release();
  return 0;
}

WIR_OPERATOR(log_normal)(Tensor self, double mean, double std, Tensor* ret0) {
  constexpr const char* kName = "aten::log_normal";
  if (!(std > 0)) fail_operator(kName, "the standard deviation is not positive");
  *ret0 = drawn_like(self, kName, [&] { return std::exp(generator().normal() * std + mean); }).release();
  return 0;
}

WIR_OPERATOR(bernoulli)(Tensor self, Tensor* ret0) {
  Owned made = empty(sizes_of(self), self->dtype);
  fill_bernoulli(made.get(), self, "aten::bernoulli");
  *ret0 = made.release();
  return 0;
}

WIR_OPERATOR(bernoulli_p)(Tensor self, double p, Tensor* ret0) {
  Owned made = empty(sizes_of(self), self->dtype);
  fill_bernoulli(made.get(), p, "aten::bernoulli.p");
  *ret0 = made.release();
  return 0;
}

WIR_OPERATOR(bernoulli_Tensor)(Tensor self, Tensor p, Tensor* ret0) {
  Owned made = empty_like(self, self->dtype);
  fill_bernoulli(made.get(), p, "aten::bernoulli.Tensor");
  *ret0 = made.release();
  return 0;
}

WIR_OPERATOR(bernoulli__float)(Tensor self, double p) {
  fill_bernoulli(self, p, "aten::bernoulli_.float");
  return 0;
}

WIR_OPERATOR(bernoulli__Tensor)(Tensor self, Tensor p) {
  fill_bernoulli(self, p, "aten::bernoulli_.Tensor");
  return 0;
}

WIR_OPERATOR(native_dropout)(Tensor input, double p, int32_t* train, Tensor* ret0, Tensor* ret1) {
  constexpr const char* kName = "aten::native_dropout";
  if (input->count == 0) {
    *ret1 = empty_like(input, input->dtype).release();
    *ret0 = clone_like(input).release();
    return 0;
  }
  Owned mask = empty_like(input, kBool);
  if (train == nullptr || *train != 0) {
    fill_bernoulli(mask.get(), 1 - p, kName);
    *ret0 = masked_product(input, mask.get(), 1 - p == 0 ? 0 : 1 / (1 - p), kName).release();
  } else {
    std::memset(mask->data(), 1, static_cast<size_t>(mask->count));
    *ret0 = clone_like(input).release();
  }
  *ret1 = mask.release();
  return 0;
}

WIR_OPERATOR(rrelu_with_noise_functional)(Tensor self, Tensor noise, double lower, double upper, int32_t training, Tensor* ret0,
                                          Tensor* ret1) {
  constexpr const char* kName = "aten::rrelu_with_noise_functional";
  if (sizes_of(noise) != sizes_of(self)) fail_operator(kName, "the noise has another size");
  if (noise->dtype != self->dtype) fail_dtype(kName, noise->dtype);
  Owned made = empty_like(self, self->dtype), drawn = clone_like(noise);
  const Lock lock(generator().mutex);
  floats(self->dtype, kName, [&]<class T>() {
    using Wide = std::conditional_t<is_small_float<T>, float, T>;
    const Loop loop(sizes_of(self), {made.get(), self, drawn.get()});
    loop.run([&](unsigned char* const* at, const int64_t* steps, int64_t count) {
      for (int64_t i = 0; i < count; ++i) {
        const T value = *reinterpret_cast<const T*>(at[1] + i * steps[1]);
        T& result = *reinterpret_cast<T*>(at[0] + i * steps[0]);
        const bool is_positive = converted<Wide>(value) > 0;
        T slope = converted<T>(is_positive ? 1.0 : (lower + upper) / 2);
        if (training != 0) {
          if (!is_positive) slope = converted<T>(generator().uniform<double>() * (upper - lower) + lower);
          *reinterpret_cast<T*>(at[2] + i * steps[2]) = slope;
        }
        result = is_positive ? value : converted<T>(converted<Wide>(value) * converted<Wide>(slope));
      }
    });
  });
  *ret0 = made.release();
  *ret1 = drawn.release();
  return 0;
}

WIR_OPERATOR(multinomial)(Tensor self, int64_t num_samples, int32_t replacement, Tensor* ret0) {
  constexpr const char* kName = "aten::multinomial";
  if (self->rank != 1 && self->rank != 2) fail_operator(kName, "the weights do not have one or two dimensions");
  const int64_t categories = self->sizes()[self->rank - 1], rows = self->rank == 1 ? 1 : self->sizes()[0];
  if (num_samples <= 0) fail_operator(kName, "the number of samples is not positive");
  if (replacement == 0 && num_samples > categories) fail_operator(kName, "there are more samples than categories");
  Owned made = empty(self->rank == 1 ? Sizes{num_samples} : Sizes{rows, num_samples}, kI64);
  const Owned weights = contiguous(self);
  floats(self->dtype, kName, [&]<class T>() {
    const T* items = data_of<T>(weights.get());
    int64_t* found = data_of<int64_t>(made.get());
    for (int64_t row = 0; row < rows; ++row) require_weights(items + row * categories, categories, kName);
    if (replacement != 0 && num_samples > 1) {
      const Lock lock(generator().mutex);
      for (int64_t row = 0; row < rows; ++row) {
        sample_with_replacement(items + row * categories, categories, found + row * num_samples, num_samples);
      }
      return;
    }
    const Owned numbers = drawn_like(self, kName, [] { return -std::log1p(-generator().uniform<double>()); });
    const Owned drawn = contiguous(numbers.get());
    for (int64_t row = 0; row < rows; ++row) {
      const T* exponential = data_of<T>(drawn.get()) + row * categories;
      sample_distinct(items + row * categories, exponential, categories, found + row * num_samples, num_samples);
    }
  });
  *ret0 = made.release();
  return 0;
}

WIR_OPERATOR(poisson)(Tensor self, Tensor* ret0) {
  constexpr const char* kName = "aten::poisson";
  Owned made = empty(sizes_of(self), self->dtype);
  const Lock lock(generator().mutex);
  floats(self->dtype, kName, [&]<class T>() {
    Loop(sizes_of(self), {made.get(), self}).run([&](unsigned char* const* at, const int64_t* steps, int64_t count) {
      for (int64_t i = 0; i < count; ++i) {
        const auto rate = converted<double>(*reinterpret_cast<const T*>(at[1] + i * steps[1]));
        if (!(rate >= 0)) fail_operator(kName, "a rate is negative");
        *reinterpret_cast<T*>(at[0] + i * steps[0]) = converted<T>(poisson_number(rate));
      }
    });
  });
  *ret0 = made.release();
  return 0;
}
