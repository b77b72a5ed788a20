// Access to files and the console of the machine that runs the emulator or debugger.
// https://github.com/ARM-software/abi-aa/blob/main/semihosting/semihosting.rst
#ifndef SEMIHOSTING_H_
#define SEMIHOSTING_H_

#include <stddef.h>

#ifdef __cplusplus
extern "C" {
#endif

void semihosting_print(const char *text);
// Read the first `size` bytes of a file, or write a file of `size` bytes. Return 1 if all bytes were transferred, else
// 0.
int semihosting_read(const char *path, void *data, size_t size);
int semihosting_write(const char *path, const void *data, size_t size);
__attribute__((noreturn)) void semihosting_exit(int status);

#ifdef __cplusplus
}
#endif

#endif  // SEMIHOSTING_H_
