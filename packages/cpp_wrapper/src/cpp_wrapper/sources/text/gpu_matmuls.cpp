// Matmuls on a CUDA device by cuBLAS, which is opened by name, with a dedicated workspace.
//
// Torch's operators use a workspace for each cuBLAS handle and stream, which torch may free at any time
// (`torch._C._cuda_clearCublasWorkspaces`): a graph of them would continue to write there.
#include "gpu_matmuls.h"

#include <dlfcn.h>

#include <cstring>

#include "container.h"
#include "graphs.h"
#include "matrices.h"
#include "platform.h"

extern "C" {
int32_t aoti_torch_cuda_mm_out(AtenTensorHandle out, AtenTensorHandle self, AtenTensorHandle mat2);
int32_t aoti_torch_cuda_addmm_out(AtenTensorHandle out, AtenTensorHandle self, AtenTensorHandle mat1, AtenTensorHandle mat2, double beta, double alpha);
int32_t aoti_torch_cuda_bmm_out(AtenTensorHandle out, AtenTensorHandle self, AtenTensorHandle mat2);
int32_t aoti_torch_cuda_baddbmm_out(AtenTensorHandle out, AtenTensorHandle self, AtenTensorHandle batch1, AtenTensorHandle batch2, double beta, double alpha);
}

namespace wir {
namespace {

// The used part of cublasLt.h, as in its public interface.
enum DataType { kFloat = 0, kDouble = 1, kHalf = 2, kComplexFloat = 4, kComplexDouble = 5, kBrain = 14 };
enum ComputeType { kComputeFloat = 68, kComputeDouble = 70, kComputeTf32 = 77 };
enum DescAttribute { kTransposeA = 3, kTransposeB = 4, kEpilogue = 7, kBiasPointer = 8 };
enum LayoutAttribute { kBatchCount = 5, kBatchStride = 6 };
enum PreferenceAttribute { kMaxWorkspace = 1, kReductions = 3, kAlignmentA = 5 };
constexpr int kTranspose = 1, kEpilogueBias = 4;
/// Reductions use the compute type, the most precise one that torch's settings allow.
constexpr uint32_t kExactReductions = 2;
/// NVIDIA's recommendation for Hopper; other devices need less.
constexpr size_t kWorkspace = 32 << 20;

struct Heuristic {
  uint64_t algorithm[8];
  size_t workspace;
  int state;
  float waves;
  int reserved[4];
};

struct CublasLt {
  int (*Create)(void**);
  int (*Destroy)(void*);
  int (*MatmulDescCreate)(void**, int, int);
  int (*MatmulDescSetAttribute)(void*, int, const void*, size_t);
  int (*MatmulDescDestroy)(void*);
  int (*MatrixLayoutCreate)(void**, int, uint64_t, uint64_t, int64_t);
  int (*MatrixLayoutSetAttribute)(void*, int, const void*, size_t);
  int (*MatrixLayoutDestroy)(void*);
  int (*MatmulPreferenceCreate)(void**);
  int (*MatmulPreferenceSetAttribute)(void*, int, const void*, size_t);
  int (*MatmulPreferenceDestroy)(void*);
  int (*MatmulAlgoGetHeuristic)(void*, void*, void*, void*, void*, void*, void*, int, Heuristic*, int*);
  int (*Matmul)(void*, void*, const void*, const void*, void*, const void*, void*, const void*, const void*, void*, void*, void*,
                const void*, void*, size_t, void*);
};
constexpr const char* kNames[] = {
    "Create", "Destroy", "MatmulDescCreate", "MatmulDescSetAttribute", "MatmulDescDestroy", "MatrixLayoutCreate",
    "MatrixLayoutSetAttribute", "MatrixLayoutDestroy", "MatmulPreferenceCreate", "MatmulPreferenceSetAttribute",
    "MatmulPreferenceDestroy", "MatmulAlgoGetHeuristic", "Matmul"};
static_assert(sizeof(CublasLt) == sizeof kNames, "a name for each function, in order");

/// The functions of the library; null if there is no supported version.
const CublasLt* open_library() {
  void* library = nullptr;
  for (const char* name : {"libcublasLt.so.13", "libcublasLt.so.12"}) {
    if (library == nullptr) library = find_cublas(name);
  }
  if (library == nullptr) return nullptr;
  void* functions[sizeof kNames / sizeof kNames[0]];
  for (size_t i = 0; i < sizeof kNames / sizeof kNames[0]; ++i) {
    functions[i] = dlsym(library, join({"cublasLt", kNames[i]}).c_str());
    if (functions[i] == nullptr) return nullptr;
  }
  static CublasLt made;
  std::memcpy(&made, functions, sizeof made);
  return &made;
}
const CublasLt* cublas() {
  static const CublasLt* const opened = open_library();
  return opened;
}
void check_matmul(int status) {
  if (status != 0) [[unlikely]] fail_text("CPP595", {"cuBLAS cannot compute a matmul: status ", status});
}

// --- operands

using Matrix = MatrixOf<void>;
/// One or `count` matrices, each `step` elements after the previous one.
struct Batch {
  Matrix matrix;
  int64_t count = 1, step = 0;
};

/// Returns the matrices of a tensor of two dimensions, or of three, the first of which is the batch; of a vector as a
/// row if `may_be_row`.
bool read_batch(Tensor tensor, Batch& made, bool may_be_row = false) {
  const auto [rank, sizes, strides] = Dims(tensor);
  if (rank > 3 || rank < (may_be_row ? 1 : 2)) return false;
  const bool is_row = rank == 1;
  made.matrix = {data(tensor), is_row ? 1 : sizes[rank - 2], sizes[rank - 1], is_row ? 0 : strides[rank - 2], strides[rank - 1]};
  Matrix& own = made.matrix;  // the stride of one row or one column may be any number
  if (own.rows == 1 && own.column_stride == 1) own.row_stride = std::max<int64_t>(1, own.columns);
  if (own.columns == 1 && own.row_stride == 1) own.column_stride = std::max<int64_t>(1, own.rows);
  if (rank == 3) made.count = sizes[0], made.step = strides[0];
  return true;
}

int data_type(int32_t dtype) {
  if (dtype == f32()) return kFloat;
  if (dtype == f16()) return kHalf;
  if (dtype == bf16()) return kBrain;
  return dtype == f64() ? kDouble : dtype == c64() ? kComplexFloat : dtype == c128() ? kComplexDouble : -1;
}
bool is_double(int type) { return type == kDouble || type == kComplexDouble; }
/// The type of factors.
int scale_type(int type) { return type == kHalf || type == kBrain ? int{kFloat} : type; }
/// Returns `torch.backends.cuda.matmul.fp32_precision` if torch exports it; otherwise full precision.
int compute_type(int type) {
  if (is_double(type)) return kComputeDouble;
  const bool is_tf32 = type == kFloat && knows_precision() && matmul_precision(Backend::kCuda) == Precision::kTf32;
  return is_tf32 ? kComputeTf32 : kComputeFloat;
}

/// A factor in the type that a matmul scales by; the imaginary part is 0.
struct Scale {
  alignas(16) unsigned char bytes[16] = {};
  Scale(int type, double value) {
    const auto narrow = static_cast<float>(value);
    if (is_double(type)) {
      std::memcpy(bytes, &value, sizeof value);
    } else {
      std::memcpy(bytes, &narrow, sizeof narrow);
    }
  }
};

// --- descriptions, freed at the end of the scope

class Layout {
 public:
  Layout(int type, const Batch& batch, int64_t leading) {
    const auto rows = static_cast<uint64_t>(batch.matrix.rows), columns = static_cast<uint64_t>(batch.matrix.columns);
    check_matmul(cublas()->MatrixLayoutCreate(&made_, type, rows, columns, leading));
    if (batch.count == 1) return;
    const auto count = static_cast<int32_t>(batch.count);
    check_matmul(cublas()->MatrixLayoutSetAttribute(made_, kBatchCount, &count, sizeof count));
    check_matmul(cublas()->MatrixLayoutSetAttribute(made_, kBatchStride, &batch.step, sizeof batch.step));
  }
  Layout(const Layout&) = delete;
  ~Layout() { cublas()->MatrixLayoutDestroy(made_); }
  void* get() const { return made_; }

 private:
  void* made_ = nullptr;
};
class Description {
 public:
  explicit Description(int type) { check_matmul(cublas()->MatmulDescCreate(&made_, compute_type(type), scale_type(type))); }
  Description(const Description&) = delete;
  ~Description() { cublas()->MatmulDescDestroy(made_); }
  template <class T> void set(int attribute, T value) {
    check_matmul(cublas()->MatmulDescSetAttribute(made_, attribute, &value, sizeof value));
  }
  void* get() const { return made_; }

 private:
  void* made_ = nullptr;
};
class Preference {
 public:
  Preference() { check_matmul(cublas()->MatmulPreferenceCreate(&made_)); }
  Preference(const Preference&) = delete;
  ~Preference() { cublas()->MatmulPreferenceDestroy(made_); }
  template <class T> void set(int attribute, T value) {
    check_matmul(cublas()->MatmulPreferenceSetAttribute(made_, attribute, &value, sizeof value));
  }
  void* get() const { return made_; }

 private:
  void* made_ = nullptr;
};

/// Returns the alignment of an address in bytes, up to the value that cuBLAS needs.
uint32_t alignment(const void* address) {
  const auto lowest = reinterpret_cast<uintptr_t>(address) & -reinterpret_cast<uintptr_t>(address);
  return lowest == 0 || lowest > 256 ? 256 : static_cast<uint32_t>(lowest);
}

/// The added operand of a matmul: the same row for all rows, a matrix of the result's layout, or none.
struct Added {
  const void *row = nullptr, *matrix = nullptr;
  int64_t leading = 0, step = 0;
};
/// `out` is the result's layout, `c` its layout for BLAS.
bool read_added(const Batch& bias, const Batch& out, const Batch& c, bool is_transposed, double beta, Added& made) {
  const Matrix& own = bias.matrix;
  if (own.columns != out.matrix.columns || (own.column_stride != 1 && own.columns != 1)) return false;
  const bool is_row = own.rows == 1 || own.row_stride == 0;
  if (is_row && is_transposed && beta == 1 && out.count == 1 && (own.rows == 1 || own.rows == out.matrix.rows)) {
    made.row = own.data;
    return true;
  }
  const Matrix lying = is_transposed ? own.transposed() : own;
  if (own.rows != out.matrix.rows || bias.count != out.count || !lying.is_written()) return false;
  made = {nullptr, own.data, lying.columns == 1 ? lying.rows : lying.column_stride, bias.step};
  return c.matrix.rows == lying.rows;
}

}  // namespace

/// A matmul of one key: what cuBLASLt is called with.
struct PreparedMatmul {
  Description matmul;
  Layout a, b, c, d;
  Heuristic chosen{};
};

namespace {

constexpr size_t kMaxPrepared = 512;

/// The operands of a matmul as BLAS has them. `source` is the added matrix, `d` the result.
struct Operands {
  int type = 0;
  Batch a, b, source, d;
  Factor how_a, how_b;
  int64_t ld_source = 0, ld_result = 0;
  bool has_row = false;
};

MatmulKey key_of(const Operands& one) {
  const Matrix &a = one.a.matrix, &b = one.b.matrix, &c = one.source.matrix, &d = one.d.matrix;
  return {one.type, compute_type(one.type), one.how_a.how, one.how_b.how, one.has_row, a.rows, a.columns, b.rows, b.columns, d.rows,
          d.columns, one.d.count, one.how_a.leading, one.how_b.leading, one.ld_source, one.ld_result, one.a.step, one.b.step,
          one.source.step, one.d.step, alignment(a.data) << 16 | alignment(b.data), alignment(c.data), alignment(d.data)};
}

/// Returns null if cuBLASLt has no algorithm.
std::unique_ptr<PreparedMatmul> prepare_matmul(void* handle, const Operands& one) {
  const int type = one.type;
  std::unique_ptr<PreparedMatmul> made(new PreparedMatmul{
      Description(type), Layout(type, one.a, one.how_a.leading), Layout(type, one.b, one.how_b.leading),
      Layout(type, one.source, one.ld_source), Layout(type, one.d, one.ld_result)});
  made->matmul.set(kTransposeA, int32_t{one.how_a.how == 't' ? kTranspose : 0});
  made->matmul.set(kTransposeB, int32_t{one.how_b.how == 't' ? kTranspose : 0});
  if (one.has_row) made->matmul.set(kEpilogue, int32_t{kEpilogueBias});
  Preference preference;
  preference.set(kMaxWorkspace, kWorkspace);
  preference.set(kReductions, kExactReductions);
  const void* const places[] = {one.a.matrix.data, one.b.matrix.data, one.source.matrix.data, one.d.matrix.data};
  for (int i = 0; i < 4; ++i) preference.set(kAlignmentA + i, alignment(places[i]));
  int found = 0;
  const int asked = cublas()->MatmulAlgoGetHeuristic(handle, made->matmul.get(), made->a.get(), made->b.get(), made->c.get(),
                                                     made->d.get(), preference.get(), 1, &made->chosen, &found);
  return asked == 0 && found != 0 ? std::move(made) : nullptr;
}

}  // namespace

Matmuls::Matmuls() = default;
Matmuls::~Matmuls() {
  prepared_.clear();
  drop(workspace_);
  if (handle_ != nullptr) cublas()->Destroy(handle_);
}

bool Matmuls::prepare(const Run& run) {
  if (handle_ != nullptr) return true;
  if (run.graph_memory != nullptr || cublas() == nullptr || cublas()->Create(&handle_) != 0) return false;
  wir::allocate(workspace_, {Int(kWorkspace)}, {1}, u8(), run.gpu);
  return true;
}

const char* Matmuls::multiply(const Run& run, Tensor to, const Tensor* bias, Tensor mat1, Tensor mat2, double beta, double alpha) {
  Batch out, first, second, added;
  const int type = data_type(dtype_of(to));
  if (type < 0 || data_type(dtype_of(mat1)) != type || data_type(dtype_of(mat2)) != type) return "a matmul of other types";
  if (!read_batch(to, out) || !read_batch(mat1, first) || !read_batch(mat2, second)) return "a matmul of other shapes";
  const bool adds = bias != nullptr && beta != 0;
  if (adds && (!read_batch(*bias, added, true) || data_type(dtype_of(*bias)) != type)) return "a matmul to which something else is added";
  const int64_t count = out.count, k = first.matrix.columns;
  if (first.count != count || second.count != count || k == 0) return "a matmul of other shapes";
  if (out.matrix.rows == 0 || out.matrix.columns == 0 || count == 0) return "";
  if (!prepare(run)) return "a matmul, and there is no cuBLAS that is known";
  Operands one;
  one.type = type, one.d = out, one.a = first, one.b = second;
  const bool is_transposed = out.matrix.column_stride == 1 && !(out.matrix.is_written() && out.matrix.columns != 1);
  if (is_transposed) {
    one.d.matrix = out.matrix.transposed();
    one.a = second, one.b = first;
    one.a.matrix = one.a.matrix.transposed(), one.b.matrix = one.b.matrix.transposed();
  }
  one.how_a = read_factor(one.a.matrix), one.how_b = read_factor(one.b.matrix);
  if (!one.d.matrix.is_written() || one.how_a.how == 0 || one.how_b.how == 0) return "a matmul whose factors have to be copied";
  Added more;
  if (adds && !read_added(added, out, one.d, is_transposed, beta, more)) return "a matmul to which something else is added";

  if (one.how_a.how == 't') one.a.matrix = one.a.matrix.transposed();
  if (one.how_b.how == 't') one.b.matrix = one.b.matrix.transposed();
  one.source = one.d;
  one.ld_result = one.ld_source = one.d.matrix.columns == 1 ? one.d.matrix.rows : one.d.matrix.column_stride;
  if (more.matrix != nullptr) {
    one.source.step = more.step, one.ld_source = more.leading;
    one.source.matrix.data = const_cast<void*>(more.matrix);
  }
  one.has_row = more.row != nullptr;
  std::unique_ptr<PreparedMatmul>& prepared = prepared_[key_of(one)];
  if (prepared == nullptr) {
    if (prepared_.size() > kMaxPrepared) {  // sizes vary: start again
      prepared_.clear();
      return multiply(run, to, bias, mat1, mat2, beta, alpha);
    }
    prepared = prepare_matmul(handle_, one);
  }
  if (prepared == nullptr) return "a matmul that cuBLAS does not compute";
  if (one.has_row) prepared->matmul.set(kBiasPointer, more.row);
  const Scale scale(type, alpha), kept(type, more.matrix != nullptr ? beta : 0);
  check_matmul(cublas()->Matmul(handle_, prepared->matmul.get(), scale.bytes, one.a.matrix.data, prepared->a.get(), one.b.matrix.data,
                                prepared->b.get(), kept.bytes, one.source.matrix.data, prepared->c.get(), one.d.matrix.data,
                                prepared->d.get(), &prepared->chosen.algorithm, data(workspace_), kWorkspace, run.stream));
  return "";
}

namespace {

/// Returns false if the operator must run, in a call that is not captured.
bool multiply(const Run& run, Tensor out, const Tensor* bias, Tensor mat1, Tensor mat2, double beta, double alpha) {
  if (run.matmuls == nullptr) return false;
  try {
    const char* why = run.matmuls->multiply(run, out, bias, mat1, mat2, beta, alpha);
    if (*why == '\0') return true;
    if (run.graph_memory != nullptr) fail_text("CPP595", {"it has ", why});
  } catch (const Failure&) {
    if (run.graph_memory != nullptr) throw;
  }
  return false;
}

}  // namespace

void mm(const Run& run, Tensor out, Tensor mat1, Tensor mat2) {
  if (!multiply(run, out, nullptr, mat1, mat2, 0, 1)) ok(aoti_torch_cuda_mm_out(out, mat1, mat2), "aten::mm.out");
}
void addmm(const Run& run, Tensor out, Tensor self, Tensor mat1, Tensor mat2, double beta, double alpha) {
  if (multiply(run, out, &self, mat1, mat2, beta, alpha)) return;
  ok(aoti_torch_cuda_addmm_out(out, self, mat1, mat2, beta, alpha), "aten::addmm.out");
}
void bmm(const Run& run, Tensor out, Tensor mat1, Tensor mat2) {
  if (!multiply(run, out, nullptr, mat1, mat2, 0, 1)) ok(aoti_torch_cuda_bmm_out(out, mat1, mat2), "aten::bmm.out");
}
void baddbmm(const Run& run, Tensor out, Tensor self, Tensor mat1, Tensor mat2, double beta, double alpha) {
  if (multiply(run, out, &self, mat1, mat2, beta, alpha)) return;
  ok(aoti_torch_cuda_baddbmm_out(out, self, mat1, mat2, beta, alpha), "aten::baddbmm.out");
}

}  // namespace wir
