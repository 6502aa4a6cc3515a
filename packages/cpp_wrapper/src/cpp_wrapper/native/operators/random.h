// The library's random generator: the numbers of torch's CPU generator, from the same seeds.
#pragma once
#include <cstdint>

namespace wir {

/// Sets the state, as `torch.manual_seed` does. Without it the seed is that of a fresh process of torch.
void set_random_seed(uint64_t seed);

}  // namespace wir
