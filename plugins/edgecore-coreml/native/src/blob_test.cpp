// Tests the reader of blobs: it refuses a damaged blob, or returns files that are within the blob.
#include "blob.h"

#include <algorithm>
#include <iterator>
#include <random>

#include "test_support.h"

namespace edgecore::coreml {
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

// Returns a tree of `depth` nested folders around a file.
std::string chain(int depth) {
  std::string nodes = node(0, 0, 0);
  for (int i = 0; i < depth; ++i) nodes += "," + node(1, 0, 0, R"("d":)" + std::to_string(i));
  return R"({"nodes":[)" + nodes + "]}";
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
  const std::string deep = folder("", chain(16));
  EXPECT_EQ(read_files(view(deep)).at(0).path.size(), 31u);
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
      {tree(R"("a":0,"a":0)"), "two members 'a'"},
      {tree(R"("a":"0")"), "lacks the member 'a', or it has another type"},
      {tree(R"("a":0.0)"), "lacks the member 'a', or it has another type"},
      {tree(R"("a":null)"), "lacks the member 'a', or it has another type"},
      {tree(R"("a":-1)"), "a negative number for 'a'"},
      {tree(R"("a":99999999999999999999)"), "lacks the member 'a', or it has another type"},
      {tree(R"("a":9223372036854775807)"), "is no node of its tree"},
      {tree(R"("a":0)", "7"), "lacks the member 'dataRegion'"},
      {tree(R"("a":0)", R"("text")"), "lacks the member 'dataRegion'"},
      {tree(R"("a":0)", "[]"), "lacks the member 'dataRegion'"},
      {tree(R"("a":0)", R"({"kind":0,"dataRegion":[],"children":{}})"), "lacks the member 'dataRegion'"},
      {tree(R"("a":0)", R"({"kind":0,"dataRegion":{},"children":[]})"), "lacks the member 'children'"},
      {tree(R"("a":0)", R"({"kind":"0","dataRegion":{},"children":{}})"), "lacks the member 'kind'"},
      {tree(R"("a":0)", R"({"kind":0,"dataRegion":{"offset":0,"size":"3"},"children":{}})"), "the member 'size'"},
      {tree(R"("a":0)", node(0, 4, 0)), "the file 'a' lies outside of it"},
      {tree(R"("a":0)", node(0, 3, 9223372036854775807)), "the file 'a' lies outside of it"},
      {tree(R"("a":0)", node(0, 9223372036854775807, 9223372036854775807)), "the file 'a' lies outside of it"},
      {tree(R"("a":0)", node(1, 0, 0, R"("b":1)")), "or two folders have it"},  // the root contains itself
      {tree(R"("a":0)", node(1, 0, 0, R"("b":0)")), "or two folders have it"},
      {folder("", R"({"nodes":[)" + node(0, 0, 0) + "]}"), "is no file"},
      {folder("", R"({"nodes":{}})"), "lacks the member 'nodes', or it has another type"},
      {folder("", "[]"), "lacks the member 'nodes', or it has another type"},
      {folder("", chain(17)), "or two folders have it"},
      {folder("", chain(10000)), "or two folders have it"},
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

// Blobs whose JSON has these texts at random places. The test only expects no crash, which the build with sanitizers
// checks.
TEST(Blob, AnyJsonIsReadOrRefused) {
  const std::string parts[] = {"0",
                               "1",
                               "-1",
                               "2",
                               "9223372036854775807",
                               "1e9",
                               "null",
                               "\"\"",
                               "\"a\"",
                               "\"..\"",
                               "[]",
                               "{}",
                               "[0]",
                               R"({"a":0})",
                               R"({"nodes":[]})",
                               "\"kind\"",
                               ":",
                               ",",
                               "{",
                               "}",
                               "[",
                               "]",
                               R"("\ud800\udc00")",
                               node(0, 0, 3),
                               node(1, 0, 0, R"("a":0)"),
                               R"("shape":[2,3])"};
  const std::string metadata = R"({"inputNames":["x"],"outputNames":["y"],)"
                               R"("edgecoreStates":[{"buffer":"b","state":"s","dtype":"float32","shape":[1,8]}]})";
  const std::string reference = R"({"version": 1, "key": "k", "functionName": "f"})";
  const std::string nodes = R"({"nodes":[)" + node(0, 0, metadata.size()) + "," +
                            node(1, 0, 0, R"("metadata.json":0)") + "," + node(1, 0, 0, R"("d":1)") + "]}";
  std::minstd_rand random(1);
  const auto below = [&](size_t limit) { return static_cast<size_t>(random()) % limit; };
  const auto mutated = [&](std::string text) {
    for (size_t changes = below(4); changes > 0; --changes) {
      const size_t at = below(text.size() + 1);
      text.replace(at, below(std::min<size_t>(12, text.size() - at + 1)), parts[below(std::size(parts))]);
    }
    return text;
  };
  for (int i = 0; i < 20000; ++i) {
    const std::string shared = with_metadata(mutated(R"({"methods":{"f":)" + metadata + "}}"));
    const std::string blob = below(3) == 0 ? "CMJR" + mutated(reference) : folder(mutated(metadata), mutated(nodes));
    try {
      const Package package = read_package(view(blob), [&](std::string_view) { return view(shared); });
      size_t sum = 0;
      for (const File &file : package.files) sum += text_of(file.content).size();
      ASSERT_LE(sum, package.folder.size);
    } catch (const edgecore::backend::Failure &) {
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

TEST(Blob, ADamagedReferenceIsRefused) {
  const std::string whole = R"(CMJR{"version":1,"key":"k","functionName":"f"})";
  for (const char *text :
       {"", "[]", "{}", "{\"version\":1", R"({"version":"1","key":"k","functionName":"f"})",
        R"({"version":-1,"key":"k","functionName":"f"})", R"({"version":1.0,"key":"k","functionName":"f"})",
        R"({"version":1,"key":["k"],"functionName":"f"})", R"({"version":1,"key":"k","functionName":{}})",
        R"({"version":1,"key":"k","key":"l","functionName":"f"})"}) {
    expect_failure("JSON", [&] { read_package(view("CMJR" + std::string(text)), no_named_data); });
  }
  expect_failure("nested more than 16 times",
                 [] { read_package(view("CMJR" + std::string(100000, '[')), no_named_data); });
  expect_failure("JSON of 2000000 bytes",
                 [] { read_package(view("CMJR" + std::string(2000000, ' ')), no_named_data); });
  // A reference must refer to a folder, not to another reference.
  expect_failure("JSON lacks", [&] { read_package(view(whole), [&](std::string_view) { return view(whole); }); });
}

TEST(Blob, DamagedMetadataIsRefused) {
  expect_failure("no metadata.json", [] { read_package(view(tree(R"("a":0)")), no_named_data); });
  expect_failure("'outputNames'", [] { read_package(view(with_metadata(R"({"inputNames":[]})")), no_named_data); });
  expect_failure("two of its inputs are 'x'", [] {
    read_package(view(with_metadata(R"({"inputNames":["x","y","x"],"outputNames":[]})")), no_named_data);
  });
  expect_failure("no text in 'inputNames'",
                 [] { read_package(view(with_metadata(R"({"inputNames":[1],"outputNames":[]})")), no_named_data); });
  expect_failure("'edgecoreStates', or it has another type", [] {
    read_package(view(with_metadata(R"({"inputNames":[],"outputNames":[],"edgecoreStates":{}})")), no_named_data);
  });
  const std::string large = R"({"inputNames":[)" + std::string(2000000, ' ') + "]}";
  expect_failure("JSON of 2000017 bytes", [&] { read_package(view(with_metadata(large)), no_named_data); });
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
}  // namespace edgecore::coreml
