/* Divides work among threads. */
#include "common.h"

/* More parts than threads, because some threads start late. */
#define PARTS_OF_A_THREAD 4

/* Of the sources this library was compiled from; see fingerprint.py. */
const char fingerprint[] = FINGERPRINT;

/* Runs a function in several threads; it has the signature of GOMP_parallel, which OpenMP runtimes export. */
typedef void Team(void (*function)(void *), void *data, unsigned threads, unsigned flags);

typedef struct {
    Part *part;
    const void *problem;
    int64_t count, parts, next;
    int failed;
} Work;

/* Every thread takes the next part until there is none. */
static void take_parts(void *data) {
    Work *work = data;
    for (int64_t p; (p = __atomic_fetch_add(&work->next, 1, __ATOMIC_RELAXED)) < work->parts;) {
        int64_t first = work->count * p / work->parts, last = work->count * (p + 1) / work->parts;
        if (work->part(work->problem, first, last)) __atomic_store_n(&work->failed, 1, __ATOMIC_RELAXED);
    }
}

/* Calls a function for ranges that cover 0..count; returns 1 if an allocation failed in any of them. The team are
   torch's own threads: others would compete with them, because they spin for some milliseconds after their work is
   done. Without a team there is one thread. */
int in_parts(Part *part, const void *problem, int64_t count, int64_t threads, Team *team) {
    int64_t parts = threads * PARTS_OF_A_THREAD < count ? threads * PARTS_OF_A_THREAD : count;
    Work work = {part, problem, count, parts, 0, 0};
    if (threads == 1 || !team) return part(problem, 0, count);
    team(take_parts, &work, (unsigned)threads, 0);
    return work.failed;
}
