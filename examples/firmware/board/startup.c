// Vector table and start-up code of a Cortex-M33, M55 or M85.
#include <stdint.h>

#include "board/board.h"

extern uint32_t stack_top[], stack_limit[], variables_start[], bss_start[], bss_end[];
extern uint8_t memory_start[];
extern void (*init_start[])(void);
extern void (*init_end[])(void);
int main(void);

#define UNUSED_STACK 0xa5a5a5a5u

__attribute__((noreturn)) void reset(void) {
  *(volatile uint32_t *)0xE000ED88 |= 0xFu << 20;  // CPACR: enable the floating-point unit before its first use
  __asm volatile("dsb\n isb");
  __asm volatile("msr msplim, %0" : : "r"(stack_limit));  // from now on, a stack overflow causes a fault
  for (volatile uint32_t *word = stack_limit; word < (uint32_t *)__builtin_frame_address(0) - 16; ++word) {
    *word = UNUSED_STACK;
  }
  for (uint32_t *word = bss_start; word < bss_end; ++word) *word = 0;
  for (void (**init)(void) = init_start; init < init_end; ++init) (*init)();
  semihosting_exit(main());
}

struct board_memory board_free_memory(void) {
  const struct board_memory memory = {memory_start, (size_t)((uint8_t *)stack_limit - memory_start)};
  return memory;
}

size_t board_variable_bytes(void) { return (size_t)((uint8_t *)bss_end - (uint8_t *)variables_start); }

size_t board_stack_bytes(void) {
  const uint32_t *word = stack_limit;
  while (*word == UNUSED_STACK) ++word;
  return (size_t)((uint8_t *)stack_top - (uint8_t *)word);
}

__attribute__((noreturn, used)) static void report_fault(void) {
  semihosting_print("The processor met a fault, such as a stack that is too small or a wrong address.\n");
  semihosting_exit(3);
}

// Removes the stack limit before report_fault: after an overflow the stack pointer is at the limit, and a function that
// uses the stack would fault again.
__attribute__((naked)) static void fault(void) {
  __asm volatile(
      "movs r0, #0\n"
      "msr msplim, r0\n"
      "b report_fault");
}

__attribute__((section(".vectors"), used)) static const void *const vectors[16] = {
    stack_top,           (const void *)reset, (const void *)fault, (const void *)fault,
    (const void *)fault, (const void *)fault, (const void *)fault, (const void *)fault,
    (const void *)fault, (const void *)fault, (const void *)fault, (const void *)fault,
    (const void *)fault, (const void *)fault, (const void *)fault, (const void *)fault,
};
