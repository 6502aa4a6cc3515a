// Checked forms of what printed expressions call.
#pragma once

inline wir::Int wir_floordiv(wir::Int a, wir::Int b) {
  if (b == 0) wir::fail_division();
  return b == -1 ? -a : wir::Int(wir_floordiv(wir::raw(a), wir::raw(b)));
}
inline wir::Int wir_ceildiv(wir::Int a, wir::Int b) {
  if (b == 0) wir::fail_division();
  return b == -1 ? -a : wir::Int(wir_ceildiv(wir::raw(a), wir::raw(b)));
}
inline wir::Int wir_mod(wir::Int a, wir::Int b) {
  if (b == 0) wir::fail_division();
  return b == -1 ? wir::Int(0) : wir::Int(wir_mod(wir::raw(a), wir::raw(b)));
}
inline wir::Int wir_min(wir::Int a, wir::Int b) { return b < a ? b : a; }
inline wir::Int wir_max(wir::Int a, wir::Int b) { return b > a ? b : a; }
inline wir::Int wir_abs(wir::Int a) { return a < 0 ? -a : a; }
inline wir::Int wir_pow(wir::Int base, wir::Int exponent) {
  wir::Int result = 1;
  if (base == 0 || base == 1) return exponent == 0 ? result : base;
  if (base == -1) return (exponent & 1) == 1 ? base : result;
  for (; exponent > 0; exponent = exponent - 1) result = result * base;
  return result;
}
inline double wir_round_to(double x, wir::Int digits) { return wir_round_to(x, wir::raw(digits)); }
