// Polynomials of vector functions, the constant first. Written by `python -m tools.vectors.minimax`: do not edit.
#pragma once

namespace wir::vec {

/// (e^r - 1 - r) / r^2, for float; error 2^-28.2.
constexpr double kExpShort[] = {
    0x1.00000056c1771p-1,
    0x1.555486f012ebbp-3,
    0x1.555453f039952p-5,
    0x1.1241474926df8p-7,
    0x1.6dbc695cef69bp-10,
};
/// (e^r - 1 - r) / r^2, for float results of double arithmetic; error 2^-31.9.
constexpr double kExpFloat[] = {
    0x1.0000002a4a887p-1,
    0x1.5555558c27474p-3,
    0x1.5554a719d2431p-5,
    0x1.11108a69558dbp-7,
    0x1.6d7b7c13cea96p-10,
    0x1.a1a92ca0eec82p-13,
};
/// (e^r - 1 - r - r^2/2) / r^3, for double; error 2^-61.5.
constexpr double kExpDouble[] = {
    0x1.5555555555559p-3,
    0x1.5555555555559p-5,
    0x1.111111110f4b7p-7,
    0x1.6c16c16c147aep-10,
    0x1.a01a01b0caacap-13,
    0x1.a01a01b058492p-16,
    0x1.71ddf5d0c5d53p-19,
    0x1.27e4c5a45917dp-22,
    0x1.af6382daf8fbep-26,
    0x1.1f961a460dfa2p-29,
};
/// (2^r - 1) / r, for float; error 2^-28.9.
constexpr double kExp2Short[] = {
    0x1.62e430d9d6fa1p-1,
    0x1.ebfbe0e54aa8ep-3,
    0x1.c6aebd55abfdep-5,
    0x1.3b299f23e4af3p-7,
    0x1.5f50b109c1bb3p-10,
    0x1.44979f8e31083p-13,
};
/// (2^r - 1) / r, for float results of double arithmetic; error 2^-34.2.
constexpr double kExp2Float[] = {
    0x1.62e42fef78195p-1,
    0x1.ebfbe082c06abp-3,
    0x1.c6b08dfc6def5p-5,
    0x1.3b29e8f2f00cep-7,
    0x1.5d871acf166a2p-10,
    0x1.4465491b0ac5bp-13,
    0x1.00f690ca574b7p-16,
};
/// (2^r - 1) / r, for double; error 2^-64.2.
constexpr double kExp2Double[] = {
    0x1.62e42fefa39efp-1,
    0x1.ebfbdff82c58fp-3,
    0x1.c6b08d704a0d2p-5,
    0x1.3b2ab6fba4e83p-7,
    0x1.5d87fe78a1d23p-10,
    0x1.430912f86886ap-13,
    0x1.ffcbfc77b274cp-17,
    0x1.62c0224eda321p-20,
    0x1.b524d759b49a4p-24,
    0x1.e4cee3e8720b0p-28,
    0x1.ea0a6cd8e188ep-32,
    0x1.c4e06d975c04ep-36,
};
/// (log(1 + f) - f + f^2/2) / f^3, for float; error 2^-30.4.
constexpr double kLogShort[] = {
    0x1.555545f919a94p-2,
    -0x1.ffffedfe7bcdcp-3,
    0x1.99a545c8794c5p-3,
    -0x1.5562e2ae2962ep-3,
    0x1.2332be0d82098p-3,
    -0x1.fb4332c30d1a7p-4,
    0x1.e650c0478ad81p-4,
    -0x1.e2e993a0db1e9p-4,
    0x1.1b4261cb2fa60p-4,
};
/// (log(1 + f) - f) / f^2, for float results of double arithmetic; error 2^-30.4.
constexpr double kLogFloat[] = {
    -0x1.0000000008f65p-1,
    0x1.555545f88d413p-2,
    -0x1.ffffedf4c1c07p-3,
    0x1.99a545fc93421p-3,
    -0x1.5562e3b867c7dp-3,
    0x1.2332bb420b944p-3,
    -0x1.fb43189b3979ap-4,
    0x1.e650cfd17b53ap-4,
    -0x1.e2ea0e43aeccbp-4,
    0x1.1b42bfa9e66d9p-4,
};
/// (log(1 + f) - f) / f^2, for powers of float; error 2^-38.4.
constexpr double kLogPower[] = {
    -0x1.fffffffeb9622p-2,
    0x1.555555624ec2ep-2,
    -0x1.0000018530265p-2,
    0x1.99998befe6f8fp-3,
    -0x1.555454e6219edp-3,
    0x1.24943d956210bp-3,
    -0x1.00244b67a2580p-3,
    0x1.c701203af898ep-4,
    -0x1.94a2511c5c00ep-4,
    0x1.70b69fcb67421p-4,
    -0x1.7d162f09a84fdp-4,
    0x1.7c4b03e64bd9dp-4,
    -0x1.97bd123ad1868p-5,
};
/// (log((1 + s) / (1 - s)) / s - 2) / s^2 of s^2, for double; error 2^-58.6.
constexpr double kLogRatio[] = {
    0x1.5555555555555p-1,
    0x1.9999999999a45p-2,
    0x1.2492492474d74p-2,
    0x1.c71c7204c17fcp-3,
    0x1.745cf79e0bb30p-3,
    0x1.3b1c807951be1p-3,
    0x1.0fb6d32eb63f8p-3,
    0x1.0c53d6bd53020p-3,
};
/// (log((1 + s) / (1 - s)) - 2 s - 2/3 s^3) / s^5 of s^2, for double; error 2^-66.0.
constexpr double kLogSeries[] = {
    0x1.999999999999ap-2,
    0x1.2492492492491p-2,
    0x1.c71c71c71d091p-3,
    0x1.745d174506266p-3,
    0x1.3b13b1c3dd7fbp-3,
    0x1.1110dd6ec7b95p-3,
    0x1.e1f8ba431b91dp-4,
    0x1.ac39ee72b9126p-4,
    0x1.b9692b748044fp-4,
};
/// (sin(r) - r) / r^3 of r^2 up to pi/4, for float; error 2^-27.9.
constexpr double kSinFloat[] = {
    -0x1.555544a2a3ad3p-3,
    0x1.1106fc283d11bp-7,
    -0x1.992c063d87a0ep-13,
};
/// (cos(r) - 1 + r^2/2) / r^4 of r^2, for float; error 2^-33.1.
constexpr double kCosFloat[] = {
    0x1.55554a0d3836ap-5,
    -0x1.6c0c221d15e32p-10,
    0x1.99e339f1c53e7p-16,
};
/// (sin(r) - r) / r^3 of r^2 up to pi/2, for float; error 2^-27.5.
constexpr double kSinShort[] = {
    -0x1.55554c52f5104p-3,
    0x1.110ee2a331531p-7,
    -0x1.9f71a57aabfbep-13,
    0x1.5dc7890f66a57p-19,
};
/// (sin(r) - r) / r^3 of r^2 up to pi/2, for float results of double arithmetic; error 2^-35.5.
constexpr double kSinWide[] = {
    -0x1.555555481d3abp-3,
    0x1.11110c6770605p-7,
    -0x1.a017de6cd9c8bp-13,
    0x1.7170993e63023p-19,
    -0x1.9a60d0dc4ee8bp-26,
};
/// (sin(r) - r) / r^3 of r^2, for double; error 2^-68.6.
constexpr double kSinDouble[] = {
    -0x1.5555555555555p-3,
    0x1.111111111110ap-7,
    -0x1.a01a01a0188b2p-13,
    0x1.71de3a530b5d5p-19,
    -0x1.ae64525b945a5p-26,
    0x1.61206ba77ad5ep-33,
    -0x1.aa91bd92d9616p-41,
};
/// (cos(r) - 1 + r^2/2) / r^4 of r^2, for double; error 2^-75.0.
constexpr double kCosDouble[] = {
    0x1.5555555555555p-5,
    -0x1.6c16c16c16c0fp-10,
    0x1.a01a01a018c08p-16,
    -0x1.27e4fb75dcfbcp-22,
    0x1.1eed8c7ef3810p-29,
    -0x1.93930e76b6989p-37,
    0x1.aab2c624b1372p-45,
};
/// (atan(z) - z) / z^3 of z^2, for float; error 2^-31.4.
constexpr double kAtanFloat[] = {
    -0x1.5555515fe652bp-2,
    0x1.9997fd1541629p-3,
    -0x1.247503bea19a7p-3,
    0x1.c5071b302bf5ep-4,
    -0x1.693876ac71972p-4,
    0x1.14df907c154a2p-4,
    -0x1.70346b440b99ap-5,
    0x1.74e951bb3314bp-6,
    -0x1.e6761c5641f6bp-8,
    0x1.2982c1790e4a3p-10,
};
/// (asin(z) - z) / z^3 of z^2, for float; error 2^-31.7.
constexpr double kAsinFloat[] = {
    0x1.55554c3044dbep-3,
    0x1.333891e5818b9p-4,
    0x1.6cabb7321da76p-5,
    0x1.04aaf2f3f7482p-5,
    0x1.d7a8a866e12e2p-7,
    0x1.33d6e4c3f9bb3p-5,
};
/// (atan(z) - z) / z^3 of z^2 up to tan(pi/8), for double; error 2^-59.5.
constexpr double kAtanDouble[] = {
    -0x1.555555555553dp-2,
    0x1.9999999995862p-3,
    -0x1.24924922ad960p-3,
    0x1.c71c70e630d00p-4,
    -0x1.745cf8e00bb7ep-4,
    0x1.3b11194d5ffe3p-4,
    -0x1.10ebb9754227ep-4,
    0x1.df0f4b5eb3476p-5,
    -0x1.9cd26aba8058cp-5,
    0x1.37d3f95ebbfebp-5,
    -0x1.2564cd881af4dp-6,
};
/// (asin(z) - z) / z^3 of z^2, for double; error 2^-59.8.
constexpr double kAsinDouble[] = {
    0x1.5555555555578p-3,
    0x1.333333332df08p-4,
    0x1.6db6db722bde6p-5,
    0x1.f1c71a8b779f3p-6,
    0x1.6e8bdfea0cf2bp-6,
    0x1.1c49ddcb68a3fp-6,
    0x1.ca2148cc6fd51p-7,
    0x1.75776bf3a19e0p-7,
    0x1.618b63b1b3890p-7,
    0x1.e1521d71836f7p-9,
    0x1.65049193216abp-6,
    -0x1.59f9dfdf813e2p-6,
    0x1.0be560b5b7545p-5,
};
/// erf(x) / x of x^2 up to 1, for float; error 2^-29.7.
constexpr double kErfNear[] = {
    0x1.20dd74ff16398p+0,
    -0x1.81273eca848ccp-2,
    0x1.ce2d1f924b226p-4,
    -0x1.b7fbb41d68bd3p-6,
    0x1.5419f34665b7ap-8,
    -0x1.a485e133f7100p-11,
    0x1.4ae4b5ece60fdp-14,
};
/// log2(erfc(x)) from 1 to 4, for float; error 2^-34.9.
constexpr double kErfFar[] = {
    0x1.1c719abd4a9f9p-12,
    -0x1.a12fe5c3ee4d0p+0,
    -0x1.d3bbf48f6eaecp-1,
    -0x1.40566389cf537p-3,
    0x1.29eca35d9d3acp-5,
    -0x1.8d8844a151fdbp-8,
    0x1.4dd13a6ca2251p-11,
    -0x1.06740021e8b9ep-15,
};
/// erfc(x) e^(x^2) of (x - 2) / (x + 2), for float; error 2^-29.1.
constexpr double kErfcFloat[] = {
    0x1.058671b993571p-2,
    -0x1.b5703550d2342p-2,
    0x1.eeea7b1e7186ap-3,
    -0x1.437ed047966a8p-4,
    0x1.e95024c5f1650p-9,
    0x1.ca6f038efa03ap-8,
    -0x1.bd09eeae23e39p-11,
    -0x1.fd936a344dc8ap-11,
    0x1.a4011e3fd2928p-15,
    0x1.44396db37e18ap-13,
    0x1.c09446806e4a4p-17,
    -0x1.923a82f5ada43p-17,
};
/// (erf(x) / x - 2 / sqrt(pi)) / x^2 of x^2 up to 1/2, for double; error 2^-65.1.
constexpr double kErfDouble[] = {
    -0x1.812746b0379e7p-2,
    0x1.ce2f21a042b4ap-4,
    -0x1.b82ce31280852p-6,
    0x1.565bcd0af1417p-8,
    -0x1.c02db25555023p-11,
    0x1.f9a2ab0aee4e7p-14,
    -0x1.f4bc280b90e7ap-17,
    0x1.b77ed0fa7430cp-20,
    -0x1.3a34f02b02b39p-23,
};
/// erfc(x) e^(x^2) of x - 5/4, from 1/2 to 2, for double; error 2^-61.4.
constexpr double kErfcDouble[] = {
    0x1.78a692138767ap-2,
    -0x1.abaacdbfa8b06p-3,
    0x1.b56f45eef7e58p-4,
    -0x1.9b635ac624b15p-5,
    0x1.68a25a6641e8dp-6,
    -0x1.299636d6c31dfp-7,
    0x1.d1b695aac1d00p-9,
    -0x1.5b8bc94db94cap-10,
    0x1.f0fe6fb452723p-12,
    -0x1.55c07cba3876ep-13,
    0x1.c57035d2cebb2p-15,
    -0x1.22fc539ccdd82p-16,
    0x1.6a18badb9948ep-18,
    -0x1.b5b804dd5fe4cp-20,
    0x1.017d04909bf85p-21,
    -0x1.2791b5eef4746p-23,
    0x1.4a99d7b9416e9p-25,
    -0x1.62722672a6a05p-27,
    0x1.7dd9adc7348cbp-29,
    -0x1.ea99a829aa1a0p-31,
    0x1.e8d08359b32efp-33,
};
/// The constant of `kErfcDouble` beyond its first number.
constexpr double kErfcDoubleRest = 0x1.0069421466724p-63;
/// erfc(x) e^(x^2) x of (x - 3) / (x + 3), from 2 to 27.7, for double; error 2^-60.7.
constexpr double kErfcTail[] = {
    0x1.12f21ddd9f5e2p-1,
    0x1.865fd27e52133p-4,
    -0x1.2c33bbab9817dp-3,
    0x1.1e79b14a5e9b2p-3,
    -0x1.870b49f53041fp-4,
    0x1.7bb38c2555c9cp-5,
    -0x1.cb66d246a9d59p-7,
    0x1.dd888df38b905p-11,
    0x1.45cfffc0a10edp-10,
    -0x1.b0956ab170f52p-12,
    -0x1.62dc60e7208f7p-14,
    0x1.214bb79d15038p-14,
    0x1.b0f4f2351d189p-18,
    -0x1.71a5c8a01a115p-17,
    -0x1.41386bd66961dp-20,
    0x1.14f0db0597beep-19,
    0x1.7a4273dc9d431p-22,
    -0x1.4072c82d35b47p-21,
    0x1.23c04467bad62p-23,
};
/// The constant of `kErfcTail` beyond its first number.
constexpr double kErfcTailRest = -0x1.95fb76e136ad0p-55;

}  // namespace wir::vec
