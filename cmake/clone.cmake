# The cache of a build of a plugin in a clone: find_package(edgecore) takes the headers and CMake files of this folder.
# The pyproject.toml of each plugin names this file, since no package index has the edgecore of a clone.
set(edgecore_DIR "${CMAKE_CURRENT_LIST_DIR}" CACHE PATH "The folder of edgecoreConfig.cmake" FORCE)
