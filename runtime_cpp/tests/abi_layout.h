// Static assertions of the size and the offsets of every struct of the native interface, for C11 and C++17. The numbers
// may change only with the version of the interface. Columns: pointers of 64 bits (LP64 and LLP64); pointers of 32 bits
// with 64-bit integers aligned to 8 (Arm, Windows); the same aligned to 4 (i386 of System V).
#ifndef EDGECORE_TESTS_ABI_LAYOUT_H_
#define EDGECORE_TESTS_ABI_LAYOUT_H_

#include "edgecore/backend.h"
#include "edgecore/kernel.h"
#include "edgecore/platform.h"

#ifdef __cplusplus
#define EDGECORE_ASSERT(condition, text) static_assert(condition, text)
#else
#define EDGECORE_ASSERT(condition, text) _Static_assert(condition, text)
#endif

struct edgecore_alignment_probe {
  char first;
  uint64_t second;
};
#define EDGECORE_COLUMN(wide, narrow, packed) \
  (sizeof(void *) == 8 ? (wide) : offsetof(struct edgecore_alignment_probe, second) == 8 ? (narrow) : (packed))
#define SIZE(type, wide, narrow, packed) \
  EDGECORE_ASSERT(sizeof(type) == EDGECORE_COLUMN(wide, narrow, packed), "size of " #type)
#define AT(type, member, wide, narrow, packed) \
  EDGECORE_ASSERT(offsetof(type, member) == EDGECORE_COLUMN(wide, narrow, packed), #type "." #member)

EDGECORE_ASSERT(sizeof(void (*)(void)) == sizeof(void *), "tables hold functions where members are pointers");
EDGECORE_ASSERT(sizeof(void *) == 8 || sizeof(void *) == 4, "other machines have no column");

SIZE(edgecore_header, 8, 8, 8);
AT(edgecore_header, struct_size, 0, 0, 0);
AT(edgecore_header, major, 4, 4, 4);
AT(edgecore_header, minor, 6, 6, 6);
SIZE(edgecore_str, 16, 16, 12);
AT(edgecore_str, data, 0, 0, 0);
AT(edgecore_str, size, 8, 8, 4);
SIZE(edgecore_bytes, 16, 16, 12);
AT(edgecore_bytes, data, 0, 0, 0);
AT(edgecore_bytes, size, 8, 8, 4);
SIZE(edgecore_dl_dtype, 4, 4, 4);
AT(edgecore_dl_dtype, code, 0, 0, 0);
AT(edgecore_dl_dtype, bits, 1, 1, 1);
AT(edgecore_dl_dtype, lanes, 2, 2, 2);
SIZE(edgecore_dl_tensor, 48, 40, 36);
AT(edgecore_dl_tensor, data, 0, 0, 0);
AT(edgecore_dl_tensor, device_type, 8, 4, 4);
AT(edgecore_dl_tensor, device_id, 12, 8, 8);
AT(edgecore_dl_tensor, ndim, 16, 12, 12);
AT(edgecore_dl_tensor, dtype, 20, 16, 16);
AT(edgecore_dl_tensor, shape, 24, 20, 20);
AT(edgecore_dl_tensor, strides, 32, 24, 24);
AT(edgecore_dl_tensor, byte_offset, 40, 32, 28);
SIZE(edgecore_tensor, 96, 80, 72);
AT(edgecore_tensor, header, 0, 0, 0);
AT(edgecore_tensor, flags, 8, 8, 8);
AT(edgecore_tensor, scalar_type, 12, 12, 12);
AT(edgecore_tensor, dl, 16, 16, 16);
AT(edgecore_tensor, dim_order, 64, 56, 52);
AT(edgecore_tensor, max_shape, 72, 60, 56);
AT(edgecore_tensor, capacity, 80, 64, 60);
AT(edgecore_tensor, buffer, 88, 72, 68);
SIZE(edgecore_list, 16, 16, 12);
AT(edgecore_list, items, 0, 0, 0);
AT(edgecore_list, count, 8, 8, 4);
SIZE(edgecore_value, 16, 16, 16);
AT(edgecore_value, tag, 0, 0, 0);
AT(edgecore_value, flags, 4, 4, 4);
AT(edgecore_value, as, 8, 8, 8);
SIZE(edgecore_host, 136, 72, 72);
AT(edgecore_host, header, 0, 0, 0);
AT(edgecore_host, fail, 8, 8, 8);
AT(edgecore_host, log, 16, 12, 12);
AT(edgecore_host, allocate, 24, 16, 16);
AT(edgecore_host, deallocate, 32, 20, 20);
AT(edgecore_host, scratch, 40, 24, 24);
AT(edgecore_host, parallel_for, 48, 28, 28);
AT(edgecore_host, worker_count, 56, 32, 32);
AT(edgecore_host, worker_index, 64, 36, 36);
AT(edgecore_host, is_worker, 72, 40, 40);
AT(edgecore_host, named_data, 80, 44, 44);
AT(edgecore_host, resize, 88, 48, 48);
AT(edgecore_host, event_begin, 96, 52, 52);
AT(edgecore_host, event_end, 104, 56, 56);
AT(edgecore_host, progress, 112, 60, 60);
AT(edgecore_host, event_add, 120, 64, 64);
AT(edgecore_host, event_value, 128, 68, 68);
SIZE(edgecore_call, 56, 48, 40);
AT(edgecore_call, header, 0, 0, 0);
AT(edgecore_call, host, 8, 8, 8);
AT(edgecore_call, scope, 16, 12, 12);
AT(edgecore_call, args, 24, 16, 16);
AT(edgecore_call, arg_count, 32, 24, 20);
AT(edgecore_call, arg_stride, 40, 32, 28);
AT(edgecore_call, reserved, 44, 36, 32);
AT(edgecore_call, error, 48, 40, 36);
SIZE(edgecore_kernel, 56, 56, 44);
AT(edgecore_kernel, header, 0, 0, 0);
AT(edgecore_kernel, name, 8, 8, 8);
AT(edgecore_kernel, overload, 24, 24, 20);
AT(edgecore_kernel, dtypes, 40, 40, 32);
AT(edgecore_kernel, run, 48, 48, 40);
SIZE(edgecore_kernel_library, 64, 64, 52);
AT(edgecore_kernel_library, header, 0, 0, 0);
AT(edgecore_kernel_library, package, 8, 8, 8);
AT(edgecore_kernel_library, version, 24, 24, 20);
AT(edgecore_kernel_library, kernels, 40, 40, 32);
AT(edgecore_kernel_library, kernel_count, 48, 48, 36);
AT(edgecore_kernel_library, kernel_stride, 56, 56, 44);
AT(edgecore_kernel_library, flags, 60, 60, 48);
SIZE(edgecore_option, 40, 40, 32);
AT(edgecore_option, name, 0, 0, 0);
AT(edgecore_option, type, 16, 16, 12);
AT(edgecore_option, reserved, 20, 20, 16);
AT(edgecore_option, value, 24, 24, 20);
SIZE(edgecore_options, 24, 24, 20);
AT(edgecore_options, items, 0, 0, 0);
AT(edgecore_options, count, 8, 8, 4);
AT(edgecore_options, stride, 16, 16, 12);
AT(edgecore_options, reserved, 20, 20, 16);
SIZE(edgecore_option_spec, 48, 48, 40);
AT(edgecore_option_spec, header, 0, 0, 0);
AT(edgecore_option_spec, name, 8, 8, 8);
AT(edgecore_option_spec, type, 24, 24, 20);
AT(edgecore_option_spec, when, 28, 28, 24);
AT(edgecore_option_spec, help, 32, 32, 28);
SIZE(edgecore_compile_spec, 32, 32, 24);
AT(edgecore_compile_spec, key, 0, 0, 0);
AT(edgecore_compile_spec, value, 16, 16, 12);
SIZE(edgecore_memory_need, 48, 48, 44);
AT(edgecore_memory_need, header, 0, 0, 0);
AT(edgecore_memory_need, kind, 8, 8, 8);
AT(edgecore_memory_need, space, 12, 12, 12);
AT(edgecore_memory_need, bytes, 16, 16, 16);
AT(edgecore_memory_need, alignment, 24, 24, 24);
AT(edgecore_memory_need, shared_group, 32, 32, 32);
SIZE(edgecore_memory_block, 16, 16, 12);
AT(edgecore_memory_block, data, 0, 0, 0);
AT(edgecore_memory_block, bytes, 8, 8, 4);
SIZE(edgecore_buffer_requirement, 40, 40, 40);
AT(edgecore_buffer_requirement, header, 0, 0, 0);
AT(edgecore_buffer_requirement, alignment, 8, 8, 8);
AT(edgecore_buffer_requirement, tail_padding, 16, 16, 16);
AT(edgecore_buffer_requirement, granule, 24, 24, 24);
AT(edgecore_buffer_requirement, memory_kind, 32, 32, 32);
AT(edgecore_buffer_requirement, reserved, 36, 36, 36);
SIZE(edgecore_program_info, 40, 40, 32);
AT(edgecore_program_info, header, 0, 0, 0);
AT(edgecore_program_info, scope, 8, 8, 8);
AT(edgecore_program_info, options, 16, 16, 12);
SIZE(edgecore_delegate_info, 104, 96, 80);
AT(edgecore_delegate_info, header, 0, 0, 0);
AT(edgecore_delegate_info, scope, 8, 8, 8);
AT(edgecore_delegate_info, method, 16, 16, 12);
AT(edgecore_delegate_info, delegate_index, 32, 32, 24);
AT(edgecore_delegate_info, blob, 40, 40, 32);
AT(edgecore_delegate_info, release_blob, 56, 56, 44);
AT(edgecore_delegate_info, compile_specs, 64, 60, 48);
AT(edgecore_delegate_info, compile_spec_count, 72, 64, 52);
AT(edgecore_delegate_info, compile_spec_stride, 80, 72, 60);
AT(edgecore_delegate_info, reserved, 84, 76, 64);
AT(edgecore_delegate_info, compatibility, 88, 80, 68);
SIZE(edgecore_instance_info, 32, 24, 24);
AT(edgecore_instance_info, header, 0, 0, 0);
AT(edgecore_instance_info, scope, 8, 8, 8);
AT(edgecore_instance_info, flags, 16, 12, 12);
AT(edgecore_instance_info, reserved, 20, 16, 16);
AT(edgecore_instance_info, state_set, 24, 20, 20);
SIZE(edgecore_state_set_info, 16, 12, 12);
AT(edgecore_state_set_info, header, 0, 0, 0);
AT(edgecore_state_set_info, scope, 8, 8, 8);
SIZE(edgecore_state_tensor, 48, 48, 40);
AT(edgecore_state_tensor, header, 0, 0, 0);
AT(edgecore_state_tensor, name, 8, 8, 8);
AT(edgecore_state_tensor, scalar_type, 24, 24, 20);
AT(edgecore_state_tensor, ndim, 28, 28, 24);
AT(edgecore_state_tensor, shape, 32, 32, 28);
AT(edgecore_state_tensor, bytes, 40, 40, 32);
SIZE(edgecore_prepared, 32, 32, 28);
AT(edgecore_prepared, header, 0, 0, 0);
AT(edgecore_prepared, needs, 8, 8, 8);
AT(edgecore_prepared, need_count, 16, 16, 12);
AT(edgecore_prepared, need_stride, 24, 24, 20);
AT(edgecore_prepared, reserved, 28, 28, 24);
SIZE(edgecore_execute_info, 40, 32, 28);
AT(edgecore_execute_info, header, 0, 0, 0);
AT(edgecore_execute_info, memory, 8, 8, 8);
AT(edgecore_execute_info, memory_count, 16, 16, 12);
AT(edgecore_execute_info, completion, 24, 24, 20);
AT(edgecore_execute_info, completion_arg, 32, 28, 24);
SIZE(edgecore_backend, 336, 216, 200);
AT(edgecore_backend, header, 0, 0, 0);
AT(edgecore_backend, min_host_major, 8, 8, 8);
AT(edgecore_backend, min_host_minor, 10, 10, 10);
AT(edgecore_backend, flags, 12, 12, 12);
AT(edgecore_backend, features, 16, 16, 16);
AT(edgecore_backend, reserved, 20, 20, 20);
AT(edgecore_backend, backend_id, 24, 24, 24);
AT(edgecore_backend, distribution, 40, 40, 36);
AT(edgecore_backend, version, 56, 56, 48);
AT(edgecore_backend, options, 72, 72, 60);
AT(edgecore_backend, option_count, 80, 80, 64);
AT(edgecore_backend, option_stride, 88, 88, 72);
AT(edgecore_backend, reserved2, 92, 92, 76);
AT(edgecore_backend, probe, 96, 96, 80);
AT(edgecore_backend, driver_create, 104, 100, 84);
AT(edgecore_backend, driver_destroy, 112, 104, 88);
AT(edgecore_backend, check_compatibility, 120, 108, 92);
AT(edgecore_backend, program_open, 128, 112, 96);
AT(edgecore_backend, program_close, 136, 116, 100);
AT(edgecore_backend, delegate_load, 144, 120, 104);
AT(edgecore_backend, delegate_destroy, 152, 124, 108);
AT(edgecore_backend, argument_count, 160, 128, 112);
AT(edgecore_backend, buffer_requirement, 168, 132, 116);
AT(edgecore_backend, instance_create, 176, 136, 120);
AT(edgecore_backend, instance_destroy, 184, 140, 124);
AT(edgecore_backend, prepare, 192, 144, 128);
AT(edgecore_backend, execute, 200, 148, 132);
AT(edgecore_backend, state_set_create, 208, 152, 136);
AT(edgecore_backend, state_set_destroy, 216, 156, 140);
AT(edgecore_backend, state_count, 224, 160, 144);
AT(edgecore_backend, state_describe, 232, 164, 148);
AT(edgecore_backend, reset, 240, 168, 152);
AT(edgecore_backend, export_state, 248, 172, 156);
AT(edgecore_backend, import_state, 256, 176, 160);
AT(edgecore_backend, set_option, 264, 180, 164);
AT(edgecore_backend, buffer_create, 272, 184, 168);
AT(edgecore_backend, buffer_destroy, 280, 188, 172);
AT(edgecore_backend, buffer_map, 288, 192, 176);
AT(edgecore_backend, buffer_unmap, 296, 196, 180);
AT(edgecore_backend, buffer_flush, 304, 200, 184);
AT(edgecore_backend, buffer_invalidate, 312, 204, 188);
AT(edgecore_backend, buffer_export, 320, 208, 192);
AT(edgecore_backend, buffer_import, 328, 212, 196);
SIZE(edgecore_platform, 64, 36, 36);
AT(edgecore_platform, header, 0, 0, 0);
AT(edgecore_platform, init, 8, 8, 8);
AT(edgecore_platform, abort, 16, 12, 12);
AT(edgecore_platform, current_ticks, 24, 16, 16);
AT(edgecore_platform, ticks_to_ns_multiplier, 32, 20, 20);
AT(edgecore_platform, emit_log_message, 40, 24, 24);
AT(edgecore_platform, allocate, 48, 28, 28);
AT(edgecore_platform, free, 56, 32, 32);

#undef SIZE
#undef AT

#endif  // EDGECORE_TESTS_ABI_LAYOUT_H_
