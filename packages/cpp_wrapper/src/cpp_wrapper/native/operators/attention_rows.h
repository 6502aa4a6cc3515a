// Attention over the keys of one head: blocks of many rows, whose scores have a row of lanes for each key, and few rows.
#pragma once
#include "attention.h"
#include "row_pairs.h"

namespace wir {
namespace {

constexpr float kLog2E = 1.44269504F, kLn2 = 0.693147181F;
constexpr int64_t kBlockRows = 32, kBlockKeys = 256, kFewRows = 8;
constexpr int64_t kFewKeys = 1024;
/// Scores of a block of many rows, or of few rows, each followed by a vector.
constexpr int64_t kScores = std::max(kBlockRows * kBlockKeys, kFewRows * (kFewKeys + kWidth));

/// Computes rows of a call, in memory of the caller. Scores are in units of log2: exponentials are powers of two.
/// `kPairs`, of bfloat16: products of many rows multiply pairs of numbers, and weights are rounded, as torch's are.
template <class T, bool kPairs = false> class AttentionRows {
 public:
  explicit AttentionRows(const Attention& call) : call_(call) {
    width_ = whole_vectors(call.width);
    depth_ = whole_vectors(call.depth);
    const bool key_is_loose = call.key->strides()[3] != 1, value_is_loose = call.value->strides()[3] != 1 || depth_ != call.depth;
    packs_key_ = !kPairs || few() || key_is_loose || call.width % 2 != 0;
    packs_ = few() ? key_is_loose || value_is_loose || width_ != call.width : key_is_loose || value_is_loose || !kIsFloat;
    head_blocks_ = few() ? 1 : (call.rows() + kBlockRows - 1) / kBlockRows;
  }
  /// The number of blocks: each has rows of one head of keys.
  int64_t blocks() const { return call_.batch * call_.shared_heads * head_blocks_; }
  /// Floats of memory for a thread.
  int64_t memory() const {
    const int64_t rows = few() ? kFewRows : kBlockRows;
    return kScores + rows * (width_ + depth_ + 2) + kWidth * (width_ + kBlockKeys) + key_memory() + value_memory();
  }
  void compute(int64_t first_block, int64_t last_block, float* memory) const {
    Work work = carve(memory);
    int64_t packed = -1;
    for (int64_t block = first_block; block < last_block; ++block) {
      const int64_t head = block / head_blocks_, first = block % head_blocks_ * kBlockRows;
      work.batch = head / call_.shared_heads;
      work.head = head % call_.shared_heads;
      if (packs_ && packed != head) uses_pairs() ? pack_pairs(work) : pack(work);
      packed = head;
      compute_block(work, first, few() ? call_.rows() : std::min(kBlockRows, call_.rows() - first));
    }
  }

 private:
  static constexpr bool kIsFloat = std::is_same_v<T, float>;
  struct Work {
    int64_t batch, head;  // of key and value
    float *scores, *queries, *sums, *highest, *totals, *buffer, *key, *value;
  };
  /// The head of a row, and its position there.
  struct Row {
    int64_t head, position;
  };

  bool few() const { return call_.rows() <= kFewRows; }
  bool uses_pairs() const { return kPairs && !few(); }
  /// Keys that any row sees.
  int64_t visible_keys() const { return call_.is_causal ? std::min(call_.keys, call_.queries) : call_.keys; }
  /// Floats of copies of a head.
  int64_t key_memory() const { return !packs_ || !packs_key_ ? 0 : call_.keys * (uses_pairs() ? key_words() : width_); }
  int64_t value_memory() const { return !packs_ ? 0 : (uses_pairs() ? words_of(call_.keys) : call_.keys) * depth_; }
  /// Words of a row of keys in pairs.
  int64_t key_words() const { return whole_vectors(words_of(call_.width)); }
  Row row_at(const Work& work, int64_t row) const {
    return {work.head * call_.group() + row / call_.queries, row % call_.queries};
  }
  const T* head_of(Tensor tensor, const Work& work) const {
    return data_of<T>(tensor) + work.batch * tensor->strides()[0] + work.head * tensor->strides()[1];
  }

  Work carve(float* memory) const {
    const int64_t rows = few() ? kFewRows : kBlockRows;
    Work work{};
    const auto take = [&](int64_t count) { return memory += count, memory - count; };
    work.scores = take(kScores);
    work.queries = take(rows * width_);
    work.sums = take(rows * depth_);
    work.highest = take(rows);
    work.totals = take(rows);
    work.buffer = take(kWidth * (width_ + kBlockKeys));
    work.key = take(key_memory());
    work.value = memory;
    return work;
  }

  /// Copies key and value of a head as rows of floats, in whole vectors.
  void pack(const Work& work) const {
    const int64_t *k = call_.key->strides(), *v = call_.value->strides();
    const T *key = head_of(call_.key, work), *value = head_of(call_.value, work);
    for (int64_t i = 0; i < call_.keys; ++i) copy_row(key + i * k[2], k[3], call_.width, 1, work.key + i * width_);
    for (int64_t i = 0; i < call_.keys; ++i) copy_row(value + i * v[2], v[3], call_.depth, 1, work.value + i * depth_);
  }

  /// Copies the key of a head as rows of pairs if its own are not, and the value as rows of words with two positions.
  void pack_pairs(const Work& work) const {
    const int64_t *k = call_.key->strides(), *v = call_.value->strides(), visible = visible_keys();
    const T *key = head_of(call_.key, work), *value = head_of(call_.value, work);
    if constexpr (kPairs) {
      for (int64_t i = 0; packs_key_ && i < visible; ++i) {
        copy_pairs(key + i * k[2], k[3], call_.width, work.key + i * key_words());
      }
      for (int64_t i = 0; i < visible; i += 2) {
        const T* next = i + 1 < visible ? value + (i + 1) * v[2] : nullptr;
        join_rows(value + i * v[2], next, v[3], call_.depth, reinterpret_cast<uint32_t*>(work.value + i / 2 * depth_));
      }
    }
  }

  void compute_block(const Work& work, int64_t first, int64_t count) const {
    if (!few()) {
      many_rows(work, first, count);
    } else if (packs_) {
      few_rows(work, work.key, width_, work.value, depth_);
    } else {
      few_rows(work, head_of(call_.key, work), call_.key->strides()[2], head_of(call_.value, work), call_.value->strides()[2]);
    }
    store(work, first, count);
  }

  const T* query_at(const Work& work, int64_t row) const {
    const int64_t* steps = call_.query->strides();
    const Row at = row_at(work, row);
    return data_of<T>(call_.query) + work.batch * steps[0] + at.head * steps[1] + at.position * steps[2];
  }
  float scale() const { return static_cast<float>(call_.scale * 1.4426950408889634); }

  /// Copies a part of the mask of a row, in units of log2. Finite numbers stay finite: a row of them is not empty.
  void load_mask(const Work& work, int64_t row, int64_t first_key, int64_t count, float* to) const {
    const int64_t* steps = call_.mask_steps;
    const Row at = row_at(work, row);
    const int64_t offset = work.batch * steps[0] + at.head * steps[1] + at.position * steps[2] + first_key * steps[3];
    if (call_.mask->dtype == kBool) {
      const bool* from = data_of<bool>(call_.mask) + offset;
      for (int64_t i = 0; i < count; ++i) to[i] = from[i * steps[3]] ? 0 : -std::numeric_limits<float>::infinity();
      for (int64_t i = count; i < whole_vectors(count); ++i) to[i] = 0;
      return;
    }
    wir::floats(call_.mask->dtype, "a mask", [&]<class M>() {
      copy_row(data_of<M>(call_.mask) + offset, steps[3], count, 1, to);
    });
    for (int64_t i = 0; i < count; i += kWidth) {
      const Floats loaded = load_lanes(to + i);
      store_lanes(to + i, loaded >= kLowest ? larger(loaded * kLog2E, fill_lanes(kLowest)) : loaded);
    }
  }

  // --- many rows: `scores` has a row for each key, with a lane for each row of the block

  void load_query(const T* row, float* to) const {
    if constexpr (kPairs) copy_pairs(row, call_.query->strides()[3], call_.width, to);
    else copy_row(row, call_.query->strides()[3], call_.width, scale(), to);
  }
  void load_queries(const Work& work, int64_t first, int64_t count, int64_t lanes) const {
    for (int64_t lane = 0; lane < lanes; lane += kWidth) {
      for (int i = 0; i < kWidth; ++i) {
        float* to = work.buffer + i * width_;
        if (lane + i < count) load_query(query_at(work, first + lane + i), to);
        else std::fill_n(to, width_, 0.0F);
      }
      transpose_rows<false>(work.buffer, width_, kPairs ? words_of(call_.width) : call_.width, work.queries + lane, lanes);
    }
  }

  void add_mask(const Work& work, int64_t first, int64_t count, int64_t lanes, int64_t first_key, int64_t keys) const {
    const int64_t* steps = call_.mask_steps;
    const bool is_shared = (steps[1] == 0 || call_.group() == 1) && (steps[2] == 0 || call_.queries == 1);
    if (is_shared) {
      load_mask(work, first, first_key, keys, work.buffer);
      for (int64_t j = 0; j < keys; ++j) {
        for (int64_t lane = 0; lane < lanes; lane += kWidth) {
          float* at = work.scores + j * lanes + lane;
          store_lanes(at, load_lanes(at) + work.buffer[j]);
        }
      }
      return;
    }
    for (int64_t lane = 0; lane < lanes; lane += kWidth) {
      const int64_t rows = std::min<int64_t>(kWidth, count - lane);
      for (int64_t i = 0; i < kWidth; ++i) {
        load_mask(work, first + lane + std::min(i, rows - 1), first_key, keys, work.buffer + i * kBlockKeys);
      }
      transpose_rows<true>(work.buffer, kBlockKeys, keys, work.scores + lane, lanes);
    }
  }

  /// Hides keys after the position of each row.
  void hide_later(const Work& work, int64_t first, int64_t lanes, int64_t first_key, int64_t keys) const {
    const Floats nothing = fill_lanes(-std::numeric_limits<float>::infinity());
    for (int64_t lane = 0; lane < lanes; lane += kWidth) {
      WholeLanes positions;
      int64_t lowest = call_.queries;
      for (int i = 0; i < kWidth; ++i) {
        const int64_t position = (first + lane + i) % call_.queries;
        positions[i] = static_cast<int32_t>(position - first_key);
        lowest = std::min(lowest, position);
      }
      for (int64_t j = std::max<int64_t>(0, lowest + 1 - first_key); j < keys; ++j) {
        float* at = work.scores + j * lanes + lane;
        store_lanes(at, static_cast<int32_t>(j) > positions ? nothing : load_lanes(at));
      }
    }
  }

  /// Turns scores of `kVectors` vectors of rows into weights, and corrects totals and sums if earlier keys had lower scores.
  template <int kVectors> void weigh(const Work& work, int64_t lane, int64_t lanes, int64_t keys, bool is_first) const {
    Floats highest[kVectors], totals[kVectors], before[kVectors];
    float* scores = work.scores + lane;
#pragma GCC unroll 4
    for (int v = 0; v < kVectors; ++v) {
      before[v] = highest[v] = is_first ? fill_lanes(kLowest) : load_lanes(work.highest + lane + v * kWidth);
      totals[v] = is_first ? Floats{} : load_lanes(work.totals + lane + v * kWidth);
    }
    for (int64_t j = 0; j < keys; ++j) {
#pragma GCC unroll 4
      for (int v = 0; v < kVectors; ++v) highest[v] = larger(load_lanes(scores + j * lanes + v * kWidth), highest[v]);
    }
    if (!is_first) {
      for (int v = 0; v < kVectors; ++v) {
        const Floats factors = exp2_nonpositive(before[v] - highest[v]);
        totals[v] = totals[v] * factors;
        for (int i = 0; i < kWidth; ++i) scale_row(work.sums + (lane + v * kWidth + i) * depth_, factors[i]);
      }
    }
    for (int64_t j = 0; j < keys; ++j) {
#pragma GCC unroll 4
      for (int v = 0; v < kVectors; ++v) {
        float* at = scores + j * lanes + v * kWidth;
        const Floats weights = exp2_nonpositive(load_lanes(at) - highest[v]);
        totals[v] += weights;
        if constexpr (!kPairs) {
          store_lanes(at, weights);
        } else {
          const Floats next = j + 1 < keys ? exp2_nonpositive(load_lanes(at + lanes) - highest[v]) : Floats{};
          totals[v] += next;
          store_words(scores + j / 2 * lanes + v * kWidth, rounded_halves(weights) | rounded_halves(next) << 16);
        }
      }
      if constexpr (kPairs) ++j;
    }
#pragma GCC unroll 4
    for (int v = 0; v < kVectors; ++v) {
      store_lanes(work.highest + lane + v * kWidth, highest[v]);
      store_lanes(work.totals + lane + v * kWidth, totals[v]);
    }
  }
  void scale_row(float* row, float factor) const {
    if (factor == 1) return;
    for (int64_t i = 0; i < depth_; i += kWidth) store_lanes(row + i, load_lanes(row + i) * factor);
  }
  void weigh_rows(const Work& work, int64_t lanes, int64_t keys, bool is_first) const {
    int64_t lane = 0;
    for (; lane + 4 * kWidth <= lanes; lane += 4 * kWidth) weigh<4>(work, lane, lanes, keys, is_first);
    for (; lane + 2 * kWidth <= lanes; lane += 2 * kWidth) weigh<2>(work, lane, lanes, keys, is_first);
    if (lane < lanes) weigh<1>(work, lane, lanes, keys, is_first);
  }

  void many_rows(const Work& work, int64_t first, int64_t count) const {
    const int64_t lanes = whole_vectors(count), last = (first + count - 1) % call_.queries;
    const bool is_one_head = first % call_.queries <= last && count <= call_.queries;
    const int64_t visible = call_.is_causal ? std::min(call_.keys, (is_one_head ? last : call_.queries - 1) + 1) : call_.keys;
    load_queries(work, first, count, lanes);
    for (int64_t k = 0; k < visible; k += kBlockKeys) {
      const int64_t keys = std::min(kBlockKeys, visible - k);
      multiply_keys(work, lanes, k, keys);
      if (call_.mask != nullptr) add_mask(work, first, count, lanes, k, keys);
      if (call_.is_causal) hide_later(work, first, lanes, k, keys);
      weigh_rows(work, lanes, keys, k == 0);
      multiply_values(work, count, lanes, k, keys);
    }
  }

  /// Computes scores of `keys` keys from `first` on.
  void multiply_keys(const Work& work, int64_t lanes, int64_t first, int64_t keys) const {
    const int64_t vectors = lanes / kWidth;
    if constexpr (kPairs) {
      const int64_t row = packs_key_ ? key_words() * 4 : call_.key->strides()[2] * 2;
      const auto* from = reinterpret_cast<const unsigned char*>(head_of(call_.key, work));
      if (packs_key_) from = reinterpret_cast<const unsigned char*>(work.key);
      const auto* queries = reinterpret_cast<const uint32_t*>(work.queries);
      multiply_pairs({keys, vectors, words_of(call_.width), from + first * row, row, 4, queries, lanes, work.scores, lanes,
                      scale(), false});
    } else {
      const auto [from, row] = rows_of(call_.key, work, work.key, width_);
      multiply_rows<float>({keys, vectors, call_.width, from + first * row, row, 1, work.queries, lanes, work.scores, lanes,
                            false});
    }
  }
  /// Adds values of `keys` keys from `first` on, times the weights.
  void multiply_values(const Work& work, int64_t count, int64_t lanes, int64_t first, int64_t keys) const {
    const int64_t vectors = depth_ / kWidth;
    if constexpr (kPairs) {
      const auto* from = reinterpret_cast<const uint32_t*>(work.value) + first / 2 * depth_;
      multiply_pairs({count, vectors, words_of(keys), work.scores, 4, lanes * 4, from, depth_, work.sums, depth_, 1, first > 0});
    } else {
      const auto [from, row] = rows_of(call_.value, work, work.value, depth_);
      multiply_rows<float>({count, vectors, keys, work.scores, 1, lanes, from + first * row, row, work.sums, depth_, first > 0});
    }
  }
  /// Rows of floats of a head, and the step between them: of the tensor itself, or packed.
  std::pair<const float*, int64_t> rows_of(Tensor tensor, const Work& work, const float* packed, int64_t step) const {
    if constexpr (kIsFloat) {
      if (!packs_) return {head_of(tensor, work), tensor->strides()[2]};
    }
    return {packed, step};
  }

  // --- few rows: `scores` has a row for each of them

  template <class Element>
  void few_rows(const Work& work, const Element* key, int64_t key_row, const Element* value, int64_t value_row) const {
    const int64_t rows = call_.rows(), step = kFewKeys + kWidth;
    for (int64_t r = 0; r < rows; ++r) {
      copy_row(query_at(work, r), call_.query->strides()[3], call_.width, scale(), work.queries + r * width_);
    }
    const int64_t visible = call_.is_causal ? std::min(call_.keys, call_.queries) : call_.keys;
    for (int64_t k = 0; k < visible; k += kFewKeys) {
      const int64_t keys = std::min(kFewKeys, visible - k);
      const Element* from = key + k * key_row;
      const auto score = [&]<int kRows>(int64_t r) {
        dot_rows<kRows>(work.queries + r * width_, width_, from, key_row, keys, width_, work.scores + r * step, step);
        return kRows;
      };
      int64_t r = 0;
      while (r + 4 <= rows) r += score.template operator()<4>(r);
      if (r + 2 <= rows) r += score.template operator()<2>(r);
      if (r < rows) score.template operator()<1>(r);
      for (r = 0; r < rows; ++r) weigh_row(work, r, k, keys, work.scores + r * step);
      multiply_rows<Element>({rows, depth_ / kWidth, keys, work.scores, step, 1, value + k * value_row, value_row, work.sums,
                              depth_, k > 0});
    }
  }

  void weigh_row(const Work& work, int64_t row, int64_t first_key, int64_t keys, float* scores) const {
    constexpr float kNothing = -std::numeric_limits<float>::infinity();
    if (call_.mask != nullptr) add_mask_row(work, row, first_key, keys, scores);
    if (call_.is_causal) {
      const int64_t visible = std::clamp<int64_t>(row % call_.queries + 1 - first_key, 0, keys);
      std::fill(scores + visible, scores + keys, kNothing);
    }
    std::fill(scores + keys, scores + whole_vectors(keys), kNothing);
    Floats highest = fill_lanes(first_key == 0 ? kLowest : work.highest[row]), totals{};
    for (int64_t j = 0; j < keys; j += kWidth) highest = larger(load_lanes(scores + j), highest);
    const float top = join_lanes(highest, [](float a, float b) { return a > b ? a : b; });
    for (int64_t j = 0; j < keys; j += kWidth) {
      const Floats weights = exp2_nonpositive(load_lanes(scores + j) - top);
      totals += weights;
      store_lanes(scores + j, weights);
    }
    float total = join_lanes(totals, [](float a, float b) { return a + b; });
    if (first_key > 0) {
      const float factor = exp2_nonpositive(fill_lanes(work.highest[row] - top))[0];
      total += work.totals[row] * factor;
      scale_row(work.sums + row * depth_, factor);
    }
    work.highest[row] = top;
    work.totals[row] = total;
  }
  void add_mask_row(const Work& work, int64_t row, int64_t first_key, int64_t keys, float* scores) const {
    for (int64_t k = 0; k < keys; k += kBlockKeys) {
      const int64_t count = std::min(kBlockKeys, keys - k);
      load_mask(work, row, first_key + k, count, work.buffer);
      for (int64_t j = 0; j < count; ++j) scores[k + j] += work.buffer[j];
    }
  }

  /// The logarithm of a row's sum, in natural units: 0 without keys, as torch's.
  static float log_sum(float highest, float total) {
    if (total == 0) return 0;
    return highest == kLowest ? kLowest : highest * kLn2 + std::log(total);
  }
  /// Divides by the totals. A row without keys is zero.
  void store(const Work& work, int64_t first, int64_t count) const {
    const int64_t* steps = call_.out->strides();
    const bool is_empty = call_.keys == 0;
    for (int64_t r = 0; r < count; ++r) {
      const Row at = row_at(work, first + r);
      T* to = data_of<T>(call_.out) + work.batch * steps[0] + at.head * steps[1] + at.position * steps[2];
      if (is_empty) std::fill_n(work.sums + r * depth_, depth_, 0.0F), work.totals[r] = 0, work.highest[r] = 0;
      const float total = work.totals[r];
      store_row(work.sums + r * depth_, call_.depth, total == 0 ? 0 : 1 / total, to, steps[3]);
      if (call_.logsumexp == nullptr) continue;
      const int64_t index = (work.batch * call_.queries + at.position) * call_.heads + at.head;
      static_cast<float*>(call_.logsumexp)[index] = log_sum(work.highest[r], total);
    }
  }

  const Attention& call_;
  int64_t width_, depth_;  // sizes of heads, in whole vectors
  int64_t head_blocks_;
  bool packs_, packs_key_;
};

}  // namespace
}  // namespace wir
