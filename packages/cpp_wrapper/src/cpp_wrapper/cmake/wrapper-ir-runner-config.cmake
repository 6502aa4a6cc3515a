# The header-only runner of packages: `find_package(wrapper-ir-runner)`, then link to `wrapper_ir::runner`.
# TORCH_LIBRARY_DIR is the folder of libtorch_cpu.so: of a torch wheel, or of libtorch. Where libtorch_cuda.so is beside it, programs
# need that too: packages for CUDA devices look for it in the process.
set(TORCH_LIBRARY_DIR "" CACHE PATH "The folder of libtorch_cpu.so")
find_library(WRAPPER_IR_TORCH_CPU torch_cpu HINTS "${TORCH_LIBRARY_DIR}" REQUIRED)
find_library(WRAPPER_IR_C10 c10 HINTS "${TORCH_LIBRARY_DIR}" REQUIRED)
find_library(WRAPPER_IR_TORCH_CUDA torch_cuda HINTS "${TORCH_LIBRARY_DIR}")
set(WRAPPER_IR_TORCH_LIBRARIES "${WRAPPER_IR_TORCH_CPU};${WRAPPER_IR_C10}")
if(WRAPPER_IR_TORCH_CUDA)
  list(PREPEND WRAPPER_IR_TORCH_LIBRARIES
    -Wl,--no-as-needed "${WRAPPER_IR_TORCH_CUDA}" -Wl,--as-needed -Wl,--allow-shlib-undefined)
endif()
if(NOT TARGET wrapper_ir::runner)
  add_library(wrapper_ir::runner INTERFACE IMPORTED)
  set_target_properties(wrapper_ir::runner PROPERTIES
    INTERFACE_INCLUDE_DIRECTORIES "${CMAKE_CURRENT_LIST_DIR}/include"
    INTERFACE_COMPILE_FEATURES cxx_std_17
    INTERFACE_LINK_LIBRARIES "${WRAPPER_IR_TORCH_LIBRARIES};${CMAKE_DL_LIBS}")
endif()
