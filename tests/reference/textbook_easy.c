/* Textbook FCFS + EASY for large traces, as a second opinion to textbook.py (written apart from its structure).
 *
 *     textbook_easy NODES KILL TICK < jobs
 *
 * KILL 1 or 0; TICK one second in the unit of the input. Input: one "submit run limit size" of integers per line, file
 * order; output: one start time per line in file order, "-" for a rejected job.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

typedef long long ll;
typedef struct { ll submit, run, limit, size, start, end; long place, born; } Job;

static Job *job;   /* in file order */
static Job **line; /* the same, by submit time */
static Job **run_; /* running, any order */
static Job **que;  /* waiting, by arrival */
static long n, n_run, n_que, passes;
static ll nodes, tick, now, idle;
static int kill_;

static ll expected(const Job *j) {
    ll asked = j->start + j->limit;
    return (asked <= now && j->born != passes) ? now + tick : asked;
}
static int by_submit(const void *a, const void *b) {
    const Job *x = *(Job *const *)a, *y = *(Job *const *)b;
    if (x->submit != y->submit) return x->submit < y->submit ? -1 : 1;
    return x->place < y->place ? -1 : 1;
}
static int by_expected(const void *a, const void *b) {
    ll x = expected(*(Job *const *)a), y = expected(*(Job *const *)b);
    return (x > y) - (x < y);
}
static void start(Job *j) {
    j->start = now;
    j->born = passes;
    j->end = now + (kill_ && j->run > j->limit ? j->limit : j->run);
    idle -= j->size;
    run_[n_run++] = j;
}
static void pass(void) {
    long first = 0, kept, k;
    passes++;
    while (first < n_que && que[first]->size <= idle) start(que[first++]);
    memmove(que, que + first, (size_t)(n_que -= first) * sizeof *que);
    if (n_que < 2 || idle == 0) return;
    qsort(run_, (size_t)n_run, sizeof *run_, by_expected);
    ll will_be_free = idle, shadow = now;
    for (k = 0; k < n_run; k++) { /* all that end by the shadow, ties included */
        if (will_be_free >= que[0]->size && expected(run_[k]) > shadow) break;
        shadow = expected(run_[k]);
        will_be_free += run_[k]->size;
    }
    ll extra = will_be_free - que[0]->size;
    for (k = kept = 1; k < n_que; k++) {
        Job *j = que[k];
        int by_shadow = now + j->limit <= shadow;
        if (j->size <= idle && (by_shadow || j->size <= extra)) {
            if (!by_shadow) extra -= j->size;
            start(j);
        } else que[kept++] = j;
    }
    n_que = kept;
}
int main(int argc, char **argv) {
    Job j = {0};
    long room = 0, next = 0, k, kept;
    if (argc != 4) return 2;
    idle = nodes = atoll(argv[1]);
    kill_ = atoi(argv[2]);
    tick = atoll(argv[3]);
    while (scanf("%lld %lld %lld %lld", &j.submit, &j.run, &j.limit, &j.size) == 4) {
        if (n == room) job = realloc(job, (size_t)(room = 2 * room + 1024) * sizeof *job);
        j.place = n;
        job[n++] = j;
    }
    line = malloc((size_t)(n + 1) * sizeof *line);
    run_ = malloc((size_t)(n + 1) * sizeof *run_);
    que = malloc((size_t)(n + 1) * sizeof *que);
    for (k = kept = 0; k < n; k++)
        if (job[k].run >= 0 && job[k].size > 0 && job[k].size <= nodes) line[kept++] = &job[k];
        else job[k].place = -1;
    qsort(line, (size_t)kept, sizeof *line, by_submit);
    for (long total = kept; next < total || n_run;) {
        int any = 0;
        if (next < total) now = line[next]->submit, any = 1;
        for (k = 0; k < n_run; k++)
            if (!any || run_[k]->end < now) now = run_[k]->end, any = 1;
        for (k = kept = 0; k < n_run; k++)
            if (run_[k]->end == now) idle += run_[k]->size;
            else run_[kept++] = run_[k];
        n_run = kept;
        while (next < total && line[next]->submit == now) que[n_que++] = line[next++];
        pass();
    }
    for (k = 0; k < n; k++)
        if (job[k].place < 0) puts("-");
        else printf("%lld\n", job[k].start);
    return 0;
}
