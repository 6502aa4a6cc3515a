// Functions of vectors of doubles, of any width, with errors below a unit in the last place.
//
// Where one rounding too many would show, intermediate results are sums of two doubles.
#pragma once

#include "vector_math.h"

#if WIR_HAS_FMA
namespace wir::vec {
namespace {

constexpr double kHalfPiLast = -0x1.f1976b7ed8fbcp-110;

// --- exponentials

/// e^x = 2^n (1 + `part`), with `rounded` = kRounder + n; `rest` is added to x.
template <class D> struct Exponent { Two<D> part; D rounded; };
template <class D> WIR_INLINE Exponent<D> exponent_of(D x, D rest) {
  const D rounded = fma(x, kLog2E, kRounder<double>), n = rounded - kRounder<double>;
  const D first = fma(n, -kLn2, x);  // exact
  const Two<D> r = exact_sum(first, fma(n, -kLn2Rest, rest));
  const Two<D> square = exact_product(r.high, r.high);
  const D cube = square.high * r.high, tail = fma(cube, polynomial(r.high, kExpDouble), fma(square.low, 0.5, r.low));
  const Two<D> sum = fast_sum(r.high, square.high * 0.5);
  return {fast_sum(sum.high, sum.low + fma(r.low, r.high, tail)), rounded};
}
template <DoubleVector D> WIR_INLINE Power<D> exp_factor(D x) {
  const D rounded = fma(x, kLog2E, kRounder<double>), n = rounded - kRounder<double>;
  const D first = fma(n, -kLn2, x), second = n * -kLn2Rest, r = first + second, square = r * r;  // `first` is exact
  const D sum = first + 1, lost = first - (sum - 1);
  const D rest = fma(square * r, polynomial(r, kExpDouble), fma(square, 0.5, second));
  return {sum + (rest + lost), rounded};
}
template <DoubleVector D> WIR_INLINE D exp(D x) {
  return power_of(x, 708, -746, 710, [](D one) { return exp_factor(one); });
}
template <DoubleVector D> WIR_INLINE D exp2(D x) {
  return power_of(x, 1021.5, -1076, 1025, [](D one) { return exp2_factor(one, kExp2Double); });
}
/// Returns e^x - 1 for |x| < 700.
template <class D> WIR_INLINE Two<D> expm1_sum(Exponent<D> parts) {
  const D scale = power_of_two(parts.rounded);
  const BitsOf<D> is_large = scale > 0x1p30;  // 1 is then subtracted from the smaller part
  const Two<D> sum = exact_sum(is_large ? scale : scale - 1, scale * parts.part.high);
  return fast_sum(sum.high, fma(scale, parts.part.low, is_large ? sum.low - 1 : sum.low));
}
template <class D> WIR_INLINE Two<D> expm1_sum(D x) { return expm1_sum(exponent_of(x, D{})); }
template <DoubleVector D> WIR_INLINE D expm1(D x) {
  const D small = clamp(x, -40.0, 700.0);
  const D result = expm1_sum(small).high;
  return x > 700 ? exp(x) : with_sign(absolute(result), sign_of(x));
}
template <DoubleVector D> WIR_INLINE D tanh(D x) {
  const Two<D> power = expm1_sum(2 * clamp(absolute(x), -1.0, 20.0));
  return with_sign(absolute(divide(power, add(power, splat<D>(2))).high), sign_of(x));
}
template <DoubleVector D> WIR_INLINE D sinh(D x) {
  const D a = absolute(x);
  const Exponent<D> parts = exponent_of(clamp(a, 0.0, 720.0), D{});
  const D rounded = parts.rounded;
  const Two<D> power = expm1_sum(Exponent<D>{parts.part, clamp(rounded, kRounder<double>, kRounder<double> + 60)});
  const Two<D> sum = add(power, divide(power, add(power, splat<D>(1))));
  const D far = scaled(1 + parts.part.high + parts.part.low, rounded - 1);
  return with_sign(absolute(a > 40 ? far : sum.high * 0.5), sign_of(x));
}
template <DoubleVector D> WIR_INLINE D cosh(D x) {
  const Exponent<D> parts = exponent_of(clamp(absolute(x), 0.0, 720.0), D{});
  const Two<D> fraction = add(parts.part, splat<D>(1));
  const D down = power_of_two(kRounder<double> - clamp(2 * (parts.rounded - kRounder<double>), -1.0, 200.0));
  const Two<D> other = divide({down, D{}}, fraction);
  return scaled(add(fraction, other).high, parts.rounded - 1);
}

// --- logarithms and powers

/// Returns log(x) of any positive number, to some 2^-66 of itself; denormal ones are scaled.
template <class D> WIR_INLINE Two<D> precise_log(D x) {
  const BitsOf<D> is_small = x < 0x1p-1000;
  const Split<D> parts = split(is_small ? x * 0x1p100 : x);
  const D n = is_small ? parts.exponent - 100 : parts.exponent, f = parts.fraction - 1;  // exact
  const Two<D> s = divide(Two<D>{f, D{}}, fast_sum(splat<D>(2), f)), square = multiply(s, s);
  const D tail = square.high * polynomial(square.high, kLogSeries);
  const Two<D> head = fast_sum(splat<D>(0x1.5555555555555p-1), tail), inner = {head.high, head.low + 0x1.5555555555555p-55};
  const Two<D> cube = multiply(multiply(s, square), inner), sum = fast_sum(2 * s.high, cube.high);
  const Two<D> whole = exact_product(n, splat<D>(kLn2)), total = exact_sum(whole.high, sum.high);
  return fast_sum(total.high, total.low + (fma(n, kLn2Rest, whole.low) + (sum.low + fma(s.low, 2.0, cube.low))));
}
/// log(x + rest) = n log(2) + `part` of a positive normal x; to some 2^-57 of the part.
template <class D> struct Logarithm { D n; Two<D> part; };
template <class D> WIR_INLINE Logarithm<D> logarithm_of(D x, D rest) {
  const Split<D> parts = split(x);
  const D f = parts.fraction - 1;  // exact
  const D s = f / (2 + f), square = s * s, tail = square * polynomial(square, kLogRatio);
  const Two<D> half = exact_product(f, f * 0.5), sum = fast_sum(f, -half.high);
  // The rest has the scale of the fraction; its share is its quotient by 1 + f, which is near 1 - f.
  const D low = rest * power_of_two(kRounder<double> - clamp(parts.exponent, -1000.0, 1000.0));
  const D share = fma(low, -s, low) / (1 + s);
  return {parts.exponent, fast_sum(sum.high, fma(s, half.high + tail, sum.low - half.low) + share)};
}
/// The same of any positive number: denormal ones are scaled.
template <class D> WIR_INLINE Logarithm<D> any_logarithm(D x) {
  const BitsOf<D> is_small = x < 0x1p-1000;
  const Split<D> parts = split(is_small ? x * 0x1p100 : x);
  const D f = parts.fraction - 1;
  const D s = f / (2 + f), square = s * s, tail = square * polynomial(square, kLogRatio);
  const Two<D> half = exact_product(f, f * 0.5), sum = fast_sum(f, -half.high);
  return {is_small ? parts.exponent - 100 : parts.exponent, fast_sum(sum.high, fma(s, half.high + tail, sum.low - half.low))};
}
template <class D> WIR_INLINE Two<D> joined(Logarithm<D> logarithm) {
  const Two<D> whole = exact_product(logarithm.n, splat<D>(kLn2)), part = logarithm.part;
  const Two<D> sum = fast_sum(whole.high, part.high);
  const D low = sum.low + (fma(logarithm.n, kLn2Rest, whole.low) + part.low);
  const BitsOf<D> is_near = logarithm.n == 0;
  return {is_near ? part.high : sum.high, is_near ? part.low : low};
}
template <DoubleVector D> WIR_INLINE D log(D x) {
  const Two<D> result = joined(any_logarithm(x));
  return with_log_limits(x, result.high + result.low);
}
template <DoubleVector D> WIR_INLINE D log2(D x) {
  const Logarithm<D> parts = any_logarithm(x);
  const Two<D> unit = {splat<D>(kLog2E), splat<D>(0x1.777d0ffda0d24p-56)};
  return with_log_limits(x, add(multiply(parts.part, unit), parts.n).high);
}
template <DoubleVector D> WIR_INLINE D log10(D x) {
  const Logarithm<D> parts = any_logarithm(x);
  const Two<D> unit = {splat<D>(kLog10E), splat<D>(0x1.95355baaafad3p-57)};
  const Two<D> whole = exact_product(parts.n, splat<D>(kLog10Of2)), part = multiply(parts.part, unit);
  return with_log_limits(x, add(Two<D>{whole.high, fma(parts.n, -0x1.9dc1da994fd21p-59, whole.low)}, part).high);
}
/// Returns log(1 + x) for finite x >= 0 that is a sum, or x > -1.
template <class D> WIR_INLINE Two<D> log1p_sum(Two<D> x) {
  const Two<D> sum = exact_sum(splat<D>(1), x.high);
  const Two<D> result = joined(logarithm_of(sum.high, sum.low + x.low));
  const BitsOf<D> is_tiny = absolute(x.high) < 0x1p-60;
  return {is_tiny ? x.high : result.high + result.low, is_tiny ? x.low : D{}};
}
template <DoubleVector D> WIR_INLINE D log1p(D x) {
  const D result = log1p_sum(Two<D>{x, D{}}).high;
  const D limit = x == -1 ? splat<D>(-kInfinity) : x < -1 ? splat<D>(kNaN) : x;
  return with_zero(x, (x > -1) & (x < kInfinity) ? result : limit);
}
template <DoubleVector D> WIR_INLINE D pow(D x, D y) {
  const Two<D> power = multiply(precise_log(absolute(x)), clamp(y, -0x1p900, 0x1p900));
  const D high = clamp(power.high, -746.0, 710.0);
  const Exponent<D> parts = exponent_of(high, power.high == high ? power.low : D{});
  return with_power_limits(x, y, scaled(1 + parts.part.high + parts.part.low, parts.rounded));
}
template <class D> WIR_INLINE Two<D> root_sum(Two<D> x) {
  const D root = square_root(x.high);
  const D rest = (fma(-root, root, x.high) + x.low) / (root + root);
  const BitsOf<D> is_zero = root == 0;
  return fast_sum(root, is_zero ? D{} : rest);
}
template <DoubleVector D> WIR_INLINE D asinh(D x) {
  const D a = absolute(x);
  const BitsOf<D> is_large = a > 0x1p28;
  const D small = is_large ? splat<D>(1) : a;
  const Two<D> square = exact_product(small, small), one = add(square, splat<D>(1));
  const Two<D> near = log1p_sum(add(divide(square, add(root_sum(one), splat<D>(1))), small));
  const Two<D> far = add(joined(any_logarithm(a)), Two<D>{splat<D>(kLn2), splat<D>(kLn2Rest)});
  const D result = is_large ? far.high : a < 0x1p-28 ? a : near.high;
  return a < kInfinity ? with_sign(absolute(result), sign_of(x)) : x;
}
template <DoubleVector D> WIR_INLINE D acosh(D x) {
  const BitsOf<D> is_large = x > 0x1p28;
  const D rest = is_large ? splat<D>(1) : x - 1;  // exact up to 2^53
  const Two<D> near = log1p_sum(add(root_sum(multiply(exact_sum(splat<D>(2), rest), rest)), rest));
  const Two<D> far = add(joined(any_logarithm(x)), Two<D>{splat<D>(kLn2), splat<D>(kLn2Rest)});
  const D result = is_large ? far.high : x == 1 ? D{} : near.high;
  return x < kInfinity ? (x < 1 ? splat<D>(kNaN) : result) : x;
}
template <DoubleVector D> WIR_INLINE D atanh(D x) {
  const D a = absolute(x);
  const Two<D> ratio = divide(Two<D>{2 * a, D{}}, exact_sum(splat<D>(1), -a));
  const D result = a < 0x1p-28 ? a : log1p_sum(ratio).high * 0.5;
  const D limit = a == 1 ? splat<D>(kInfinity) : splat<D>(kNaN);
  return with_sign(absolute(a < 1 ? result : limit), sign_of(x));
}

// --- angles

/// Multiples of pi/2 are removed exactly up to this angle; libm does larger ones.
constexpr double kLargestDoubleAngle = 1e6;
template <class D> struct WideAngle { Two<D> rest; BitsOf<D> quadrant; };
template <class D> WIR_INLINE WideAngle<D> wide_angle(D x) {
  const D rounded = fma(x, 1 / kHalfPi, kRounder<double>), n = rounded - kRounder<double>;
  const D first = fma(n, -kHalfPi, x);  // exact: n is small
  const Two<D> second = exact_product(n, splat<D>(-kHalfPiRest));
  const Two<D> sum = exact_sum(first, second.high);
  return {fast_sum(sum.high, sum.low + fma(n, -kHalfPiLast, second.low)), bits_of(rounded)};
}
template <class D> WIR_INLINE Two<D> sine_sum(Two<D> r) {
  const D square = r.high * r.high;
  return fast_sum(r.high, fma(square * r.high, polynomial(square, kSinDouble), fma(square, r.low * -0.5, r.low)));
}
template <class D> WIR_INLINE Two<D> cosine_sum(Two<D> r) {
  const Two<D> square = exact_product(r.high, r.high);
  const Two<D> first = fast_sum(splat<D>(1), square.high * -0.5);
  const D rest = fma(square.high * square.high, polynomial(square.high, kCosDouble), fma(square.low, -0.5, -r.high * r.low));
  return fast_sum(first.high, first.low + rest);
}
template <class D> WIR_INLINE D sine_of(WideAngle<D> angle, int shift) {
  const BitsOf<D> quadrant = angle.quadrant + shift;
  const D result = (quadrant & 1) != 0 ? cosine_sum(angle.rest).high : sine_sum(angle.rest).high;
  return flip_sign(result, (quadrant & 2) << 62);
}
template <DoubleVector D> WIR_INLINE D sin(D x) {
  if (any(absolute(x) > kLargestDoubleAngle)) return in_lanes(x, [](double one) { return std::sin(one); });
  return with_zero(x, sine_of(wide_angle(x), 0));
}
template <DoubleVector D> WIR_INLINE D cos(D x) {
  if (any(absolute(x) > kLargestDoubleAngle)) return in_lanes(x, [](double one) { return std::cos(one); });
  return sine_of(wide_angle(x), 1);
}
template <DoubleVector D> WIR_INLINE D tan(D x) {
  if (any(absolute(x) > kLargestDoubleAngle)) return in_lanes(x, [](double one) { return std::tan(one); });
  const WideAngle<D> angle = wide_angle(x);
  const Two<D> s = sine_sum(angle.rest), c = cosine_sum(angle.rest);
  const BitsOf<D> is_odd = (angle.quadrant & 1) != 0;
  const Two<D> top = {is_odd ? c.high : s.high, is_odd ? c.low : s.low};
  const Two<D> bottom = {is_odd ? s.high : c.high, is_odd ? s.low : c.low};
  return with_zero(x, flip_sign(divide(top, bottom).high, is_odd & kSignBit<D>));
}

// --- others

template <DoubleVector D> WIR_INLINE D hypot(D x, D y) {
  D a = absolute(x), b = absolute(y);
  const BitsOf<D> swaps = a < b;
  const D large = swaps ? b : a, small = swaps ? a : b;
  const BitsOf<D> is_big = large > 0x1p500, is_tiny = large < 0x1p-450;
  const D scale = is_big ? splat<D>(0x1p-600) : is_tiny ? splat<D>(0x1p600) : splat<D>(1);
  const D back = is_big ? splat<D>(0x1p600) : is_tiny ? splat<D>(0x1p-600) : splat<D>(1);
  const D high = large * scale, low = small * scale;
  const Two<D> sum = add(exact_product(high, high), exact_product(low, low));
  const D root = large == 0 ? large : root_sum(sum).high * back;
  // A number so small beside the other changes nothing, and its square would vanish inexactly.
  const D result = small < large * 0x1p-60 ? large + small : root;
  return (a == kInfinity) | (b == kInfinity) ? splat<D>(kInfinity) : (x != x) | (y != y) ? x + y : result;
}
template <DoubleVector D> WIR_INLINE D fmod(D x, D y) {
  const D a = absolute(x), b = absolute(y);
  const BitsOf<D> is_easy = (a < b * 0x1p50) & (b > 0x1p-900) & (b < 0x1p900);
  if (any(~is_easy)) return in_lanes(x, y, [](double x, double y) { return std::fmod(x, y); });
  const D quotient = (a / b + kRounder<double>) - kRounder<double>;
  const D rest = fma(-quotient, b, a);
  return with_sign(rest < 0 ? rest + b : rest, sign_of(x));
}
/// asin(x) of x >= 0 as `part`, or as pi/2 - `part` where `is_big`.
template <class D> struct WideArc { Two<D> part; BitsOf<D> is_big; };
template <class D> WIR_INLINE WideArc<D> asin_sum(D x) {
  const BitsOf<D> is_big = x > 0.5;
  const D square = is_big ? (1 - x) * 0.5 : x * x;
  const Two<D> root = root_sum(Two<D>{square, D{}});
  const D high = is_big ? root.high : x, low = is_big ? root.low : D{};
  const Two<D> part = fast_sum(high, fma(square * high, polynomial(square, kAsinDouble), low));
  const D twice = is_big ? splat<D>(2) : splat<D>(1);
  return {{part.high * twice, part.low * twice}, is_big};
}
template <class D> WIR_INLINE D from_multiple(double high, double low, Two<D> part) {
  const Two<D> sum = fast_sum(splat<D>(high), -part.high);
  return sum.high + (sum.low + (low - part.low));
}
template <DoubleVector D> WIR_INLINE D asin(D x) {
  const WideArc<D> arc = asin_sum(absolute(x));
  const D result = arc.is_big ? from_multiple(kHalfPi, kHalfPiRest, arc.part) : arc.part.high;
  return with_sign(absolute(result), sign_of(x));
}
template <DoubleVector D> WIR_INLINE D acos(D x) {
  const WideArc<D> arc = asin_sum(absolute(x));
  const BitsOf<D> sign = sign_of(x);
  const Two<D> part = {flip_sign(arc.part.high, sign), flip_sign(arc.part.low, sign)};
  const D near = from_multiple(kHalfPi, kHalfPiRest, part);
  return arc.is_big ? (sign != 0 ? from_multiple(kPi, 2 * kHalfPiRest, arc.part) : arc.part.high) : near;
}
/// Returns atan(a / b) for 0 <= a <= b, b > 0.
template <class D> WIR_INLINE Two<D> atan_sum(D a, D b) {
  const BitsOf<D> is_far = a > b * 0.41421356237309503;
  const Two<D> difference = exact_sum(a, -b), total = exact_sum(a, b);
  const Two<D> top = {is_far ? difference.high : a, is_far ? difference.low : D{}};
  const Two<D> bottom = {is_far ? total.high : b, is_far ? total.low : D{}};
  const Two<D> z = divide(top, bottom);
  const D square = z.high * z.high, rest = fma(square * z.high, polynomial(square, kAtanDouble), fma(-square, z.low, z.low));
  const Two<D> sum = fast_sum(is_far ? splat<D>(kHalfPi * 0.5) : z.high, is_far ? z.high : rest);
  return fast_sum(sum.high, sum.low + (is_far ? kHalfPiRest * 0.5 + rest : D{}));
}
template <DoubleVector D> WIR_INLINE D atan(D x) {
  const D a = clamp(absolute(x), 0.0, 0x1p200);
  const BitsOf<D> is_big = a > 1;
  const Two<D> part = atan_sum(is_big ? splat<D>(1) : a, is_big ? a : splat<D>(1));
  return with_sign(absolute(is_big ? from_multiple(kHalfPi, kHalfPiRest, part) : part.high), sign_of(x));
}
template <DoubleVector D> WIR_INLINE D atan2(D y, D x) {
  const D a = absolute(y), b = absolute(x);
  // Numbers so far from 1 that a quotient's rest would vanish, and zero, infinity, NaN.
  if (any(~((a > 0x1p-400) & (a < 0x1p400) & (b > 0x1p-400) & (b < 0x1p400))))
    return in_lanes(y, x, [](double y, double x) { return std::atan2(y, x); });
  const BitsOf<D> is_steep = a > b;
  const Two<D> part = atan_sum(is_steep ? b : a, is_steep ? a : b);
  const D sign = (is_steep != 0) == (x < 0) ? splat<D>(1) : splat<D>(-1);  // of the part, beside a multiple of pi/2
  const Two<D> moved = {-part.high * sign, -part.low * sign};
  const D steep = from_multiple(kHalfPi, kHalfPiRest, moved), flat = from_multiple(kPi, 2 * kHalfPiRest, part);
  return with_sign(is_steep ? steep : x < 0 ? flat : part.high, sign_of(y));
}
/// Evaluates a polynomial whose constant is a sum, and the largest part.
template <class D, int kCount> WIR_INLINE Two<D> polynomial_sum(D x, const double (&c)[kCount], double constant_rest) {
  double rest[kCount - 1];
#pragma GCC unroll 32
  for (int i = 1; i < kCount; ++i) rest[i - 1] = c[i];
  const Two<D> sum = fast_sum(splat<D>(c[0]), x * polynomial(x, rest));
  return {sum.high, sum.low + constant_rest};
}
/// Returns erf(a) for 0 <= a <= 1/2.
template <class D> WIR_INLINE Two<D> erf_sum(D a) {
  constexpr double kFactor = 0x1.20dd750429b6dp+0, kFactorRest = 0x1.1ae3a914fed80p-56;  // 2 / sqrt(pi)
  const D square = a * a;
  const Two<D> product = exact_product(a, splat<D>(kFactor));
  return fast_sum(product.high, fma(a, fma(square, polynomial(square, kErfDouble), kFactorRest), product.low));
}
/// erfc(a) = 2^n * `part` for a >= 1/2, with `rounded` = kRounder + n.
template <class D> WIR_INLINE Exponent<D> erfc_part(D a) {
  const BitsOf<D> is_far = a > 2;
  a = clamp(a, 0.0, 27.6);
  const Two<D> square = exact_product(a, a);
  const Exponent<D> power = exponent_of(-square.high, -square.low);
  const Two<D> far = polynomial_sum((a - 3) / (a + 3), kErfcTail, kErfcTailRest);
  const Two<D> middle = polynomial_sum(a - 1.25, kErfcDouble, kErfcDoubleRest);
  const Two<D> factor = {is_far ? far.high : middle.high, is_far ? far.low : middle.low};
  const Two<D> fraction = fast_sum(splat<D>(1), power.part.high);
  const Two<D> product = multiply(Two<D>{fraction.high, fraction.low + power.part.low}, factor);
  return {divide(product, Two<D>{is_far ? a : splat<D>(1), D{}}), power.rounded};
}
template <DoubleVector D> WIR_INLINE D erf(D x) {
  const D a = absolute(x);
  const Exponent<D> rest = erfc_part(clamp(a, 0.0, 7.0));
  const D scale = power_of_two(rest.rounded), near = erf_sum(clamp(a, 0.0, 0.5)).high;
  const Two<D> sum = fast_sum(splat<D>(1), -rest.part.high * scale);
  const D far = sum.high + fma(-rest.part.low, scale, sum.low);
  return with_sign(absolute(a < 0.5 ? near : far), sign_of(x));
}
template <DoubleVector D> WIR_INLINE D erfc(D x) {
  const D a = absolute(x);
  const Exponent<D> power = erfc_part(a);
  const D part = scaled(power.part.high, power.rounded);
  const Two<D> small = erf_sum(clamp(a, 0.0, 0.5));
  const Two<D> near = exact_sum(splat<D>(1), flip_sign(-small.high, sign_of(x)));
  const D result = a < 0.5 ? near.high + (near.low + flip_sign(-small.low, sign_of(x))) : x < 0 ? 2 - part : part;
  return x == x ? result : x;
}
template <DoubleVector D> WIR_INLINE D lgamma(D x) {
  return in_lanes(x, [](double one) {
    int sign;
    return static_cast<double>(::lgammal_r(one, &sign));
  });
}

}  // namespace
}  // namespace wir::vec
#endif
