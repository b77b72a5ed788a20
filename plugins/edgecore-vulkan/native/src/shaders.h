// The shaders in this library: SPIR-V that shaders/build.py has compiled and shaders/embed.cmake has written as C++.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string_view>

namespace edgecore::vulkan {

struct ShaderCode {
  const char *name;
  const uint32_t *words;
  size_t bytes;
};

// Returns the shader variant with this name, such as "copy_strided_f32", or nullptr if there is none.
const ShaderCode *find_shader(std::string_view name) noexcept;

}  // namespace edgecore::vulkan
