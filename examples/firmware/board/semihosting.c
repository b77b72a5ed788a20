#include <string.h>

#include "board/board.h"

enum { kOpen = 0x01, kClose = 0x02, kPrint = 0x04, kWrite = 0x05, kRead = 0x06, kExit = 0x20 };
enum { kReadBinary = 1, kWriteBinary = 5 };
#define STOPPED_BY_APPLICATION 0x20026u

static int32_t call(int32_t operation, const void *argument) {
  register int32_t r0 __asm("r0") = operation;
  register const void *r1 __asm("r1") = argument;
  __asm volatile("bkpt 0xab" : "+r"(r0) : "r"(r1) : "memory");
  return r0;
}

static int32_t open_file(const char *path, uint32_t mode) {
  const uint32_t name[] = {(uint32_t)path, mode, strlen(path)};
  return call(kOpen, name);
}

// Reads or writes, and returns the number of transferred bytes; semihosting returns the number of the others.
static size_t transfer(int32_t operation, int32_t file, const void *data, size_t size) {
  const uint32_t block[] = {(uint32_t)file, (uint32_t)data, size};
  return size - (size_t)call(operation, block);
}

void semihosting_print(const char *text) { call(kPrint, text); }
int32_t semihosting_open_to_read(const char *path) { return open_file(path, kReadBinary); }
int32_t semihosting_open_to_write(const char *path) { return open_file(path, kWriteBinary); }
size_t semihosting_read(int32_t file, void *data, size_t size) { return transfer(kRead, file, data, size); }
size_t semihosting_write(int32_t file, const void *data, size_t size) { return transfer(kWrite, file, data, size); }
void semihosting_close(int32_t file) { call(kClose, &file); }

void semihosting_exit(int status) {
  const uint32_t reason[] = {STOPPED_BY_APPLICATION, (uint32_t)status};
  for (;;) call(kExit, reason);
}
