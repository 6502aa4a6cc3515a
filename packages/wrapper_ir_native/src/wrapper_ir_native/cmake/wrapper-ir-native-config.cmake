# The headers of native libraries: `find_package(wrapper-ir-native)`, then link to `wrapper_ir::native`.
# `wrapper_ir/model.h` is the C interface of a library, `wrapper_ir/model.hpp` a class of C++17 over it.
if(NOT TARGET wrapper_ir::native)
  add_library(wrapper_ir::native INTERFACE IMPORTED)
  get_filename_component(WRAPPER_IR_NATIVE_INCLUDE "${CMAKE_CURRENT_LIST_DIR}/../include" ABSOLUTE)
  set_target_properties(wrapper_ir::native PROPERTIES
    INTERFACE_INCLUDE_DIRECTORIES "${WRAPPER_IR_NATIVE_INCLUDE}"
    INTERFACE_LINK_LIBRARIES "${CMAKE_DL_LIBS}")
endif()
