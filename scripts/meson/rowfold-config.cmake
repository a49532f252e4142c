# find_package(rowfold) -> target rowfold::rowfold. Written by hand; lies in <prefix>/<libdir>/cmake/rowfold.
if(NOT TARGET rowfold::rowfold)
  get_filename_component(_rowfold_libdir "${CMAKE_CURRENT_LIST_DIR}/../.." ABSOLUTE)
  find_library(_rowfold_library NAMES rowfold PATHS "${_rowfold_libdir}" NO_DEFAULT_PATH)
  # The header lies in <prefix>/include; the library folder is one to two levels below the prefix (lib, lib64, lib/<triplet>).
  find_path(_rowfold_include NAMES rowfold.h PATHS "${_rowfold_libdir}/../include" "${_rowfold_libdir}/../../include"
            NO_DEFAULT_PATH)
  if(NOT _rowfold_library OR NOT _rowfold_include)
    set(rowfold_FOUND FALSE)
    set(rowfold_NOT_FOUND_MESSAGE "rowfold: library or header missing beside ${CMAKE_CURRENT_LIST_DIR}")
    return()
  endif()
  add_library(rowfold::rowfold UNKNOWN IMPORTED)
  set_target_properties(rowfold::rowfold PROPERTIES
    IMPORTED_LOCATION "${_rowfold_library}"
    INTERFACE_INCLUDE_DIRECTORIES "${_rowfold_include}")
  unset(_rowfold_library CACHE)
  unset(_rowfold_include CACHE)
endif()
set(rowfold_FOUND TRUE)
