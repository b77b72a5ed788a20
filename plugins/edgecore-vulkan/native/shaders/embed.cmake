# Writes OUTPUT, a C++ source with the words of every FOLDER/*.spv and find_shader() (src/shaders.h):
#   cmake -DFOLDER=spirv -DOUTPUT=shaders.cpp -P embed.cmake
cmake_minimum_required(VERSION 3.20)

file(GLOB names RELATIVE "${FOLDER}" "${FOLDER}/*.spv")
if(NOT names)
  message(FATAL_ERROR "${FOLDER} holds no shaders; run `make shaders`.")
endif()
list(TRANSFORM names REPLACE "\\.spv$" "")
list(SORT names)  # by bytes, as find_shader() compares

set(arrays "")
set(table "")
foreach(name IN LISTS names)
  file(READ "${FOLDER}/${name}.spv" code HEX)
  string(LENGTH "${code}" digits)
  math(EXPR rest "${digits} % 8")
  if(NOT code MATCHES "^03022307" OR NOT rest EQUAL 0)
    message(FATAL_ERROR "${FOLDER}/${name}.spv is no SPIR-V in little-endian words; run `make shaders`.")
  endif()
  string(REGEX REPLACE "(..)(..)(..)(..)" "0x\\4\\3\\2\\1," code "${code}")
  string(APPEND arrays "constexpr uint32_t k_${name}[] = {${code}};\n")
  string(APPEND table "    {\"${name}\", k_${name}, sizeof k_${name}},\n")
endforeach()

file(WRITE "${OUTPUT}.new" "// Written by shaders/embed.cmake.
#include \"shaders.h\"

#include <algorithm>
#include <cstdint>
#include <iterator>

namespace edgecore::vulkan {
namespace {

${arrays}
// In the order of the names.
constexpr ShaderCode kShaders[] = {
${table}};

}  // namespace

const ShaderCode *find_shader(std::string_view name) noexcept {
  const auto found = std::lower_bound(std::begin(kShaders), std::end(kShaders), name,
                                      [](const ShaderCode &shader, std::string_view wanted) { return shader.name < wanted; });
  return found != std::end(kShaders) && found->name == name ? found : nullptr;
}

}  // namespace edgecore::vulkan
")
file(RENAME "${OUTPUT}.new" "${OUTPUT}")
