// The board interface of the firmware: memory, and files and the console of the machine that runs the emulator or
// debugger (https://github.com/ARM-software/abi-aa/blob/main/semihosting/semihosting.rst).
#ifndef BOARD_H_
#define BOARD_H_

#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

struct board_memory {
  uint8_t *data;  // at a multiple of 64
  size_t size;
};

struct board_memory board_free_memory(void);  // all memory between the variables and the stack
size_t board_variable_bytes(void);
size_t board_stack_bytes(void);  // the most that the stack has had so far

void semihosting_print(const char *text);
// Opens a file for reading, or makes a new one for writing. Returns a negative number if that fails.
int32_t semihosting_open_to_read(const char *path);
int32_t semihosting_open_to_write(const char *path);
// Return the number of bytes that were transferred.
size_t semihosting_read(int32_t file, void *data, size_t size);
size_t semihosting_write(int32_t file, const void *data, size_t size);
void semihosting_close(int32_t file);
__attribute__((noreturn)) void semihosting_exit(int status);

#ifdef __cplusplus
}
#endif

#endif  // BOARD_H_
