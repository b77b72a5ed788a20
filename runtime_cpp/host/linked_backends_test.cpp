#define EDGECORE_STATIC
#include "edgecore/linked_backends.h"

#include <gtest/gtest.h>

#include "edgecore/module.h"
#include "error_text.h"
#include "host/tests/toy_backend.cpp"  // defines edgecore_backend_v0_toy in this program
#include "pte_builder.h"

namespace {

// The toy backend with another id, because other tests load its library.
const edgecore_backend *linked_toy() {
  static edgecore_backend table = *edgecore_backend_v0_toy();
  static const char id[] = "LinkedBackend";
  table.backend_id = {id, sizeof(id) - 1};
  return &table;
}

}  // namespace

const edgecore_backend_fn *edgecore_linked_backends(void) {
  static const edgecore_backend_fn functions[] = {linked_toy, nullptr};
  return functions;
}

namespace edgecore {
namespace {

TEST(LinkedBackends, AModuleFindsThemWithoutFolders) {
  PteBuilder pte;
  const int32_t x = pte.add_tensor({2}), y = pte.add_tensor({2});
  pte.delegate(pte.add_delegate("LinkedBackend", {'t', 'o', 'y', '1'}), {x, y});
  pte.inputs = {x};
  pte.outputs = {y};
  const std::vector<uint8_t> bytes = pte.finish();
  Module module;
  Error error;
  ASSERT_TRUE(module.open({bytes.data(), bytes.size()}, error).ok()) << text_of(error);
  ASSERT_EQ(module.missing_backends().size(), 1u);
  ASSERT_TRUE(module.find_backend("LinkedBackend", {}, {}, error).ok()) << text_of(error);
  EXPECT_TRUE(module.missing_backends().empty());
  ASSERT_TRUE(module.load_methods({}, error).ok()) << text_of(error);
  std::vector<Tensor> outputs;
  ASSERT_TRUE(module.run("forward", {Tensor::of<float>({2}, {1, 2})}, outputs, error).ok()) << text_of(error);
  EXPECT_EQ(outputs[0].values<float>()[0], 2);
}

TEST(LinkedBackends, AnotherBackendIsNotFound) {
  Module module;
  Error error;
  EXPECT_EQ(module.find_backend("OtherBackend", {}, {}, error).code(), EDGECORE_NOT_FOUND);
}

}  // namespace
}  // namespace edgecore
