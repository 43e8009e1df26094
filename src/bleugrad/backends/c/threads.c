/* Divides work among threads. */
#include "common.h"

/* More parts than threads, because some threads start late. */
#define PARTS_OF_A_THREAD 4

/* Calls a function for ranges that cover 0..count; returns 1 if an allocation failed in any of them. With OpenMP these
   are torch's own threads if it uses the same runtime library: other threads would compete with torch's, which spin for
   some milliseconds after their work is done. Without OpenMP there is one thread. */
int in_parts(Part *part, void *const *with, int64_t count, int64_t threads) {
    int64_t parts = threads * PARTS_OF_A_THREAD < count ? threads * PARTS_OF_A_THREAD : count;
    int failed = 0;
    if (threads == 1) return part(with, 0, count);
#pragma omp parallel for num_threads(threads) schedule(dynamic, 1) reduction(|: failed)
    for (int64_t p = 0; p < parts; p++) failed |= part(with, count * p / parts, count * (p + 1) / parts);
    return failed;
}
