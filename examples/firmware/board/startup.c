// Vector table and start-up code of a Cortex-M55.
#include <stdint.h>

#include "board/semihosting.h"

extern uint32_t stack_top[], bss_start[], bss_end[];
extern void (*init_start[])(void);
extern void (*init_end[])(void);
int main(void);

__attribute__((noreturn)) void reset(void) {
  *(volatile uint32_t *)0xE000ED88 |= 0xFu
                                      << 20;  // CPACR: enable the floating-point and vector unit before its first use
  __asm volatile("dsb\n isb");
  for (uint32_t *word = bss_start; word < bss_end; ++word) *word = 0;
  for (void (**init)(void) = init_start; init < init_end; ++init) (*init)();
  semihosting_exit(main());
}

static void fault(void) {
  semihosting_print("fault\n");
  semihosting_exit(3);
}

__attribute__((section(".vectors"), used)) static const void *const vectors[16] = {
    stack_top,           (const void *)reset, (const void *)fault, (const void *)fault,
    (const void *)fault, (const void *)fault, (const void *)fault, (const void *)fault,
    (const void *)fault, (const void *)fault, (const void *)fault, (const void *)fault,
    (const void *)fault, (const void *)fault, (const void *)fault, (const void *)fault,
};
