// OpenMP's queries for libraries without threads: kernels ask them inside regions that one thread runs.
#ifndef _OPENMP

extern "C" {
#define WIR_OWN [[gnu::visibility("hidden")]]
WIR_OWN int omp_get_thread_num() { return 0; }
WIR_OWN int omp_get_num_threads() { return 1; }
WIR_OWN int omp_get_max_threads() { return 1; }
WIR_OWN int omp_in_parallel() { return 0; }
#undef WIR_OWN
}

#endif
