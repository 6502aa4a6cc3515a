// Connectionist temporal classification: the loss of sequences of labels without alignment, and its gradient.
//
// A target of n labels becomes 2n + 1 states: a blank before, between and after the labels. `log_alpha` has the logarithms of the
// probabilities of beginnings that end in a state.
#include "layouts.h"

#include <limits>

namespace wir {
namespace {

/// Checked arguments of a batch.
struct Batch {
  Tensor log_probs;  // steps x items x labels
  Owned targets;     // of type i64, with one or two dimensions
  Sizes steps, lengths, offsets;  // of each item; `offsets`: of its first target
  int64_t target_step = 1, longest = 0, blank = 0;

  int64_t items() const { return log_probs->sizes()[1]; }
  int64_t most_steps() const { return log_probs->sizes()[0]; }
  int64_t labels() const { return log_probs->sizes()[2]; }
  /// The label of a state.
  int64_t label(int64_t item, int64_t state) const {
    if (state % 2 == 0) return blank;
    return data_of<int64_t>(targets.get())[offsets[static_cast<size_t>(item)] + state / 2 * target_step];
  }
  /// True if a state may follow the one two before it: another label, not a blank.
  bool may_skip(int64_t item, int64_t state) const { return state > 1 && label(item, state - 2) != label(item, state); }
};

/// Reads lengths from a list, or from a tensor of integers.
Sizes lengths_of(Tensor given, const char* name) {
  if (given->rank != 1 || is_float(given->dtype) || is_complex(given->dtype)) {
    fail_operator(name, "the lengths are not a vector of integers");
  }
  const Owned dense = contiguous(given, kI64);
  return Sizes(data_of<int64_t>(dense.get()), data_of<int64_t>(dense.get()) + dense->count);
}

void check_lengths(const Batch& batch, const char* name) {
  const auto items = static_cast<size_t>(batch.items());
  if (batch.steps.size() != items || batch.lengths.size() != items) fail_operator(name, "there is not one length for each item");
  for (const int64_t steps : batch.steps) {
    if (steps < 0 || steps > batch.most_steps()) fail_operator(name, "the length of an input is not within the input");
  }
  for (const int64_t length : batch.lengths) {
    if (length < 0) fail_operator(name, "the length of a target is negative");
  }
}

Batch batch_of(Tensor log_probs, Tensor targets, const Sizes& steps, const Sizes& lengths, int64_t blank, const char* name) {
  if (log_probs->rank != 3) fail_operator(name, "the probabilities do not have three dimensions");
  if (targets->dtype != kI64 && targets->dtype != kI32) fail_dtype(name, targets->dtype);
  if (targets->rank != 1 && targets->rank != 2) fail_operator(name, "the targets have neither one nor two dimensions");
  Batch batch{log_probs, contiguous(targets, kI64), steps, lengths, {}, 1, 0, blank};
  if (blank < 0 || blank >= batch.labels()) fail_operator(name, "the blank is no label");
  check_lengths(batch, name);
  const bool is_matrix = targets->rank == 2;
  if (is_matrix && targets->sizes()[0] != batch.items()) fail_operator(name, "there is not one target for each item");
  int64_t total = 0;
  for (size_t item = 0; item < lengths.size(); ++item) {
    batch.offsets.push_back(is_matrix ? static_cast<int64_t>(item) * targets->sizes()[1] : total);
    total += lengths[item];
    batch.longest = std::max(batch.longest, lengths[item]);
  }
  const bool fits = is_matrix ? batch.longest <= targets->sizes()[1] : total == targets->sizes()[0];
  if (!fits) fail_operator(name, "the lengths of the targets are not those of their labels");
  for (int64_t item = 0; item < batch.items(); ++item) {
    for (int64_t i = 0; i < lengths[static_cast<size_t>(item)]; ++i) {
      const int64_t label = batch.label(item, 2 * i + 1);
      if (label < 0 || label >= batch.labels()) fail_operator(name, "a target is no label");
    }
  }
  return batch;
}

template <class T> constexpr T kNever = -std::numeric_limits<T>::infinity();

/// log(exp(a) + exp(b) + exp(c)) without overflow.
template <class T> T log_sum(T a, T b, T c = kNever<T>) {
  const T most = std::max(a, std::max(b, c)), high = most == kNever<T> ? T{0} : most;
  return std::log(std::exp(a - high) + std::exp(b - high) + std::exp(c - high)) + high;
}

/// The logarithms of probabilities of an item: a row for each step.
template <class T> struct Item {
  const Batch& batch;
  const T* probs;  // contiguous, as in the batch
  int64_t index;

  int64_t steps() const { return batch.steps[static_cast<size_t>(index)]; }
  int64_t length() const { return batch.lengths[static_cast<size_t>(index)]; }
  T prob(int64_t step, int64_t label) const { return probs[(step * batch.items() + index) * batch.labels() + label]; }
  T prob_of_state(int64_t step, int64_t state) const { return prob(step, batch.label(index, state)); }
};

/// Fills the rows of an item's `log_alpha`, and returns its loss.
template <class T> T run_forward(const Item<T>& item, T* alpha, int64_t width) {
  const int64_t states = 2 * item.length() + 1;
  if (item.steps() == 0) return item.length() == 0 ? T{0} : -kNever<T>;
  alpha[0] = item.prob(0, item.batch.blank);
  if (states > 1) alpha[1] = item.prob_of_state(0, 1);
  for (int64_t step = 1; step < item.steps(); ++step) {
    const T* before = alpha + (step - 1) * width;
    for (int64_t s = 0; s < states; ++s) {
      const T one = s > 0 ? before[s - 1] : kNever<T>, two = item.batch.may_skip(item.index, s) ? before[s - 2] : kNever<T>;
      alpha[step * width + s] = log_sum(before[s], one, two) + item.prob_of_state(step, s);
    }
  }
  const T* last = alpha + (item.steps() - 1) * width;
  return -(states > 1 ? log_sum(last[states - 1], last[states - 2]) : last[0]);
}

/// Adds the probability of a state at a step to that of its label.
template <class T> void add_state(T* gradient, int64_t label, T value) {
  gradient[label] = gradient[label] == kNever<T> ? value : log_sum(gradient[label], value);
}

/// Fills an item's part of the gradient, whose steps are `row` numbers apart. `beta` is memory for two rows of states.
template <class T> void run_backward(const Item<T>& item, const T* alpha, int64_t width, T factor, T loss, T* gradient, T* beta) {
  const int64_t states = 2 * item.length() + 1, labels = item.batch.labels(), row = item.batch.items() * labels;
  T *after = beta, *now = beta + width;
  for (int64_t step = 0; step < item.batch.most_steps(); ++step) {
    std::fill_n(gradient + step * row, labels, step < item.steps() ? kNever<T> : T{0});
  }
  for (int64_t step = item.steps() - 1; step >= 0; --step) {
    const bool is_last = step == item.steps() - 1;
    for (int64_t s = states - 1; s >= 0; --s) {
      T sum = is_last && s < states - 2 ? kNever<T> : T{0};
      if (!is_last) {
        const T one = s + 1 < states ? after[s + 1] : kNever<T>;
        const bool may_skip = s + 2 < states && item.batch.may_skip(item.index, s + 2);
        sum = log_sum(after[s], one, may_skip ? after[s + 2] : kNever<T>);
      }
      now[s] = sum + item.prob_of_state(step, s);
      if (!is_last || s >= states - 2) {
        add_state(gradient + step * row, item.batch.label(item.index, s), alpha[step * width + s] + now[s]);
      }
    }
    std::swap(after, now);
    for (int64_t label = 0; label < labels; ++label) {
      const T prob = item.prob(step, label);
      T& found = gradient[step * row + label];
      found = (std::exp(prob) - std::exp(found + loss - prob)) * factor;
    }
  }
}

/// The types of probabilities that torch has.
template <class Body> void wide_floats(int32_t dtype, const char* name, const Body& body) {
  if (dtype == kF32) return body.template operator()<float>();
  if (dtype == kF64) return body.template operator()<double>();
  fail_dtype(name, dtype);
}

void compute_loss(const Batch& batch, const char* name, Tensor* ret0, Tensor* ret1) {
  const int64_t width = 2 * batch.longest + 1, items = batch.items();
  const Owned probs = contiguous(batch.log_probs);
  Owned losses = empty({items}, probs->dtype), log_alpha = empty({items, batch.most_steps(), width}, probs->dtype);
  wide_floats(probs->dtype, name, [&]<class T>() {
    T* alpha = data_of<T>(log_alpha.get());
    std::fill_n(alpha, log_alpha->count, kNever<T>);
    parallel_for(items, 1, [&](int64_t begin, int64_t end) {
      for (int64_t index = begin; index < end; ++index) {
        const Item<T> item{batch, data_of<T>(probs.get()), index};
        data_of<T>(losses.get())[index] = run_forward(item, alpha + index * batch.most_steps() * width, width);
      }
    });
  });
  *ret0 = losses.release();
  *ret1 = log_alpha.release();
}

/// Results of a forward call, and the gradient of its losses.
struct ForwardResults {
  Tensor grad, losses, log_alpha;
  bool zero_infinity;
};

Owned compute_gradient(const Batch& batch, const ForwardResults& given, const char* name) {
  const int64_t items = batch.items(), labels = batch.labels(), steps = batch.most_steps();
  const int64_t width = given.log_alpha->rank == 3 ? given.log_alpha->sizes()[2] : 0;
  const int32_t dtype = batch.log_probs->dtype;
  if (given.log_alpha->dtype != dtype || given.losses->dtype != dtype || given.grad->dtype != dtype) {
    fail_operator(name, "its arguments have different element types");
  }
  const bool fits = width > 2 * batch.longest && given.log_alpha->sizes()[0] == items && given.log_alpha->sizes()[1] == steps;
  if (!fits || given.losses->rank != 1 || given.losses->count != items || given.grad->rank != 1 || given.grad->count != items) {
    fail_operator(name, "the sizes of its arguments do not match");
  }
  const Owned probs = contiguous(batch.log_probs), alpha = contiguous(given.log_alpha), losses = contiguous(given.losses);
  const Owned factors = contiguous(given.grad);
  Owned gradient = empty(sizes_of(batch.log_probs), dtype);
  wide_floats(dtype, name, [&]<class T>() {
    T* to = data_of<T>(gradient.get());
    parallel_for(items, 1, [&](int64_t begin, int64_t end) {
      std::vector<T> beta(static_cast<size_t>(2 * width));
      for (int64_t index = begin; index < end; ++index) {
        const T loss = data_of<T>(losses.get())[index];
        if (given.zero_infinity && loss == -kNever<T>) {
          for (int64_t step = 0; step < steps; ++step) std::fill_n(to + (step * items + index) * labels, labels, T{0});
          continue;
        }
        const Item<T> item{batch, data_of<T>(probs.get()), index};
        const T* rows = data_of<T>(alpha.get()) + index * steps * width;
        run_backward(item, rows, width, data_of<T>(factors.get())[index], loss, to + index * labels, beta.data());
      }
    });
  });
  return gradient;
}

}  // namespace
}  // namespace wir

using namespace wir;

WIR_OPERATOR(_ctc_loss)
(Tensor log_probs, Tensor targets, const int64_t* input_lengths, int64_t input_lengths_len_, const int64_t* target_lengths,
 int64_t target_lengths_len_, int64_t blank, int32_t, Tensor* ret0, Tensor* ret1) {
  constexpr const char* kName = "aten::_ctc_loss";
  const Sizes steps(input_lengths, input_lengths + input_lengths_len_);
  const Sizes lengths(target_lengths, target_lengths + target_lengths_len_);
  compute_loss(batch_of(log_probs, targets, steps, lengths, blank, kName), kName, ret0, ret1);
  return 0;
}

WIR_OPERATOR(_ctc_loss_Tensor)
(Tensor log_probs, Tensor targets, Tensor input_lengths, Tensor target_lengths, int64_t blank, int32_t, Tensor* ret0,
 Tensor* ret1) {
  constexpr const char* kName = "aten::_ctc_loss.Tensor";
  const Sizes steps = lengths_of(input_lengths, kName), lengths = lengths_of(target_lengths, kName);
  compute_loss(batch_of(log_probs, targets, steps, lengths, blank, kName), kName, ret0, ret1);
  return 0;
}

WIR_OPERATOR(_ctc_loss_backward)
(Tensor grad, Tensor log_probs, Tensor targets, const int64_t* input_lengths, int64_t input_lengths_len_,
 const int64_t* target_lengths, int64_t target_lengths_len_, Tensor neg_log_likelihood, Tensor log_alpha, int64_t blank,
 int32_t zero_infinity, Tensor* ret0) {
  constexpr const char* kName = "aten::_ctc_loss_backward";
  const Sizes steps(input_lengths, input_lengths + input_lengths_len_);
  const Sizes lengths(target_lengths, target_lengths + target_lengths_len_);
  const ForwardResults given{grad, neg_log_likelihood, log_alpha, zero_infinity != 0};
  *ret0 = compute_gradient(batch_of(log_probs, targets, steps, lengths, blank, kName), given, kName).release();
  return 0;
}

WIR_OPERATOR(_ctc_loss_backward_Tensor)
(Tensor grad, Tensor log_probs, Tensor targets, Tensor input_lengths, Tensor target_lengths, Tensor neg_log_likelihood,
 Tensor log_alpha, int64_t blank, int32_t zero_infinity, Tensor* ret0) {
  constexpr const char* kName = "aten::_ctc_loss_backward.Tensor";
  const Sizes steps = lengths_of(input_lengths, kName), lengths = lengths_of(target_lengths, kName);
  const ForwardResults given{grad, neg_log_likelihood, log_alpha, zero_infinity != 0};
  *ret0 = compute_gradient(batch_of(log_probs, targets, steps, lengths, blank, kName), given, kName).release();
  return 0;
}
