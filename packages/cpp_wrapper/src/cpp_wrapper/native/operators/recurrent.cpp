// Recurrent layers: an LSTM of one layer and direction, which captures of `torch.nn.LSTM` call.
#include "operator.h"
#include "panels.h"
#include "rows.h"

namespace wir {
namespace {

constexpr const char* kName = "aten::mkldnn_rnn_layer";
constexpr int64_t kGates = 4, kLstm = 2;
/// Numbers of gates that are computed ahead of their steps: they stay in the second-level cache.
constexpr int64_t kAhead = 1 << 17;
/// Fewer steps do not pay for packed weights.
constexpr int64_t kPackedSteps = 3;
constexpr int64_t kThreadVectors = 512;
/// Multiplications of a thread's part of a step that pay for the wait after the step, and those of a step that a product divides
/// among threads itself.
constexpr int64_t kSharedWork = 1 << 14, kDividedWork = 1 << 19;

[[noreturn, gnu::cold]] void refuse(const char* why) { fail_text("WIR927", {kName, " failed: ", why}); }

/// Element types of computation: float, or double for double.
template <class T> using Computed = std::conditional_t<std::is_same_v<T, double>, double, float>;

/// The two last dimensions of a tensor.
struct Plane {
  Tensor tensor;
  int64_t rows, columns, row_step, column_step;
  explicit Plane(Tensor of) : tensor(of) {
    const int64_t last = of->rank - 1, *sizes = of->sizes(), *strides = of->strides();
    rows = sizes[last - 1], columns = sizes[last];
    row_step = strides[last - 1], column_step = strides[last];
  }
};

/// Copies a strided matrix to rows of `to_row` numbers.
template <class T, class A> void copy_plane(const T* from, const Plane& plane, A* to, int64_t to_row) {
  for (int64_t i = 0; i < plane.rows; ++i) {
    const T* row = from + i * plane.row_step;
    for (int64_t j = 0; j < plane.columns; ++j) to[i * to_row + j] = converted<A>(row[j * plane.column_step]);
  }
}

struct Lstm {
  Tensor input, weight, recurrent, bias, recurrent_bias, hidden, cell;
  bool is_reversed;
  int64_t steps, batch, inputs, size;
  Tensor out, last_hidden, last_cell;
  /// Units of a gate in whole panels.
  int64_t padded() const { return (size + kPanel - 1) / kPanel * kPanel; }
  int64_t row() const { return kGates * padded(); }
};

/// The weights of the four gates: as rows of units, or packed, each gate in whole panels.
template <class A> struct Weights {
  const A* data;
  int64_t inputs, row_step, column_step;
  bool is_packed;
};

/// Computes c = beta * c + bias + a @ weights, for the gates of `rows` rows.
template <class A>
void multiply_gates(const Lstm& call, const Weights<A>& weights, int64_t rows, const A* a, int64_t a_row, A* c, const A* bias) {
  const int64_t padded = call.padded(), beta = bias == nullptr ? 1 : 0;
  Product<A> product{rows,         call.row(),          weights.inputs,   a, a_row, 1,
                     weights.data, weights.column_step, weights.row_step, c, call.row()};
  product.bias = bias;
  product.beta = static_cast<A>(beta);
  product.layout = weights.is_packed ? Layout::kPanels : Layout::kStrided;
  if (weights.is_packed || padded == call.size) return multiply_parallel(product);
  for (int64_t gate = 0; gate < kGates; ++gate) {
    product.n = call.size;
    product.b = weights.data + gate * call.size * weights.row_step;
    product.c = c + gate * padded;
    if (bias != nullptr) product.bias = bias + gate * padded;
    multiply_parallel(product);
  }
}

template <class A> void pack_gates(const Lstm& call, Weights<A>& weights, A* packed) {
  const int64_t count = packed_count(weights.inputs, call.size);
  parallel_for(kGates, std::max<int64_t>(1, kThreadVectors * kGates * kPanel / (4 * count + 1)), [&](int64_t begin, int64_t end) {
    for (int64_t gate = begin; gate < end; ++gate) {
      const A* from = weights.data + gate * call.size * weights.row_step;
      pack_panels(from, weights.column_step, weights.row_step, weights.inputs, call.size, packed + gate * count);
    }
  });
  weights.data = packed;
  weights.is_packed = true;
}

inline Floats magnitude(Floats x) { return reinterpret_cast<Floats>(reinterpret_cast<WholeLanes>(x) & INT32_MAX); }
/// Returns `x`, which is not negative, with the sign of `other`.
inline Floats with_sign_of(Floats x, Floats other) {
  return reinterpret_cast<Floats>(reinterpret_cast<WholeLanes>(x) | (reinterpret_cast<WholeLanes>(other) & INT32_MIN));
}
/// Returns 2^(-factor * |x|).
inline Floats decay(Floats x, float factor) { return exp2_nonpositive(magnitude(x) * -factor); }
constexpr float kLog2E = 1.44269504F;

/// Updates `kWidth` units. Sigmoids and tanh are fractions over powers; products of two divide once.
inline void update_lanes(const float* gates, int64_t step, float* cell, float* hidden) {
  const Floats in = load_lanes(gates), forget = load_lanes(gates + step);
  const Floats next = load_lanes(gates + 2 * step), out = load_lanes(gates + 3 * step);
  const Floats one = fill_lanes(1);
  const Floats in_power = decay(in, kLog2E), forget_power = decay(forget, kLog2E), out_power = decay(out, kLog2E);
  const Floats next_power = decay(next, 2 * kLog2E);
  const Floats in_part = in < 0 ? in_power : one, out_part = out < 0 ? out_power : one;
  const Floats forget_part = forget < 0 ? forget_power : one;
  const Floats next_part = with_sign_of(one - next_power, next);
  const Floats added = in_part * next_part / ((one + in_power) * (one + next_power));
  const Floats state = forget_part / (one + forget_power) * load_lanes(cell) + added;
  const Floats state_power = decay(state, 2 * kLog2E);
  store_lanes(cell, state);
  store_lanes(hidden, out_part * with_sign_of(one - state_power, state) / ((one + out_power) * (one + state_power)));
}
inline double sigmoid(double x) { return 1 / (1 + std::exp(-x)); }

/// Updates the cells and hidden states of a panel of units from its gates: of input, forgetting, new values and output. Panels
/// count over all rows.
template <class A> void update_panel(const Lstm& call, const A* gates, A* cell, A* hidden, int64_t panel) {
  const int64_t padded = call.padded(), panels = padded / kPanel;
  const A* from = gates + panel / panels * call.row() + panel % panels * kPanel;
  A *state = cell + panel * kPanel, *result = hidden + panel * kPanel;
  if constexpr (std::is_same_v<A, float>) {
    for (int64_t lane = 0; lane < kPanel; lane += kWidth) update_lanes(from + lane, padded, state + lane, result + lane);
  } else {
    for (int64_t lane = 0; lane < kPanel; ++lane, ++from) {
      state[lane] = sigmoid(from[padded]) * state[lane] + sigmoid(from[0]) * std::tanh(from[2 * padded]);
      result[lane] = sigmoid(from[3 * padded]) * std::tanh(state[lane]);
    }
  }
}

template <class A> void update(const Lstm& call, const A* gates, A* cell, A* hidden) {
  parallel_for(call.batch * call.padded() / kPanel, kThreadVectors, [&](int64_t begin, int64_t end) {
    for (int64_t panel = begin; panel < end; ++panel) update_panel(call, gates, cell, hidden, panel);
  });
}

/// Returns the threads that share each step of a layer with packed weights.
inline int64_t step_threads(const Lstm& call) {
#ifdef _OPENMP
  const int64_t work = call.batch * call.row() * call.size;
  if (omp_in_parallel() || work >= kDividedWork) return 1;
  return std::min({int64_t{omp_get_max_threads()}, call.padded() / kPanel, work / kSharedWork});
#else
  static_cast<void>(call);
  return 1;
#endif
}

/// A layer over steps, in memory of the scope.
template <class T> class Layer {
  using A = Computed<T>;

 public:
  explicit Layer(const Lstm& call)
      : call_(call),
        ahead_(std::clamp<int64_t>(kAhead / (call.batch * call.row() + 1), 1, std::max<int64_t>(call.steps, 1))),
        packs_input_(call.steps > ahead_),
        packs_recurrent_(call.steps >= kPackedSteps),
        copies_input_(!is_plain(call.input) || call.input->strides()[0] != call.batch * call.input->strides()[1]),
        memory_(needed() * static_cast<int64_t>(sizeof(A))) {}

  void compute() {
    A* memory = memory_.template as<A>();
    const auto take = [&](int64_t count) { return memory += count, memory - count; };
    const int64_t state = call_.batch * call_.padded();
    A *next = take(state), *bias = take(call_.row()), *hidden = take(state), *cell = take(state), *gates = take(ahead_ * call_.batch * call_.row());
    std::fill(bias, gates + ahead_ * call_.batch * call_.row(), A{0});
    add_bias(call_.bias, bias);
    add_bias(call_.recurrent_bias, bias);
    copy_plane(data_of<T>(call_.hidden), Plane(call_.hidden), hidden, call_.padded());
    copy_plane(data_of<T>(call_.cell), Plane(call_.cell), cell, call_.padded());
    Weights<A> weights = weights_of(call_.weight, take), recurrent = weights_of(call_.recurrent, take);
    if (packs_input_) pack_gates(call_, weights, take(packed_gates(call_.inputs)));
    if (packs_recurrent_) pack_gates(call_, recurrent, take(packed_gates(call_.size)));
    const int64_t threads = packs_recurrent_ ? step_threads(call_) : 1;
    A* copied = take(copies_input_ ? ahead_ * call_.batch * call_.inputs : 0);
    for (int64_t step = 0; step < call_.steps; step += ahead_) {
      const int64_t count = std::min(ahead_, call_.steps - step), first = call_.is_reversed ? call_.steps - step - count : step;
      multiply_inputs(weights, first, count, copied, gates, bias);
      if (threads > 1) {
        share_steps(threads, recurrent.data, first, count, gates, hidden, next, cell);
        if (count % 2 != 0) std::swap(hidden, next);
        continue;
      }
      for (int64_t i = 0; i < count; ++i) {
        const int64_t at = call_.is_reversed ? count - 1 - i : i;
        A* of_step = gates + at * call_.batch * call_.row();
        multiply_gates<A>(call_, recurrent, call_.batch, hidden, call_.padded(), of_step, nullptr);
        update(call_, of_step, cell, hidden);
        store_states(hidden, call_.out, (first + at) * call_.batch * call_.size);
      }
    }
    store_states(hidden, call_.last_hidden, 0);
    store_states(cell, call_.last_cell, 0);
  }

 private:
  /// Returns whether rows of a tensor are contiguous numbers of the computed type.
  static bool is_plain(Tensor tensor) { return std::is_same_v<T, A> && tensor->strides()[tensor->rank - 1] == 1; }
  int64_t packed_gates(int64_t inputs) const { return kGates * packed_count(inputs, call_.size); }
  int64_t needed() const {
    const int64_t rows = ahead_ * call_.batch, inputs = copies_input_ ? call_.inputs : 0;
    int64_t weights = std::is_same_v<T, A> ? 0 : kGates * call_.size * (call_.inputs + call_.size);
    if (packs_input_) weights += packed_gates(call_.inputs);
    if (packs_recurrent_) weights += packed_gates(call_.size);
    return call_.row() + 3 * call_.batch * call_.padded() + rows * (call_.row() + inputs) + weights;
  }

  void add_bias(Tensor bias, A* to) const {
    if (bias == nullptr) return;
    const int64_t step = bias->strides()[0];
    for (int64_t gate = 0; gate < kGates; ++gate) {
      const T* from = data_of<T>(bias) + gate * call_.size * step;
      for (int64_t i = 0; i < call_.size; ++i) to[gate * call_.padded() + i] += converted<A>(from[i * step]);
    }
  }
  template <class Take> Weights<A> weights_of(Tensor tensor, const Take& take) const {
    const Plane plane(tensor);
    if constexpr (std::is_same_v<T, A>) {
      return {data_of<A>(tensor), plane.columns, plane.row_step, plane.column_step, false};
    } else {
      A* copy = take(plane.rows * plane.columns);
      copy_plane(data_of<T>(tensor), plane, copy, plane.columns);
      return {copy, plane.columns, plane.columns, 1, false};
    }
  }
  /// Computes the parts of the gates that depend on inputs, of `count` steps.
  void multiply_inputs(const Weights<A>& weights, int64_t first, int64_t count, A* copied, A* gates, const A* bias) const {
    const int64_t* strides = call_.input->strides();
    const T* from = data_of<T>(call_.input) + first * strides[0];
    int64_t row = strides[1];
    if (copies_input_) {
      row = call_.inputs;
      for (int64_t i = 0; i < count; ++i) {
        copy_plane(from + i * strides[0], Plane(call_.input), copied + i * call_.batch * row, row);
      }
    } else if constexpr (std::is_same_v<T, A>) {
      copied = const_cast<A*>(from);
    }
    multiply_gates(call_, weights, count * call_.batch, static_cast<const A*>(copied), row, gates, bias);
  }
  void store_states(const A* states, Tensor tensor, int64_t offset) const {
    store_units(states, tensor, offset, 0, call_.size);
  }
  void store_units(const A* states, Tensor tensor, int64_t offset, int64_t begin, int64_t end) const {
    T* to = data_of<T>(tensor) + offset;
    for (int64_t i = 0; i < call_.batch; ++i) {
      const A* from = states + i * call_.padded();
      for (int64_t j = begin; j < end; ++j) to[i * call_.size + j] = converted<T>(from[j]);
    }
  }

  /// Computes `count` steps from the parts of their gates that depend on inputs. Each thread has some panels of units, and waits
  /// for the others after each step. States alternate between two buffers.
  void share_steps(int64_t threads, const A* packed, int64_t first, int64_t count, A* gates, A* hidden, A* next, A* cell) const {
#ifdef _OPENMP
    const int64_t panels = call_.padded() / kPanel;
#pragma omp parallel num_threads(static_cast<int>(threads))
    {
      const int64_t part = parts_of(panels, omp_get_num_threads()), begin = std::min(panels, omp_get_thread_num() * part);
      const int64_t end = std::min(panels, begin + part);
      A *from = hidden, *to = next;
      for (int64_t i = 0; i < count; ++i) {
        const int64_t at = call_.is_reversed ? count - 1 - i : i, offset = (first + at) * call_.batch * call_.size;
        A* of_step = gates + at * call_.batch * call_.row();
        if (begin < end) {
          multiply_panels_of_gates(packed, begin, end, from, of_step);
          for (int64_t row = 0; row < call_.batch; ++row) {
            for (int64_t panel = begin; panel < end; ++panel) update_panel(call_, of_step, cell, to, row * panels + panel);
          }
          store_units(to, call_.out, offset, begin * kPanel, std::min(call_.size, end * kPanel));
        }
        std::swap(from, to);
#pragma omp barrier
      }
    }
#else
    static_cast<void>(threads), static_cast<void>(packed), static_cast<void>(first), static_cast<void>(count);
    static_cast<void>(gates), static_cast<void>(hidden), static_cast<void>(next), static_cast<void>(cell);
#endif
  }

  /// Adds the product of the hidden state to panels of all gates, on this thread.
  void multiply_panels_of_gates(const A* packed, int64_t begin, int64_t end, const A* hidden, A* gates) const {
    const int64_t padded = call_.padded(), columns = (end - begin) * kPanel, gate_numbers = packed_count(call_.size, call_.size);
    for (int64_t gate = 0; gate < kGates; ++gate) {
      Product<A> product{call_.batch, columns, call_.size, hidden, padded, 1};
      product.b = packed + gate * gate_numbers + begin * kPanel * call_.size;
      product.c = gates + gate * padded + begin * kPanel, product.c_row = call_.row();
      product.layout = Layout::kPanels, product.beta = 1;
      multiply(product);
    }
  }

  const Lstm& call_;
  int64_t ahead_;
  bool packs_input_, packs_recurrent_, copies_input_;
  Scratch memory_;
};

void check_weights(const Lstm& call) {
  const auto is_matrix = [&](Tensor tensor, int64_t rows, int64_t columns) {
    return tensor->dtype == call.input->dtype && tensor->rank == 2 && tensor->sizes()[0] == rows && tensor->sizes()[1] == columns;
  };
  if (!is_matrix(call.weight, kGates * call.size, call.inputs)) refuse("`weight0` is not of 4 * hidden_size x inputs");
  if (!is_matrix(call.recurrent, kGates * call.size, call.size)) refuse("`weight1` is not of 4 * hidden_size x hidden_size");
  for (Tensor bias : {call.bias, call.recurrent_bias}) {
    if (bias == nullptr) continue;
    const bool has_shape = bias->rank == 1 && bias->sizes()[0] == kGates * call.size;
    if (!has_shape || bias->dtype != call.input->dtype) refuse("a bias is not of 4 * hidden_size");
  }
  for (Tensor state : {call.hidden, call.cell}) {
    const bool has_rank = state->rank == 2 || (state->rank == 3 && state->sizes()[0] == 1);
    if (!has_rank || state->dtype != call.input->dtype) refuse("a state is not of batch x hidden_size");
    const Plane plane(state);
    if (plane.rows != call.batch || plane.columns != call.size) refuse("a state is not of batch x hidden_size");
  }
}

}  // namespace
}  // namespace wir

using namespace wir;

WIR_OPERATOR(mkldnn_rnn_layer)
(Tensor input, Tensor weight0, Tensor weight1, Tensor weight2, Tensor weight3, Tensor hx_, Tensor cx_, int32_t reverse,
 const int64_t*, int64_t batch_sizes_len_, int64_t mode, int64_t hidden_size, int64_t, int32_t has_biases, int32_t,
 int32_t batch_first, int32_t, Tensor* ret0, Tensor* ret1, Tensor* ret2, Tensor* ret3) {
  if (mode != kLstm) refuse("the layer is not an LSTM");
  if (batch_sizes_len_ != 0) refuse("packed sequences are not supported");
  if (batch_first != 0) refuse("`batch_first` is not supported");
  if (input->rank != 3) refuse("the input is not of steps x batch x inputs");
  const int64_t* sizes = input->sizes();
  if (has_biases == 0) weight2 = weight3 = nullptr;
  Lstm call{input, weight0, weight1, weight2, weight3, hx_, cx_, reverse != 0, sizes[0], sizes[1], sizes[2], hidden_size,
            nullptr, nullptr, nullptr};
  check_weights(call);
  const int64_t out_sizes[] = {call.steps, call.batch, call.size}, none = 0;
  Owned out(new_tensor(3, out_sizes, nullptr, input->dtype)), hidden(new_tensor(hx_->rank, hx_->sizes(), nullptr, input->dtype));
  Owned cell(new_tensor(cx_->rank, cx_->sizes(), nullptr, input->dtype)), workspace(new_tensor(1, &none, nullptr, kU8));
  call.out = out.get(), call.last_hidden = hidden.get(), call.last_cell = cell.get();
  floats(input->dtype, kName, [&]<class T>() { Layer<T>(call).compute(); });
  *ret0 = out.release();
  *ret1 = hidden.release();
  *ret2 = cell.release();
  *ret3 = workspace.release();
  return 0;
}
