// Prints values with the same digits as `wrapper_ir_runtime.tensor_text`, and writes safetensors files. Independent of
// the locale: numbers are written by snprintf, and its decimal point is replaced.
#include "container.h"
#include "elements.h"
#include "steps.h"

#include <sys/stat.h>

#include <cerrno>
#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <string>
#include <utility>
#include <vector>

namespace wir {

namespace {

constexpr int64_t kWhole = 64;    // maximum number of elements of a tensor that is printed completely
constexpr int64_t kBlock = 4096;  // numbers that are summed together

// --- text

/// Returns the text of snprintf with a point in place of the locale's decimal separator.
std::string with_point(const char* text) {
  std::string found;
  for (; *text != '\0'; ++text) {
    if (std::strchr("0123456789+-e", *text) != nullptr) {
      found += *text;
    } else if (found.empty() || found.back() != '.') {
      found += '.';
    }
  }
  return found;
}

/// Returns a float with the fewest digits, from `first` to `last`, that read back as the same number.
std::string float_text(double value, NumberKind kind, int first, int last) {
  if (std::isnan(value)) return "nan";
  if (std::isinf(value)) return value > 0 ? "inf" : "-inf";
  char text[64];
  for (int digits = first; digits <= last; ++digits) {
    std::snprintf(text, sizeof text, "%.*g", digits, value);
    const double read = std::strtod(text, nullptr);
    if ((kind == NumberKind::kDouble ? read : static_cast<double>(static_cast<float>(read))) == value) break;
  }
  return with_point(text);
}
std::string element_text(double value, NumberKind kind) {
  return kind == NumberKind::kDouble ? float_text(value, kind, 15, 17) : float_text(value, kind, 6, 9);
}
std::string statistic_text(double value) { return float_text(value, NumberKind::kDouble, 6, 6); }

std::string complex_text(const std::string& real, const std::string& imaginary) {
  return real + (imaginary[0] == '-' ? "" : "+") + imaginary + "j";
}

std::string text_of(const Numbers& numbers, int64_t i) {
  const NumberKind kind = numbers.type->kind;
  if (kind == NumberKind::kBool) return numbers.real(i) != 0 ? "True" : "False";
  if (kind == NumberKind::kSigned) return join({numbers.whole(i)});
  if (kind == NumberKind::kUnsigned) return std::to_string(static_cast<uint64_t>(numbers.whole(i)));
  const std::string real = element_text(numbers.real(i), kind);
  return numbers.type->parts == 1 ? real : complex_text(real, element_text(numbers.imaginary(i), kind));
}

/// Returns nested lists as lines, as `_rows` of `wrapper_ir_runtime.tensor_text.lines` does.
std::vector<std::string> rows(const int64_t* sizes, int64_t rank, const std::string*& next) {
  if (rank == 0) return {*next++};
  int64_t count = 1;
  for (int64_t d = 0; d < rank; ++d) count *= sizes[d];
  if (count == 0) return {"[]"};
  if (rank == 1) {
    std::string line = "[";
    for (int64_t i = 0; i < sizes[0]; ++i) line += (i != 0 ? ", " : "") + *next++;
    return {line + "]"};
  }
  std::vector<std::string> lines;
  for (int64_t i = 0; i < sizes[0]; ++i) {
    std::vector<std::string> inner = rows(sizes + 1, rank - 1, next);
    for (size_t n = 0; n < inner.size(); ++n) inner[n] = (i == 0 && n == 0 ? "[" : " ") + inner[n];
    inner.back() += i == sizes[0] - 1 ? "]" : ",";
    lines.insert(lines.end(), inner.begin(), inner.end());
  }
  return lines;
}

// --- statistics, in the order of operations of `wrapper_ir_runtime.tensor_text.summary`

/// Returns the sum of a block: adds its halves until one number remains.
double block_sum(std::vector<double>& part) {
  part.resize(kBlock, 0.0);
  for (int64_t half = kBlock / 2; half > 0; half /= 2) {
    for (int64_t i = 0; i < half; ++i) part[i] = part[i] + part[i + half];
  }
  return part[0];
}

/// Returns the sum of `term` over all finite numbers.
template <class Term> double sum(const Numbers& numbers, Term term) {
  double total = 0;
  std::vector<double> part;
  for (int64_t begin = 0; begin < numbers.count; begin += kBlock) {
    part.clear();
    for (int64_t i = begin; i < numbers.count && i < begin + kBlock; ++i) {
      part.push_back(numbers.is_finite(i) ? term(i) : 0.0);
    }
    total += block_sum(part);
  }
  return total;
}

std::string summary(const Numbers& numbers) {
  int64_t nan = 0, inf = 0, low = -1, high = -1;
  for (int64_t i = 0; i < numbers.count; ++i) {
    if (numbers.is_nan(i)) {
      ++nan;
    } else if (!numbers.is_finite(i)) {
      ++inf;
    } else {
      if (low < 0 || numbers.less(i, low)) low = i;
      if (high < 0 || numbers.less(high, i)) high = i;
    }
  }
  const std::string counts = join({"nan ", nan, ", inf ", inf});
  const int64_t finite = numbers.count - nan - inf;
  if (finite == 0) return counts;
  const bool is_complex = numbers.type->parts == 2;
  const auto divisor = static_cast<double>(finite);
  const double real = sum(numbers, [&](int64_t i) { return numbers.real(i); }) / divisor;
  const double imaginary = is_complex ? sum(numbers, [&](int64_t i) { return numbers.imaginary(i); }) / divisor : 0.0;
  const double squares = sum(numbers, [&](int64_t i) {
    const double first = numbers.real(i) - real, second = numbers.imaginary(i) - imaginary;
    return is_complex ? first * first + second * second : first * first;
  });
  const double deviation = finite > 1 ? std::sqrt(squares / static_cast<double>(finite - 1)) : not_a_number();
  const bool is_float = numbers.type->kind == NumberKind::kSingle || numbers.type->kind == NumberKind::kDouble;
  const auto extreme = [&](int64_t i) {
    if (is_complex) return join({"abs ", statistic_text(numbers.absolute(i))});
    return is_float ? statistic_text(numbers.real(i)) : text_of(numbers, i);
  };
  const std::string mean = statistic_text(real);
  return join({"mean ", is_complex ? complex_text(mean, statistic_text(imaginary)) : mean, ", min ", extreme(low), ", max ",
               extreme(high), ", std ", statistic_text(deviation), ", ", counts});
}

// --- tensors

/// A handle that is freed at the end of the scope.
struct HeldTensor {
  Tensor tensor = nullptr;
  HeldTensor() = default;
  HeldTensor(const HeldTensor&) = delete;
  HeldTensor& operator=(const HeldTensor&) = delete;
  ~HeldTensor() { release(&tensor, 1); }
};

/// Copies elements to the host in row-major order, with conjugates and negatives resolved.
void to_host(HeldTensor& made, Tensor source) {
  make_dense(made.tensor, source);
  int32_t device = 0;
  ok(aoti_torch_get_device_type(made.tensor, &device), "device");
  if (device == aoti_torch_device_type_cpu()) return;
  const auto [rank, sizes, strides] = Dims(made.tensor);
  HeldTensor host;
  ok(aoti_torch_empty_strided(rank, sizes, strides, dtype_of(made.tensor), aoti_torch_device_type_cpu(), 0, &host.tensor),
     "allocation");
  ok(aoti_torch_copy_(host.tensor, made.tensor, 0), "copy_");
  std::swap(host.tensor, made.tensor);
}

std::string list_text(const int64_t* values, int64_t count, const char* between) {
  std::string text = "[";
  for (int64_t i = 0; i < count; ++i) text += join({i != 0 ? between : "", values[i]});
  return text + "]";
}

/// Returns the numbers of a tensor on the host. Bytes of `f4e2m1fnx2` contain two, the lower half first.
Numbers numbers_of(Tensor dense, int64_t count, const char* dtype) {
  const NumberType* type = kTypes;
  while (std::strcmp(type->name, dtype) != 0) ++type;
  Numbers found{type, static_cast<const unsigned char*>(data(dense)), count, {}};
  if (std::strcmp(dtype, "f4e2m1fnx2") != 0) return found;
  for (int64_t i = 0; i < count; ++i) {
    for (const int half : {found.data[i] & 15, found.data[i] >> 4}) found.unpacked.push_back(small_float(half, 4, 1, 1));
  }
  found.count = 2 * count;
  return found;
}

/// Returns the text of each element, which may be two numbers.
std::vector<std::string> texts_of(const Numbers& numbers) {
  std::vector<std::string> texts;
  for (int64_t i = 0; i < numbers.count; ++i) {
    texts.push_back(text_of(numbers, i));
    if (numbers.unpacked.empty() || i % 2 == 0) continue;
    const std::string second = std::move(texts.back());
    texts.pop_back();
    texts.back() = join({"(", texts.back(), ", ", second, ")"});
  }
  return texts;
}

void write_out(const std::string& text) {
  std::fwrite(text.data(), 1, text.size(), stdout);
  std::fputc('\n', stdout);
  std::fflush(stdout);
}

void make_folders(const std::string& path) {
  for (size_t end = 0; end != std::string::npos;) {
    end = path.find('/', end + 1);
    const std::string part = path.substr(0, end);
    if (mkdir(part.c_str(), 0777) != 0 && errno != EEXIST && errno != EISDIR) {
      fail_text("WIR927", {"a value cannot be saved: folder ", part, ": ", std::strerror(errno)});
    }
  }
}

struct NewFile {
  std::FILE* handle = nullptr;
  NewFile() = default;
  NewFile(const NewFile&) = delete;
  NewFile& operator=(const NewFile&) = delete;
  ~NewFile() {
    if (handle != nullptr) std::fclose(handle);
  }
  bool write(const void* bytes, size_t count) { return count == 0 || std::fwrite(bytes, count, 1, handle) == 1; }
};

}  // namespace

void show_line(const char* text) { write_out(text); }
void show(const char* title, Int value) { write_out(join({title, "\n  int ", raw(value)})); }
void show(const char* title, double value) {
  write_out(join({title, "\n  float ", element_text(value, NumberKind::kDouble)}));
}
void show(const char* title, bool value) { write_out(join({title, value ? "\n  bool True" : "\n  bool False"})); }

void show(const char* title, Tensor tensor, const char* dtype) {
  const auto [rank, sizes, strides] = Dims(tensor);
  std::string text = join({title, "\n  ", dtype, list_text(sizes, rank, ", "), " strides ", list_text(strides, rank, ", "),
                           " on ", device_text(tensor)});
  int64_t count = 0;
  ok(aoti_torch_get_numel(tensor, &count), "numel");
  HeldTensor dense;
  to_host(dense, tensor);
  const Numbers numbers = numbers_of(dense.tensor, count, dtype);
  if (count > kWhole) return write_out(join({text, ", ", count, " elements\n  ", summary(numbers)}));
  const std::vector<std::string> texts = texts_of(numbers);
  const std::string* next = texts.data();
  for (const std::string& line : rows(sizes, rank, next)) text += join({"\n  ", line});
  write_out(text);
}

void save(Tensor tensor, const char* directory, const char* name, const char* metadata, const char* kind, int64_t wide) {
  const Dims dims(tensor);
  std::vector<int64_t> sizes(dims.sizes, dims.sizes + dims.rank);
  HeldTensor dense;
  to_host(dense, tensor);
  int64_t count = 0;
  int32_t element = 0;
  ok(aoti_torch_get_numel(dense.tensor, &count), "numel");
  ok(aoti_torch_get_dtype(dense.tensor, &element), "dtype");
  const size_t nbytes = static_cast<size_t>(count) * aoti_torch_dtype_element_size(element);
  if (wide > 1) sizes.push_back(wide);
  std::string head = join({"{\"__metadata__\":", metadata, ",\"", name, "\":{\"dtype\":\"", kind, "\",\"shape\":",
                           list_text(sizes.data(), static_cast<int64_t>(sizes.size()), ","), ",\"data_offsets\":[0,", nbytes, "]}}"});
  head.resize((head.size() + 7) / 8 * 8, ' ');
  make_folders(directory);
  NewFile out;
  std::string path;
  for (int number = 0; out.handle == nullptr; ++number) {
    path = join({directory, "/", name, number != 0 ? join({"_", number}) : "", ".safetensors"});
    out.handle = std::fopen(path.c_str(), "wbx");
    if (out.handle == nullptr && errno != EEXIST) break;
  }
  const uint64_t length = head.size();
  if (out.handle == nullptr || !out.write(&length, sizeof length) || !out.write(head.data(), head.size()) ||
      !out.write(nbytes != 0 ? data(dense.tensor) : nullptr, nbytes)) {
    fail_text("WIR927", {"a value cannot be saved to ", path, ": ", std::strerror(errno)});
  }
}

}  // namespace wir
