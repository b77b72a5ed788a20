#include "board/semihosting.h"

#include <stdint.h>
#include <string.h>

enum { kOpen = 0x01, kClose = 0x02, kPrint = 0x04, kWrite = 0x05, kRead = 0x06, kExit = 0x20 };
enum { kReadBinary = 1, kWriteBinary = 5 };
#define STOPPED_BY_APPLICATION 0x20026u

static int32_t call(int32_t operation, const void *argument) {
  register int32_t r0 __asm("r0") = operation;
  register const void *r1 __asm("r1") = argument;
  __asm volatile("bkpt 0xab" : "+r"(r0) : "r"(r1) : "memory");
  return r0;
}

// Reads or writes a whole file. Both operations return the number of bytes that were not transferred.
static int transfer(const char *path, int32_t mode, int32_t operation, const void *data, size_t size) {
  const uint32_t name[] = {(uint32_t)path, (uint32_t)mode, strlen(path)};
  const int32_t file = call(kOpen, name);
  if (file < 0) return 0;
  const uint32_t block[] = {(uint32_t)file, (uint32_t)data, size};
  const int32_t left = call(operation, block);
  call(kClose, &file);
  return left == 0;
}

void semihosting_print(const char *text) { call(kPrint, text); }

int semihosting_read(const char *path, void *data, size_t size) {
  return transfer(path, kReadBinary, kRead, data, size);
}

int semihosting_write(const char *path, const void *data, size_t size) {
  return transfer(path, kWriteBinary, kWrite, data, size);
}

void semihosting_exit(int status) {
  const uint32_t reason[] = {STOPPED_BY_APPLICATION, (uint32_t)status};
  for (;;) call(kExit, reason);
}
