// The functions of Arm's driver (ethos-u-core-driver) that the delegate calls, for builds without the driver: with
// ETHOSU_DRIVER_PATH the driver's own header of the same name is used.
#ifndef ETHOSU_DRIVER_H
#define ETHOSU_DRIVER_H

#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

struct ethosu_driver;

// Waits until an NPU is free, and reserves it for ethosu_invoke_v3; NULL if there is none.
struct ethosu_driver *ethosu_reserve_driver(void);
void ethosu_release_driver(struct ethosu_driver *drv);

// Runs the command stream in `custom_data_ptr`. Returns 0, or a negative number on failure. Region i, which the command
// stream accesses, starts at base_addr[i] and has base_addr_size[i] bytes; the driver may replace base_addr[i]. The
// driver passes `user_arg` to its callbacks.
int ethosu_invoke_v3(struct ethosu_driver *drv, const void *custom_data_ptr, const int custom_data_size,
                     uint64_t *const base_addr, const size_t *base_addr_size, const int num_base_addr, void *user_arg);

#ifdef __cplusplus
}
#endif

#endif  // ETHOSU_DRIVER_H
