// Writes small valid files for the fuzzers to start from, to a folder for each kind: edgecore_make_seeds DIRECTORY.
#include <stdio.h>
#include <sys/stat.h>

#include <string>

#include "file_builder.h"
#include "host/state_parts.h"
#include "null_backend.h"
#include "pte_builder.h"

namespace edgecore {
namespace {

std::vector<uint8_t> control_flow() {
  PteBuilder pte;
  pte.arenas = {256};
  TensorOptions dynamic;
  dynamic.dynamism = fb::TensorShapeDynamism::DYNAMIC_BOUND;
  TensorOptions boolean;
  boolean.type = fb::ScalarType::BOOL;
  const int32_t x = pte.add_tensor({4}, dynamic);
  const int32_t size = pte.add_int(0), two = pte.add_int(2), sum = pte.add_int(0);
  const int32_t list = pte.add_int_list({two, two});
  const int32_t condition = pte.add_planned({}, {1, 0}, boolean);
  const int32_t a = pte.add_planned({4}, {1, 64}, dynamic), b = pte.add_planned({4}, {1, 128}, dynamic);
  const int32_t view = pte.add_tensor({2, 2}, dynamic);
  const int32_t state = pte.add_state({4}, {1, 192}, {1, 2, 3, 4});
  const int32_t weights = pte.add_constant({4}, {5, 6, 7, 8});
  const int32_t all = pte.add_tensor_list({x, state, weights});
  const int32_t out = pte.add_tensor({4}, dynamic);
  const int32_t scale = pte.add_operator("test::scale", "out");
  pte.kernel(pte.add_operator("test::size", ""), {x, size});
  pte.kernel(pte.add_operator("test::add", ""), {size, two, sum});
  pte.kernel(pte.add_operator("test::positive", "out"), {x, condition, condition});
  pte.jump_false(condition, 6);
  pte.kernel(scale, {x, two, a, a});
  pte.move(a, b);
  pte.kernel(pte.add_operator("test::sum", "out"), {all, out, out});
  pte.kernel(pte.add_operator("executorch_prim::et_view", ""), {out, list, view});
  pte.kernel(pte.add_operator("test::copy_", ""), {state, out, state});
  pte.free_value(view);
  pte.inputs = {x};
  pte.outputs = {out, sum};
  pte.input_metas = {{"x", {{"2*s + 2", 2, 0, 2, 2}}}};
  pte.output_metas = {{"out", {{"s", 0, 0}}}, {"sum"}};
  pte.constants_digest = pte.state_digest = std::vector<uint8_t>(32);
  pte.data_digests = {{"weights", std::vector<uint8_t>(32)}};
  pte.add_named_data("weights", {1, 2, 3});
  pte.add_meta({}, "", {});
  return pte.finish();
}

std::vector<uint8_t> delegates() {
  PteBuilder pte;
  pte.arenas = {128};
  NullBlob blob;
  blob.scratch_bytes = 100;
  blob.persistent_bytes = 16;
  blob.alignment = 64;
  blob.tail_padding = 16;
  const uint8_t *bytes = reinterpret_cast<const uint8_t *>(&blob);
  const int32_t delegate = pte.add_delegate("NullBackend", std::vector<uint8_t>(bytes, bytes + sizeof(blob)));
  const int32_t x = pte.add_tensor({2, 3}), hidden = pte.add_planned({2, 3}, {1, 16}), y = pte.add_tensor({2, 3});
  pte.delegate(delegate, {x, hidden});
  pte.delegate(delegate, {hidden, y});
  pte.inputs = {x};
  pte.outputs = {y};
  pte.add_meta({{fb::meta::MemoryKind::SCRATCH, 100}, {fb::meta::MemoryKind::PERSISTENT, 16}}, "null 1",
               std::vector<uint8_t>(32));
  return pte.finish();
}

std::vector<uint8_t> saved_state() {
  std::vector<uint8_t> state;
  StateWriter writer(state);
  memset(writer.add("buffer 'cache.k' float32 [1, 3]", 12), 1, 12);
  memset(writer.add("buffer 'position' int64 [] of method 'decode'", 8), 2, 8);
  writer.finish();
  return state;
}

bool write(const std::string &path, const std::vector<uint8_t> &bytes) {
  FILE *file = fopen(path.c_str(), "wb");
  if (file == nullptr) return false;
  const bool done = fwrite(bytes.data(), 1, bytes.size(), file) == bytes.size();
  return fclose(file) == 0 && done;
}

}  // namespace
}  // namespace edgecore

int main(int argc, char **argv) {
  if (argc != 2) {
    fprintf(stderr, "usage: edgecore_make_seeds DIRECTORY\n");
    return 2;
  }
  const std::string folder = argv[1];
  for (const char *kind : {"", "/pte", "/model", "/ptd", "/bpte", "/manifest", "/state"})
    mkdir((folder + kind).c_str(), 0777);
  edgecore::PtdBuilder data;
  constexpr auto kFloat = edgecore::fb::ptd::ScalarType::FLOAT;
  const std::vector<uint8_t> ones = {0, 0, 128, 63, 0, 0, 128, 63};  // the bytes of two float32 numbers, 1.0 each
  data.entries = {{"weight", {2}, ones, true, kFloat}, {"bias", {2}, ones, true, kFloat}, {"blob", {}, {9}, false}};
  const std::string manifest = R"({"abi": "0.11", "backend_id": "Acme\u00e9", "library": "../a.so",
    "options": {"grain": -12, "fast": true, "quiet": false}})";
  const bool done = edgecore::write(folder + "/manifest/options.json", {manifest.begin(), manifest.end()}) &&
                    edgecore::write(folder + "/state/two.state", edgecore::saved_state()) &&
                    edgecore::write(folder + "/pte/control_flow.pte", edgecore::control_flow()) &&
                    edgecore::write(folder + "/pte/delegates.pte", edgecore::delegates()) &&
                    edgecore::write(folder + "/ptd/three.ptd", data.finish()) &&
                    edgecore::write(folder + "/bpte/delegates.bpte", edgecore::make_bpte(edgecore::delegates()));
  if (!done) fprintf(stderr, "edgecore_make_seeds: cannot write to %s\n", folder.c_str());
  return done ? 0 : 1;
}
