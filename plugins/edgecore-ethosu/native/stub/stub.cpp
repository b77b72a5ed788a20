// A stand-in for Arm's driver, for emulators without an NPU: it makes the checks of the driver and the NPU, but runs
// nothing, so the arena keeps its bytes. Each call writes one message to the platform's log.
#include "checks.h"
#include "edgecore/platform.h"
#include "ethosu_driver.h"

struct ethosu_driver {
  bool reserved;
};

static ethosu_driver stub;

struct ethosu_driver *ethosu_reserve_driver(void) {
  stub.reserved = true;
  return &stub;
}

void ethosu_release_driver(struct ethosu_driver *drv) { drv->reserved = false; }

int ethosu_invoke_v3(struct ethosu_driver *drv, const void *custom_data_ptr, const int custom_data_size,
                     uint64_t *const base_addr, const size_t *base_addr_size, const int num_base_addr, void *) {
  using namespace edgecore::ethosu;
  const edgecore_bytes payload = {static_cast<const uint8_t *>(custom_data_ptr),
                                  static_cast<uint64_t>(custom_data_size)};
  const Regions regions = {base_addr, base_addr_size, num_base_addr};
  const Npu npu = {EDGECORE_ETHOSU_STUB_FAMILY, EDGECORE_ETHOSU_STUB_MACS};
  Sentence sentence;
  const bool is_good = drv == &stub && stub.reserved
                           ? check_invocation(npu, payload, regions, sentence)
                           : refuse(sentence, "The stub of Arm's driver was called without being reserved.");
  edgecore_log(is_good ? EDGECORE_LOG_INFO : EDGECORE_LOG_ERROR, sentence.text());
  return is_good ? 0 : -1;
}
