# Targets for packages and applications that are built against an installed edgecore:
#
#   edgecore::headers   the public headers; all that a backend or kernel package needs, which links nothing of the host
#   edgecore::core      programs and methods, without operating system, heap or exceptions
#   edgecore::kernels   every operator (on x86-64 three times, the best one chosen when the program runs)
#   edgecore::host      core and kernels with files, threads, plugins and the Module class; not on bare metal
#
# and edgecore_kernels(TARGET app PTE model.pte), which takes the operators of a model only. The libraries are compiled by
# the project that uses them, with its compiler and flags, from the sources in the package; kernels use Eigen where
# find_package finds it. find_package(edgecore COMPONENTS headers) leaves the sources out: for the package of a backend,
# together with edgecore_add_backend(TARGET SOURCES file...).
include("${CMAKE_CURRENT_LIST_DIR}/edgecoreBackend.cmake")
get_filename_component(_edgecore_native "${CMAKE_CURRENT_LIST_DIR}/../native" ABSOLUTE)
if(NOT EXISTS "${_edgecore_native}")  # in the source tree, whose readers are generated in the build
  get_filename_component(_edgecore_native "${CMAKE_CURRENT_LIST_DIR}/../runtime_cpp" ABSOLUTE)
endif()
if(NOT TARGET edgecore::headers)
  add_library(edgecore::headers INTERFACE IMPORTED GLOBAL)
  set_target_properties(edgecore::headers PROPERTIES INTERFACE_INCLUDE_DIRECTORIES "${_edgecore_native}/include")
endif()
get_property(_edgecore_languages GLOBAL PROPERTY ENABLED_LANGUAGES)
if("CXX" IN_LIST _edgecore_languages AND NOT TARGET edgecore::core AND NOT edgecore_FIND_COMPONENTS STREQUAL "headers")
  set(EDGECORE_KERNELS_VERSION ${edgecore_VERSION})
  add_subdirectory("${_edgecore_native}" "${CMAKE_BINARY_DIR}/edgecore" EXCLUDE_FROM_ALL)
  foreach(_edgecore_part core kernels host)
    if(TARGET edgecore_${_edgecore_part})
      add_library(edgecore::${_edgecore_part} ALIAS edgecore_${_edgecore_part})
    endif()
  endforeach()
endif()
unset(_edgecore_native)
unset(_edgecore_languages)
