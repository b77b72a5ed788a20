# Defines edgecore::llm: the C++ runner of language models with their kernels as a static library, compiled in the build
# of the application that calls find_package(edgecore COMPONENTS llm). It needs PCRE2, utf8proc and
# nlohmann-json (Debian: libpcre2-dev, libutf8proc-dev, nlohmann-json3-dev).
if(NOT TARGET edgecore::host)
  set(edgecore-llm_FOUND FALSE)
  set(edgecore-llm_NOT_FOUND_MESSAGE "edgecore::llm needs edgecore::host: call find_package(edgecore COMPONENTS llm).")
  return()
endif()
edgecore_add_component(llm)
