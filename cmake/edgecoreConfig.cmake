# Target edgecore::headers: the public headers, for a backend or kernel package built against an installed edgecore.
# A plugin links nothing of the host; see edgecore/backend.h.
include_guard(GLOBAL)
add_library(edgecore::headers INTERFACE IMPORTED)
get_filename_component(_edgecore_include "${CMAKE_CURRENT_LIST_DIR}/../include" ABSOLUTE)
set_target_properties(edgecore::headers PROPERTIES INTERFACE_INCLUDE_DIRECTORIES "${_edgecore_include}")
unset(_edgecore_include)
