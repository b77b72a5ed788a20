// bandwidth THREADS: prints the memory bandwidth in GB/s when this number of threads reads 512 MiB, the best of ten
// rounds.
#include <pthread.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

enum { kBytes = 512 << 20, kRounds = 10, kMaxThreads = 64 };
static uint64_t *memory;
static int threads;

static void *read_part(void *index) {
  const size_t count = kBytes / sizeof(uint64_t) / (size_t)threads / 64 * 64;
  const uint64_t *part = memory + count * (size_t)index;
  uint64_t sums[64] = {0};
  for (size_t i = 0; i < count; i += 64) {
    for (int lane = 0; lane < 64; ++lane) sums[lane] ^= part[i + (size_t)lane];
  }
  for (int lane = 1; lane < 64; ++lane) sums[0] ^= sums[lane];
  return (void *)(uintptr_t)sums[0];
}

static double now(void) {
  struct timespec time;
  clock_gettime(CLOCK_MONOTONIC, &time);
  return (double)time.tv_sec + 1e-9 * (double)time.tv_nsec;
}

int main(int argc, char **argv) {
  threads = argc > 1 ? atoi(argv[1]) : 1;
  memory = aligned_alloc(4096, kBytes);
  if (memory == NULL || threads < 1 || threads > kMaxThreads) return 1;
  memset(memory, 1, kBytes);
  double best = 0;
  volatile uintptr_t result = 0;  // volatile, so that the compiler does not remove the reads
  for (int round = 0; round < kRounds; ++round) {
    pthread_t workers[kMaxThreads];
    const double start = now();
    for (size_t t = 0; t < (size_t)threads; ++t) pthread_create(workers + t, NULL, read_part, (void *)t);
    for (int t = 0; t < threads; ++t) {
      void *sum = NULL;
      pthread_join(workers[t], &sum);
      result = result ^ (uintptr_t)sum;
    }
    const double speed = kBytes / (now() - start) / 1e9;
    if (speed > best) best = speed;
  }
  printf("%.2f\n", best);
  return 0;
}
