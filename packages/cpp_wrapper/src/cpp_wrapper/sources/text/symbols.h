// How printed expressions count, and how they fail: before helpers.h.
#pragma once
#include "runtime.h"

#define WIR_INT wir::Wide
[[noreturn]] inline void wir_fail(const char* code, const char* why) { wir::fail(code, why); }
