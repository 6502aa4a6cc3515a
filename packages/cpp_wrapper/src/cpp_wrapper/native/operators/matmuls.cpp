// Operators of matrix products: mm, addmm, bmm, baddbmm, addbmm, mv, addmv, dot, vdot.
#include "matrix_checks.h"
#include "products.h"

namespace wir {
namespace {

void check_rank(const char* name, Tensor tensor, int64_t rank) {
  if (tensor->rank != rank) fail_arguments(name, "its arguments have the wrong number of dimensions");
}
Owned new_result(Tensor like, std::initializer_list<int64_t> sizes) {
  return Owned(new_tensor(static_cast<int64_t>(sizes.size()), sizes.begin(), nullptr, like->dtype));
}
Owned new_matrix(const char* name, Tensor a, Tensor b) {
  check_rank(name, a, 2), check_rank(name, b, 2);
  return new_result(a, {a->sizes()[0], b->sizes()[1]});
}
Owned new_batch(const char* name, Tensor a, Tensor b) {
  check_rank(name, a, 3), check_rank(name, b, 3);
  return new_result(a, {a->sizes()[0], a->sizes()[1], b->sizes()[2]});
}

/// Computes out = beta * self + alpha * the sum of the products of a batch, rounded after each as torch does.
int32_t sum_batches(const char* name, Tensor out, const Operands& of) {
  Tensor a = of.a, b = of.b;
  check_rank(name, a, 3), check_rank(name, b, 3), check_rank(name, out, 2);
  if (a->sizes()[0] != b->sizes()[0]) fail_arguments(name, "the sizes of its arguments do not match");
  const auto at = [](Tensor batch, int64_t index) {
    const int64_t start = batch->offset + index * batch->strides()[0] * element_size(batch->dtype);
    return Owned(new_view(batch, start, 2, batch->sizes() + 1, batch->strides() + 1, batch->dtype));
  };
  if (a->sizes()[0] == 0) {
    const int64_t none = 0;
    const int64_t left[] = {out->sizes()[0], none}, right[] = {none, out->sizes()[1]};
    Owned first(new_tensor(2, left, nullptr, out->dtype)), second(new_tensor(2, right, nullptr, out->dtype));
    return multiply_matrices(name, out, {of.self, first.get(), second.get(), of.beta, of.alpha}, 2);
  }
  for (int64_t i = 0; i < a->sizes()[0]; ++i) {
    const Owned first = at(a, i), second = at(b, i);
    const Operands one{i == 0 ? of.self : out, first.get(), second.get(), i == 0 ? of.beta : 1, of.alpha};
    multiply_matrices(name, out, one, 2);
  }
  return 0;
}

}  // namespace
}  // namespace wir

using namespace wir;

WIR_OPERATOR(mm_out)(Tensor out, Tensor self, Tensor mat2) {
  return multiply_matrices("aten::mm.out", out, {nullptr, self, mat2}, 2);
}

WIR_OPERATOR(mm)(Tensor self, Tensor mat2, Tensor* ret0) {
  Owned out = new_matrix("aten::mm", self, mat2);
  multiply_matrices("aten::mm", out.get(), {nullptr, self, mat2}, 2);
  *ret0 = out.release();
  return 0;
}

WIR_OPERATOR(addmm_out)(Tensor out, Tensor self, Tensor mat1, Tensor mat2, double beta, double alpha) {
  return multiply_matrices("aten::addmm.out", out, {self, mat1, mat2, beta, alpha}, 2);
}

WIR_OPERATOR(addmm)(Tensor self, Tensor mat1, Tensor mat2, double beta, double alpha, Tensor* ret0) {
  Owned out = new_matrix("aten::addmm", mat1, mat2);
  multiply_matrices("aten::addmm", out.get(), {self, mat1, mat2, beta, alpha}, 2);
  *ret0 = out.release();
  return 0;
}

WIR_OPERATOR(bmm_out)(Tensor out, Tensor self, Tensor mat2) {
  return multiply_matrices("aten::bmm.out", out, {nullptr, self, mat2}, 3);
}

WIR_OPERATOR(bmm)(Tensor self, Tensor mat2, Tensor* ret0) {
  Owned out = new_batch("aten::bmm", self, mat2);
  multiply_matrices("aten::bmm", out.get(), {nullptr, self, mat2}, 3);
  *ret0 = out.release();
  return 0;
}

WIR_OPERATOR(baddbmm_out)(Tensor out, Tensor self, Tensor batch1, Tensor batch2, double beta, double alpha) {
  return multiply_matrices("aten::baddbmm.out", out, {self, batch1, batch2, beta, alpha}, 3);
}

WIR_OPERATOR(baddbmm)(Tensor self, Tensor batch1, Tensor batch2, double beta, double alpha, Tensor* ret0) {
  Owned out = new_batch("aten::baddbmm", batch1, batch2);
  multiply_matrices("aten::baddbmm", out.get(), {self, batch1, batch2, beta, alpha}, 3);
  *ret0 = out.release();
  return 0;
}

WIR_OPERATOR(addbmm_out)(Tensor out, Tensor self, Tensor batch1, Tensor batch2, double beta, double alpha) {
  return sum_batches("aten::addbmm.out", out, {self, batch1, batch2, beta, alpha});
}

WIR_OPERATOR(addbmm)(Tensor self, Tensor batch1, Tensor batch2, double beta, double alpha, Tensor* ret0) {
  check_rank("aten::addbmm", batch1, 3), check_rank("aten::addbmm", batch2, 3);
  Owned out = new_result(batch1, {batch1->sizes()[1], batch2->sizes()[2]});
  sum_batches("aten::addbmm", out.get(), {self, batch1, batch2, beta, alpha});
  *ret0 = out.release();
  return 0;
}

WIR_OPERATOR(mv_out)(Tensor out, Tensor self, Tensor vec) {
  check_rank("aten::mv.out", self, 2);
  return multiply_vector("aten::mv.out", out, {nullptr, self, vec});
}

WIR_OPERATOR(mv)(Tensor self, Tensor vec, Tensor* ret0) {
  check_rank("aten::mv", self, 2);
  Owned out = new_result(self, {self->sizes()[0]});
  multiply_vector("aten::mv", out.get(), {nullptr, self, vec});
  *ret0 = out.release();
  return 0;
}

WIR_OPERATOR(addmv_out)(Tensor out, Tensor self, Tensor mat, Tensor vec, double beta, double alpha) {
  check_rank("aten::addmv.out", mat, 2);
  return multiply_vector("aten::addmv.out", out, {self, mat, vec, beta, alpha});
}

WIR_OPERATOR(addmv)(Tensor self, Tensor mat, Tensor vec, double beta, double alpha, Tensor* ret0) {
  check_rank("aten::addmv", mat, 2);
  Owned out = new_result(mat, {mat->sizes()[0]});
  multiply_vector("aten::addmv", out.get(), {self, mat, vec, beta, alpha});
  *ret0 = out.release();
  return 0;
}

WIR_OPERATOR(dot_out)(Tensor out, Tensor self, Tensor tensor) {
  check_rank("aten::dot.out", self, 1);
  return multiply_vector("aten::dot.out", out, {nullptr, self, tensor});
}

WIR_OPERATOR(dot)(Tensor self, Tensor tensor, Tensor* ret0) {
  check_rank("aten::dot", self, 1);
  Owned out = new_result(self, {});
  multiply_vector("aten::dot", out.get(), {nullptr, self, tensor});
  *ret0 = out.release();
  return 0;
}

WIR_OPERATOR(vdot_out)(Tensor out, Tensor self, Tensor other) {
  check_rank("aten::vdot.out", self, 1);
  return multiply_vector("aten::vdot.out", out, {nullptr, self, other, 1, 1, true});
}

WIR_OPERATOR(vdot)(Tensor self, Tensor other, Tensor* ret0) {
  check_rank("aten::vdot", self, 1);
  Owned out = new_result(self, {});
  multiply_vector("aten::vdot", out.get(), {nullptr, self, other, 1, 1, true});
  *ret0 = out.release();
  return 0;
}
