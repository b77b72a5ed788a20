// Tests of the reader of blobs: a damaged blob is refused, or read as files that lie inside of it.
#include "blob.h"

#include "test_support.h"

namespace edgecore_coreml {
namespace {

using test::expect_failure;
using test::folder;
using test::node;
using test::view;
using test::with_metadata;

edgecore_bytes no_named_data(std::string_view) { return {}; }

std::string text_of(edgecore_bytes bytes) {
  return {reinterpret_cast<const char *>(bytes.data), static_cast<size_t>(bytes.size)};
}

std::string tree(const std::string &root_children, const std::string &file = node(0, 0, 3)) {
  return folder("abc", R"({"nodes":[)" + file + "," + node(1, 0, 0, root_children) + "]}");
}

TEST(Blob, FilesHaveTheirPathsAndContents) {
  const std::string blob =
      folder("abcde", R"({"nodes":[)" + node(0, 0, 3) + "," + node(0, 3, 2) + "," + node(1, 0, 0, R"("y":1)") + "," +
                          node(1, 0, 0, R"("x":0,"d":2)") + "]}");
  const std::vector<File> files = read_files(view(blob));
  ASSERT_EQ(files.size(), 2u);
  EXPECT_EQ(files[0].path, "x");
  EXPECT_EQ(text_of(files[0].content), "abc");
  EXPECT_EQ(files[1].path, "d/y");
  EXPECT_EQ(text_of(files[1].content), "de");
}

TEST(Blob, ADamagedTreeIsNamed) {
  const struct {
    std::string blob;
    const char *sentence;
  } rows[] = {
      {"", "JSON lacks"},
      {"}{", "lacks the member 'nodes'"},
      {folder("", R"({"nodes":[]})"), "has no nodes"},
      {tree(R"("a":2)"), "2 is no node of its tree"},
      {tree(R"("a":1)"), "or two folders have it"},
      {tree(R"("a":0,"b":0)"), "or two folders have it"},
      {tree(R"("a":0)", node(2, 0, 3)), "neither file nor folder"},
      {tree(R"("a":0)", node(0, 0, 3, R"("b":0)")), "is no file"},
      {tree(R"("a":0)", node(0, 1, 3)), "the file 'a' lies outside of it"},
      {tree(R"("a":0)", R"({"kind":0})"), "lacks the member 'dataRegion'"},
      {tree(R"("..":0)"), "'..' is no name of a file"},
      {tree(R"("a/b":0)"), "'a/b' is no name of a file"},
      {tree(R"("":0)"), "'' is no name of a file"},
  };
  for (const auto &row : rows) expect_failure(row.sentence, [&] { read_files(view(row.blob)); });
}

TEST(Blob, EveryChangedByteIsReadOrRefused) {
  const std::string whole = with_metadata(R"({"inputNames":["x"],"outputNames":["y"]})");
  for (size_t at = 0; at < whole.size(); ++at) {
    for (const int change : {0x01, 0x81, 0xFF}) {
      std::string blob = whole;
      blob[at] = static_cast<char>(blob[at] ^ change);
      try {
        size_t sum = 0;
        for (const File &file : read_files(view(blob))) sum += text_of(file.content).size();
        ASSERT_LE(sum, blob.size());
      } catch (const edgecore::backend::Failure &) {
      }
    }
  }
}

TEST(Blob, APackageHasItsNamesAndStates) {
  const std::string blob =
      with_metadata(R"({"inputNames":["x","i"],"outputNames":["y"],)"
                    R"("edgecoreStates":[{"buffer":"cache.k","state":"cache_k","dtype":"float32","shape":[1,8,4]}]})");
  const Package package = read_package(view(blob), no_named_data);
  EXPECT_EQ(package.inputs, (std::vector<std::string>{"x", "i"}));
  EXPECT_EQ(package.outputs, (std::vector<std::string>{"y"}));
  EXPECT_EQ(package.function, "");
  ASSERT_EQ(package.states.size(), 1u);
  EXPECT_EQ(package.states[0].buffer, "cache.k");
  EXPECT_EQ(package.states[0].name, "cache_k");
  EXPECT_EQ(package.states[0].scalar_type, 6);
  EXPECT_EQ(package.states[0].shape, (std::vector<int64_t>{1, 8, 4}));
}

TEST(Blob, APackageOfSeveralFunctionsIsNamedData) {
  const std::string shared = with_metadata(R"({"methods":{"decode":{"inputNames":["a"],"outputNames":["b"]},)"
                                           R"("prefill":{"inputNames":["c"],"outputNames":["d"]}}})");
  const auto named_data = [&](std::string_view key) {
    EXPECT_EQ(key, "coreml_1");
    return view(shared);
  };
  const std::string blob = R"(CMJR{"version": 1, "key": "coreml_1", "functionName": "prefill"})";
  const Package package = read_package(view(blob), named_data);
  EXPECT_EQ(package.function, "prefill");
  EXPECT_EQ(package.inputs, (std::vector<std::string>{"c"}));
  EXPECT_EQ(package.folder.data, view(shared).data);
  expect_failure("in an unknown way",
                 [&] { read_package(view(R"(CMJR{"version": 2, "key": "k", "functionName": "f"})"), named_data); });
  expect_failure("lacks the member 'other'", [&] {
    read_package(view(R"(CMJR{"version": 1, "key": "coreml_1", "functionName": "other"})"), named_data);
  });
}

TEST(Blob, DamagedMetadataIsRefused) {
  expect_failure("no metadata.json", [] { read_package(view(tree(R"("a":0)")), no_named_data); });
  expect_failure("'outputNames'", [] { read_package(view(with_metadata(R"({"inputNames":[]})")), no_named_data); });
  const std::string start = R"({"inputNames":[],"outputNames":[],"edgecoreStates":[{"buffer":"b","state":"s",)";
  expect_failure("the state 'b' has no dtype",
                 [&] { read_package(view(with_metadata(start + R"("dtype":"int8","shape":[1]}]})")), no_named_data); });
  for (const char *shape : {"[0]", "[-1]", "[\"1\"]", "[4294967296,4294967296]"}) {
    expect_failure("the state 'b' has no shape", [&] {
      read_package(view(with_metadata(start + R"("dtype":"float16","shape":)" + shape + "}]}")), no_named_data);
    });
  }
}

}  // namespace
}  // namespace edgecore_coreml
