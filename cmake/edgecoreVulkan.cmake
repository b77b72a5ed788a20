# edgecore_add_vulkan(TARGET) compiles the Vulkan layer (instance, device, memory, submission of commands) into the
# library of a backend, and adds its headers to the include path of the target. The variable EDGECORE_VULKAN_HEADERS is
# then the folder with the Vulkan headers and their licenses.
#
# Nothing links libvulkan: volk opens it at run time, and the memory allocator gets its functions from volk.
function(edgecore_add_vulkan target)
  find_package(Python 3.10 REQUIRED COMPONENTS Interpreter)
  find_package(Threads REQUIRED)
  set(folder "${EDGECORE_NATIVE}/vulkan")

  # The Vulkan headers, volk and the memory allocator, from a cache outside of this folder.
  set(get_vulkan "${folder}/third_party/get_vulkan.py")
  set_property(DIRECTORY APPEND PROPERTY CMAKE_CONFIGURE_DEPENDS "${get_vulkan}" "${folder}/third_party/vulkan.pins")
  execute_process(
    COMMAND "${Python_EXECUTABLE}" "${get_vulkan}"
    OUTPUT_VARIABLE vulkan OUTPUT_STRIP_TRAILING_WHITESPACE RESULT_VARIABLE status)
  if(NOT status EQUAL 0)
    message(FATAL_ERROR "The Vulkan headers could not be fetched; the message above says why.")
  endif()

  target_sources(${target} PRIVATE "${folder}/device.cpp" "${folder}/instance.cpp" "${folder}/vma.cpp")
  target_include_directories(${target} PUBLIC "${EDGECORE_NATIVE}")
  target_include_directories(${target} SYSTEM PUBLIC "${vulkan}/include")
  target_compile_definitions(${target} PUBLIC VK_NO_PROTOTYPES
    PRIVATE VMA_STATIC_VULKAN_FUNCTIONS=0 VMA_DYNAMIC_VULKAN_FUNCTIONS=1)
  target_link_libraries(${target} PRIVATE ${CMAKE_DL_LIBS} Threads::Threads)
  set(EDGECORE_VULKAN_HEADERS "${vulkan}" PARENT_SCOPE)
endfunction()
