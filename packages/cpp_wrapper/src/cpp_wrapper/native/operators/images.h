// Images over plain pointers, and copies of them.
#pragma once
#include "operator.h"

namespace wir {

/// Images at any address, with the distances between elements: of images, channels, and positions of an axis.
template <class T> struct Images {
  T* data;
  int64_t image, channel, steps[3];
};

/// Returns the distance of a position of an image.
template <class T> int64_t place_of(const Images<T>& of, int64_t image, const int64_t* at) {
  return image * of.image + at[0] * of.steps[0] + at[1] * of.steps[1] + at[2] * of.steps[2];
}

/// Copies images of `channels` channels and the sizes of three axes.
void copy_images(int64_t batch, int64_t channels, const int64_t* sizes, const Images<const float>& from, const Images<float>& to);
/// Copies images into zeros: `before` positions of an axis come before the image, and `padded` are the sizes with zeros. Padded
/// images are dense, and their channels contiguous.
void pad_images(int64_t batch, int64_t channels, const int64_t* sizes, const int64_t* before, const int64_t* padded,
                const Images<const float>& from, float* to);

}  // namespace wir
