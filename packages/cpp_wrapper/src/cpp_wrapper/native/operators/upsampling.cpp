// Operators of images of another size.
#include "resampling.h"

using namespace wir;

WIR_OPERATOR(upsample_nearest1d)
(Tensor self, const int64_t* output_size, int64_t output_size_len_, double* scales, Tensor* ret0) {
  *ret0 = resize(self, 1, output_size, output_size_len_, Filter::kNearest, false, {scales}, "aten::upsample_nearest1d").release();
  return 0;
}

WIR_OPERATOR(upsample_nearest2d)
(Tensor self, const int64_t* output_size, int64_t output_size_len_, double* scales_h, double* scales_w, Tensor* ret0) {
  *ret0 = resize(self, 2, output_size, output_size_len_, Filter::kNearest, false, {scales_h, scales_w},
                 "aten::upsample_nearest2d")
              .release();
  return 0;
}

WIR_OPERATOR(upsample_nearest3d)
(Tensor self, const int64_t* output_size, int64_t output_size_len_, double* scales_d, double* scales_h, double* scales_w,
 Tensor* ret0) {
  *ret0 = resize(self, 3, output_size, output_size_len_, Filter::kNearest, false, {scales_d, scales_h, scales_w},
                 "aten::upsample_nearest3d")
              .release();
  return 0;
}

WIR_OPERATOR(_upsample_nearest_exact1d)
(Tensor self, const int64_t* output_size, int64_t output_size_len_, double* scales, Tensor* ret0) {
  *ret0 = resize(self, 1, output_size, output_size_len_, Filter::kNearestExact, false, {scales},
                 "aten::_upsample_nearest_exact1d")
              .release();
  return 0;
}

WIR_OPERATOR(_upsample_nearest_exact2d)
(Tensor self, const int64_t* output_size, int64_t output_size_len_, double* scales_h, double* scales_w, Tensor* ret0) {
  *ret0 = resize(self, 2, output_size, output_size_len_, Filter::kNearestExact, false, {scales_h, scales_w},
                 "aten::_upsample_nearest_exact2d")
              .release();
  return 0;
}

WIR_OPERATOR(_upsample_nearest_exact3d)
(Tensor self, const int64_t* output_size, int64_t output_size_len_, double* scales_d, double* scales_h, double* scales_w,
 Tensor* ret0) {
  *ret0 = resize(self, 3, output_size, output_size_len_, Filter::kNearestExact, false, {scales_d, scales_h, scales_w},
                 "aten::_upsample_nearest_exact3d")
              .release();
  return 0;
}

WIR_OPERATOR(upsample_linear1d)
(Tensor self, const int64_t* output_size, int64_t output_size_len_, int32_t align_corners, double* scales, Tensor* ret0) {
  *ret0 = resize(self, 1, output_size, output_size_len_, Filter::kLinear, align_corners != 0, {scales},
                 "aten::upsample_linear1d")
              .release();
  return 0;
}

WIR_OPERATOR(upsample_bilinear2d)
(Tensor self, const int64_t* output_size, int64_t output_size_len_, int32_t align_corners, double* scales_h, double* scales_w,
 Tensor* ret0) {
  *ret0 = resize(self, 2, output_size, output_size_len_, Filter::kLinear, align_corners != 0, {scales_h, scales_w},
                 "aten::upsample_bilinear2d")
              .release();
  return 0;
}

WIR_OPERATOR(upsample_trilinear3d)
(Tensor self, const int64_t* output_size, int64_t output_size_len_, int32_t align_corners, double* scales_d, double* scales_h,
 double* scales_w, Tensor* ret0) {
  *ret0 = resize(self, 3, output_size, output_size_len_, Filter::kLinear, align_corners != 0, {scales_d, scales_h, scales_w},
                 "aten::upsample_trilinear3d")
              .release();
  return 0;
}

WIR_OPERATOR(upsample_bicubic2d)
(Tensor self, const int64_t* output_size, int64_t output_size_len_, int32_t align_corners, double* scales_h, double* scales_w,
 Tensor* ret0) {
  *ret0 = resize(self, 2, output_size, output_size_len_, Filter::kCubic, align_corners != 0, {scales_h, scales_w},
                 "aten::upsample_bicubic2d")
              .release();
  return 0;
}

WIR_OPERATOR(_upsample_bilinear2d_aa)
(Tensor self, const int64_t* output_size, int64_t output_size_len_, int32_t align_corners, double* scales_h, double* scales_w,
 Tensor* ret0) {
  *ret0 = resize(self, 2, output_size, output_size_len_, Filter::kLinearArea, align_corners != 0, {scales_h, scales_w},
                 "aten::_upsample_bilinear2d_aa")
              .release();
  return 0;
}

WIR_OPERATOR(_upsample_bicubic2d_aa)
(Tensor self, const int64_t* output_size, int64_t output_size_len_, int32_t align_corners, double* scales_h, double* scales_w,
 Tensor* ret0) {
  *ret0 = resize(self, 2, output_size, output_size_len_, Filter::kCubicArea, align_corners != 0, {scales_h, scales_w},
                 "aten::_upsample_bicubic2d_aa")
              .release();
  return 0;
}

WIR_OPERATOR(upsample_nearest1d_backward)
(Tensor grad_output, const int64_t* output_size, int64_t output_size_len_, const int64_t* input_size, int64_t input_size_len_,
 double* scales, Tensor* ret0) {
  *ret0 = resize_gradient(grad_output, 1, output_size, output_size_len_, input_size, input_size_len_, Filter::kNearest, false,
                          {scales}, "aten::upsample_nearest1d_backward")
              .release();
  return 0;
}

WIR_OPERATOR(upsample_nearest2d_backward)
(Tensor grad_output, const int64_t* output_size, int64_t output_size_len_, const int64_t* input_size, int64_t input_size_len_,
 double* scales_h, double* scales_w, Tensor* ret0) {
  *ret0 = resize_gradient(grad_output, 2, output_size, output_size_len_, input_size, input_size_len_, Filter::kNearest, false,
                          {scales_h, scales_w}, "aten::upsample_nearest2d_backward")
              .release();
  return 0;
}

WIR_OPERATOR(upsample_nearest3d_backward)
(Tensor grad_output, const int64_t* output_size, int64_t output_size_len_, const int64_t* input_size, int64_t input_size_len_,
 double* scales_d, double* scales_h, double* scales_w, Tensor* ret0) {
  *ret0 = resize_gradient(grad_output, 3, output_size, output_size_len_, input_size, input_size_len_, Filter::kNearest, false,
                          {scales_d, scales_h, scales_w}, "aten::upsample_nearest3d_backward")
              .release();
  return 0;
}

WIR_OPERATOR(_upsample_nearest_exact1d_backward)
(Tensor grad_output, const int64_t* output_size, int64_t output_size_len_, const int64_t* input_size, int64_t input_size_len_,
 double* scales, Tensor* ret0) {
  *ret0 = resize_gradient(grad_output, 1, output_size, output_size_len_, input_size, input_size_len_, Filter::kNearestExact, false,
                          {scales}, "aten::_upsample_nearest_exact1d_backward")
              .release();
  return 0;
}

WIR_OPERATOR(_upsample_nearest_exact2d_backward)
(Tensor grad_output, const int64_t* output_size, int64_t output_size_len_, const int64_t* input_size, int64_t input_size_len_,
 double* scales_h, double* scales_w, Tensor* ret0) {
  *ret0 = resize_gradient(grad_output, 2, output_size, output_size_len_, input_size, input_size_len_, Filter::kNearestExact, false,
                          {scales_h, scales_w}, "aten::_upsample_nearest_exact2d_backward")
              .release();
  return 0;
}

WIR_OPERATOR(_upsample_nearest_exact3d_backward)
(Tensor grad_output, const int64_t* output_size, int64_t output_size_len_, const int64_t* input_size, int64_t input_size_len_,
 double* scales_d, double* scales_h, double* scales_w, Tensor* ret0) {
  *ret0 = resize_gradient(grad_output, 3, output_size, output_size_len_, input_size, input_size_len_, Filter::kNearestExact, false,
                          {scales_d, scales_h, scales_w}, "aten::_upsample_nearest_exact3d_backward")
              .release();
  return 0;
}

WIR_OPERATOR(upsample_linear1d_backward)
(Tensor grad_output, const int64_t* output_size, int64_t output_size_len_, const int64_t* input_size, int64_t input_size_len_,
 int32_t align_corners, double* scales, Tensor* ret0) {
  *ret0 = resize_gradient(grad_output, 1, output_size, output_size_len_, input_size, input_size_len_, Filter::kLinear, align_corners != 0,
                          {scales}, "aten::upsample_linear1d_backward")
              .release();
  return 0;
}

WIR_OPERATOR(upsample_bilinear2d_backward)
(Tensor grad_output, const int64_t* output_size, int64_t output_size_len_, const int64_t* input_size, int64_t input_size_len_,
 int32_t align_corners, double* scales_h, double* scales_w, Tensor* ret0) {
  *ret0 = resize_gradient(grad_output, 2, output_size, output_size_len_, input_size, input_size_len_, Filter::kLinear, align_corners != 0,
                          {scales_h, scales_w}, "aten::upsample_bilinear2d_backward")
              .release();
  return 0;
}

WIR_OPERATOR(upsample_trilinear3d_backward)
(Tensor grad_output, const int64_t* output_size, int64_t output_size_len_, const int64_t* input_size, int64_t input_size_len_,
 int32_t align_corners, double* scales_d, double* scales_h, double* scales_w, Tensor* ret0) {
  *ret0 = resize_gradient(grad_output, 3, output_size, output_size_len_, input_size, input_size_len_, Filter::kLinear, align_corners != 0,
                          {scales_d, scales_h, scales_w}, "aten::upsample_trilinear3d_backward")
              .release();
  return 0;
}

WIR_OPERATOR(upsample_bicubic2d_backward)
(Tensor grad_output, const int64_t* output_size, int64_t output_size_len_, const int64_t* input_size, int64_t input_size_len_,
 int32_t align_corners, double* scales_h, double* scales_w, Tensor* ret0) {
  *ret0 = resize_gradient(grad_output, 2, output_size, output_size_len_, input_size, input_size_len_, Filter::kCubic, align_corners != 0,
                          {scales_h, scales_w}, "aten::upsample_bicubic2d_backward")
              .release();
  return 0;
}

WIR_OPERATOR(_upsample_bilinear2d_aa_backward)
(Tensor grad_output, const int64_t* output_size, int64_t output_size_len_, const int64_t* input_size, int64_t input_size_len_,
 int32_t align_corners, double* scales_h, double* scales_w, Tensor* ret0) {
  *ret0 = resize_gradient(grad_output, 2, output_size, output_size_len_, input_size, input_size_len_, Filter::kLinearArea, align_corners != 0,
                          {scales_h, scales_w}, "aten::_upsample_bilinear2d_aa_backward")
              .release();
  return 0;
}

WIR_OPERATOR(_upsample_bicubic2d_aa_backward)
(Tensor grad_output, const int64_t* output_size, int64_t output_size_len_, const int64_t* input_size, int64_t input_size_len_,
 int32_t align_corners, double* scales_h, double* scales_w, Tensor* ret0) {
  *ret0 = resize_gradient(grad_output, 2, output_size, output_size_len_, input_size, input_size_len_, Filter::kCubicArea, align_corners != 0,
                          {scales_h, scales_w}, "aten::_upsample_bicubic2d_aa_backward")
              .release();
  return 0;
}
