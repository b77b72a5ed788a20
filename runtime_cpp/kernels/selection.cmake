# The compile options of kernels, and edgecore_kernels(), which builds the kernels that chosen models need.
set_property(GLOBAL PROPERTY EDGECORE_KERNELS_DIR ${CMAKE_CURRENT_SOURCE_DIR})
list(TRANSFORM EDGECORE_KERNELS_SOURCES PREPEND ${CMAKE_CURRENT_SOURCE_DIR}/ OUTPUT_VARIABLE edgecore_kernels_paths)
set_property(GLOBAL PROPERTY EDGECORE_KERNELS_PATHS ${edgecore_kernels_paths})
set_property(GLOBAL PROPERTY EDGECORE_KERNELS_VERSION ${EDGECORE_KERNELS_VERSION})
# Eigen makes sin and cos of float32 faster (ops/unary.cpp). edgecore's wheels require Eigen; other builds use Eigen if
# it is installed.
if(EDGECORE_REQUIRE_EIGEN)
  find_package(Eigen3 3.4 REQUIRED NO_MODULE)
else()
  find_package(Eigen3 3.4 QUIET NO_MODULE)
endif()
if(EIGEN3_INCLUDE_DIRS)
  set_property(GLOBAL PROPERTY EDGECORE_EIGEN ${EIGEN3_INCLUDE_DIRS})
endif()
set_property(GLOBAL PROPERTY EDGECORE_KERNELS_WARNINGS ${EDGECORE_WARNINGS})

# Set include paths, definitions and compile options of the object library of one variant.
function(edgecore_compile_kernels target variant)
  get_property(folder GLOBAL PROPERTY EDGECORE_KERNELS_DIR)
  get_property(eigen GLOBAL PROPERTY EDGECORE_EIGEN)
  get_property(version GLOBAL PROPERTY EDGECORE_KERNELS_VERSION)
  get_property(warnings GLOBAL PROPERTY EDGECORE_KERNELS_WARNINGS)
  target_include_directories(${target} PRIVATE ${folder} ${folder}/../include)
  if(eigen)
    target_include_directories(${target} SYSTEM PRIVATE ${eigen})
    target_compile_definitions(${target} PRIVATE EDGECORE_EIGEN Eigen=Eigen_${variant} EIGEN_MPL2_ONLY
                                                 EIGEN_DONT_PARALLELIZE EIGEN_NO_DEBUG EIGEN_NO_IO
                                                 EIGEN_DEFAULT_DENSE_INDEX_TYPE=int64_t)
  endif()
  target_compile_definitions(${target} PRIVATE EDGECORE_VARIANT=${variant} EDGECORE_VERSION="${version}")
  # -fno-math-errno and -fno-trapping-math let the compiler vectorize loops with comparisons or square roots. -fwrapv
  # makes integers wrap, as in ATen.
  target_compile_options(
    ${target} PRIVATE -fno-exceptions $<$<COMPILE_LANGUAGE:CXX>:-fno-rtti> -fno-math-errno -fno-trapping-math -fwrapv -ffp-contract=fast
                      -ffunction-sections -fdata-sections ${warnings})
  set_target_properties(${target} PROPERTIES CXX_STANDARD 17 CXX_STANDARD_REQUIRED ON CXX_VISIBILITY_PRESET hidden
                                             VISIBILITY_INLINES_HIDDEN ON)
  edgecore_set_pic(${target})
endfunction()

# edgecore_kernels(TARGET app [PTE a.pte...] [OPERATORS aten::add.out=float32+int8...] [YAML a.yaml...] [CHECK
# b.pte...]) links `app` with only the kernels that the files of PTE call, that OPERATORS names and that the files of
# YAML select, with code only for their dtypes. It is an error if a file of CHECK needs another kernel or dtype. The
# result replaces edgecore::kernels. The files must exist when CMake runs; CMake runs again when one of them changes.
# `app` must link edgecore::host or edgecore::core; edgecore_kernels_library() returns the table of kernels.
function(edgecore_kernels)
  cmake_parse_arguments(PARSE_ARGV 0 arg "" "TARGET" "PTE;OPERATORS;YAML;CHECK")
  if(NOT arg_TARGET OR NOT (arg_PTE OR arg_OPERATORS OR arg_YAML) OR arg_UNPARSED_ARGUMENTS)
    message(FATAL_ERROR "edgecore_kernels needs TARGET, and PTE, OPERATORS or YAML: "
                        "edgecore_kernels(TARGET app PTE model.pte).")
  endif()
  set(options "")
  if(arg_OPERATORS)
    list(JOIN arg_OPERATORS "," names)
    list(APPEND options --operators "${names}")
  endif()
  foreach(option IN ITEMS PTE YAML CHECK)
    set(files "")
    foreach(file IN LISTS arg_${option})
      get_filename_component(file ${file} ABSOLUTE)
      list(APPEND files ${file})
    endforeach()
    if(files)
      set_property(DIRECTORY APPEND PROPERTY CMAKE_CONFIGURE_DEPENDS ${files})
      list(JOIN files "," files)
      string(TOLOWER "${option}" option)
      string(REPLACE "pte" "for" option "${option}")
      list(APPEND options --${option} "${files}")
    endif()
  endforeach()
  get_property(folder GLOBAL PROPERTY EDGECORE_KERNELS_DIR)
  get_property(sources GLOBAL PROPERTY EDGECORE_KERNELS_PATHS)
  get_property(packages GLOBAL PROPERTY EDGECORE_PYTHONPATH)
  find_package(Python3 3.10 REQUIRED COMPONENTS Interpreter)
  set(table ${CMAKE_CURRENT_BINARY_DIR}/${arg_TARGET}_kernels.c)
  execute_process(
    COMMAND ${CMAKE_COMMAND} -E env "PYTHONPATH=${packages}" ${Python3_EXECUTABLE} -m edgecore kernels
            ${options} --out ${table} --sources ${folder}
    RESULT_VARIABLE status ERROR_VARIABLE text OUTPUT_QUIET)
  if(status)
    message(FATAL_ERROR "edgecore kernels: ${text}")
  endif()
  file(STRINGS ${table} dtypes REGEX "EDGECORE_DTYPES=")
  string(REGEX MATCH "EDGECORE_DTYPES=0x[0-9a-f]+" dtypes "${dtypes}")

  add_library(${arg_TARGET}_kernels STATIC ${sources} ${folder}/lib/exports.cpp ${table})
  edgecore_compile_kernels(${arg_TARGET}_kernels baseline)
  if(EDGECORE_OPTIMIZE_SIZE)
    target_compile_options(${arg_TARGET}_kernels PRIVATE -Os)
  endif()
  target_compile_definitions(${arg_TARGET}_kernels PRIVATE ${dtypes})
  if(APPLE)
    target_link_options(${arg_TARGET}_kernels INTERFACE LINKER:-dead_strip)
  else()
    target_link_options(${arg_TARGET}_kernels INTERFACE LINKER:--gc-sections)
  endif()
  set_property(TARGET ${arg_TARGET} PROPERTY EDGECORE_KERNELS ${arg_TARGET}_kernels)
  target_link_libraries(${arg_TARGET} PRIVATE ${arg_TARGET}_kernels)
endfunction()
