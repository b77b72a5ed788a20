# Defines edgecore::llm: the C++ runner of language models with their kernels as a static library, compiled in the build
# of the application that calls find_package(edgecore COMPONENTS llm). It needs PCRE2, utf8proc and
# nlohmann-json (Debian: libpcre2-dev, libutf8proc-dev, nlohmann-json3-dev).
if(NOT TARGET edgecore::host)
  set(edgecore-llm_FOUND FALSE)
  set(edgecore-llm_NOT_FOUND_MESSAGE "edgecore::llm needs edgecore::host: call find_package(edgecore COMPONENTS llm).")
  return()
endif()
if(NOT TARGET edgecore::llm)
  get_filename_component(_edgecore_llm "${CMAKE_CURRENT_LIST_DIR}/../native" ABSOLUTE)
  if(NOT EXISTS "${_edgecore_llm}")  # in the source tree this file lies in native/cmake
    get_filename_component(_edgecore_llm "${CMAKE_CURRENT_LIST_DIR}/.." ABSOLUTE)
  endif()
  set(EDGECORE_STATIC ON)
  add_subdirectory("${_edgecore_llm}" "${CMAKE_BINARY_DIR}/edgecore_llm" EXCLUDE_FROM_ALL)
  add_library(edgecore::llm ALIAS edgecore_llm)
  unset(_edgecore_llm)
endif()
