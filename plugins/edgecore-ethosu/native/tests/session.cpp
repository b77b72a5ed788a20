#include "session.h"

#include <cstdlib>
#include <cstring>
#include <memory>

#include "edgecore/platform.h"

extern "C" const edgecore_backend *edgecore_backend_v0_ethosu(void);

namespace edgecore::ethosu::test {

std::vector<std::string> logged;

namespace {

template <typename Struct>
edgecore_header header() {
  return {sizeof(Struct), EDGECORE_ABI_MAJOR, EDGECORE_ABI_MINOR};
}

int32_t host_fail(edgecore_error *error, int32_t code, edgecore_str text) {
  if (error != nullptr) *error = {code, std::string(text.data, text.size)};
  return code;
}

int32_t host_resize(edgecore_scope *, edgecore_tensor *tensor, const int64_t *shape, int32_t rank, edgecore_error *) {
  std::copy(shape, shape + rank, tensor->dl.shape);
  return EDGECORE_OK;
}

uint64_t host_event_begin(edgecore_scope *scope, edgecore_str name, int64_t) {
  scope->events.emplace_back(name.data, name.size);
  return scope->events.size();
}

void host_event_end(edgecore_scope *scope, uint64_t event) { scope->events[event - 1] += " ended"; }

// The functions of a host without a heap, as on a device.
const edgecore_host kHost = [] {
  edgecore_host host = {};
  host.header = header<edgecore_host>();
  host.fail = host_fail;
  host.resize = host_resize;
  host.event_begin = host_event_begin;
  host.event_end = host_event_end;
  return host;
}();

template <typename Number>
void append(Bytes &bytes, Number number) {
  const size_t at = bytes.size();
  bytes.resize(at + sizeof(number));
  std::memcpy(&bytes[at], &number, sizeof(number));
}

void append_block(Bytes &blob, const char *name, const Bytes &data) {
  char padded[16] = "";
  std::strncpy(padded, name, sizeof(padded));
  blob.insert(blob.end(), padded, padded + sizeof(padded));
  append(blob, static_cast<uint32_t>(data.size()));
  blob.resize(blob.size() + 12);
  blob.insert(blob.end(), data.begin(), data.end());
  blob.resize((blob.size() + 15) / 16 * 16);
}

Bytes tensors_of(const std::vector<Tensor> &tensors) {
  Bytes bytes;
  append(bytes, static_cast<uint32_t>(tensors.size()));
  for (const Tensor &tensor : tensors) {
    for (const int32_t size : tensor.shape) append(bytes, size);
    append(bytes, tensor.element_size);
    append(bytes, tensor.offset);
    append(bytes, tensor.region);
  }
  return bytes;
}

}  // namespace

std::vector<uint32_t> payload_of(const Content &content) {
  uint32_t magic;
  std::memcpy(&magic, content.magic.data(), sizeof(magic));
  std::vector<uint32_t> words = {magic, 0x100001, content.configuration, content.id, 5, 5, 5};
  words.push_back(2 | static_cast<uint32_t>(content.commands.size()) << 16);
  words.insert(words.end(), content.commands.begin(), content.commands.end());
  return words;
}

Bytes blob_of(const Content &content) {
  const std::vector<uint32_t> payload = payload_of(content);
  Bytes blob, commands(payload.size() * 4), scratch;
  std::memcpy(commands.data(), payload.data(), commands.size());
  append(scratch, content.arena);
  append_block(blob, "vela_bin_stream", {});
  append_block(blob, "cmd_data", commands);
  append_block(blob, "weight_data", content.weights);
  append_block(blob, "scratch_size", scratch);
  append_block(blob, "inputs", tensors_of(content.inputs));
  append_block(blob, "outputs", tensors_of(content.outputs));
  append_block(blob, "vela_end_stream", {});
  return blob;
}

Session::Session(edgecore_bytes blob, const std::string &compatibility) : table_(*edgecore_backend_v0_ethosu()) {
  const edgecore_program_info program = {header<edgecore_program_info>(), &scope, {}};
  edgecore_delegate_info delegate = {};
  delegate.header = header<edgecore_delegate_info>();
  delegate.scope = &scope;
  delegate.blob = blob;
  delegate.compatibility = {compatibility.data(), compatibility.size()};
  const bool is_open = table_.driver_create(&kHost, &scope, &driver_, &error) == EDGECORE_OK &&
                       table_.program_open(driver_, &program, &program_, &error) == EDGECORE_OK;
  const bool is_known = compatibility.empty() ||
                        table_.check_compatibility(driver_, delegate.compatibility, &error) == EDGECORE_COMPATIBLE;
  if (is_open && is_known) table_.delegate_load(program_, &delegate, &delegate_, &error);
}

Session::~Session() {
  if (delegate_ != nullptr) table_.delegate_destroy(delegate_);
  table_.program_close(program_);
  table_.driver_destroy(driver_);
}

int32_t Session::run(std::vector<Bytes> &arguments, const std::vector<uint8_t> &element_sizes) {
  const edgecore_instance_info info = {header<edgecore_instance_info>(), &scope, flags, 0, nullptr};
  edgecore_instance *instance = nullptr;
  int32_t code = table_.instance_create(delegate_, &info, &instance, &error);
  if (code != EDGECORE_OK) return code;
  std::vector<edgecore_tensor> tensors(arguments.size());
  std::vector<edgecore_value> values(arguments.size());
  std::vector<int64_t> shapes(arguments.size());
  for (size_t i = 0; i < arguments.size(); ++i) {
    shapes[i] = static_cast<int64_t>(arguments[i].size() / element_sizes[i]);
    tensors[i].header = header<edgecore_tensor>();
    tensors[i].dl.data = arguments[i].data();
    tensors[i].dl.device_type = EDGECORE_DEVICE_CPU;
    tensors[i].dl.ndim = 1;
    tensors[i].dl.dtype = {dtype, static_cast<uint8_t>(8 * element_sizes[i]), 1};
    tensors[i].dl.shape = &shapes[i];
    values[i].tag = EDGECORE_TAG_TENSOR;
    values[i].as.tensor = &tensors[i];
  }
  edgecore_prepared prepared = {};
  prepared.header = header<edgecore_prepared>();
  code = table_.prepare(instance, values.data(), values.size(), sizeof(edgecore_value), &prepared, &error);
  if (code == EDGECORE_OK) {
    needs.assign(prepared.needs, prepared.needs + prepared.need_count);
    // Exact size, so that the address sanitizer detects each access beside it.
    const std::unique_ptr<void, decltype(&std::free)> arena(std::aligned_alloc(needs[0].alignment, needs[0].bytes),
                                                            std::free);
    const edgecore_memory_block block = {arena.get(), needs[0].bytes};
    const edgecore_execute_info execute = {header<edgecore_execute_info>(), &block, 1, nullptr, nullptr};
    code = table_.execute(instance, &execute, values.data(), values.size(), sizeof(edgecore_value), &error);
  }
  table_.instance_destroy(instance);
  return code;
}

}  // namespace edgecore::ethosu::test

void edgecore_log(int32_t, edgecore_str text) { edgecore::ethosu::test::logged.emplace_back(text.data, text.size); }
