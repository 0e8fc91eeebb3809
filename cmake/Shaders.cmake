# Compiles each kernel of shaders/kernels.json to one SPIR-V module, checks it with spirv-val where that is found, and installs it.
find_program(GLSLANG NAMES glslangValidator glslang)
if(NOT GLSLANG)
  message(FATAL_ERROR "glslangValidator was not found: install glslang-tools")
endif()
find_program(SPIRV_VAL NAMES spirv-val)
if(NOT SPIRV_VAL)
  message(STATUS "spirv-val was not found: the SPIR-V modules are not checked (install spirv-tools)")
endif()

set(shader_dir "${CMAKE_CURRENT_SOURCE_DIR}/shaders")
set(generated_dir "${CMAKE_CURRENT_BINARY_DIR}/shaders")
set(spirv_dir "${CMAKE_CURRENT_BINARY_DIR}/spirv")
file(MAKE_DIRECTORY "${spirv_dir}")
set(schema_files "${CMAKE_CURRENT_SOURCE_DIR}/cmake/shader_build.py" "${shader_dir}/kernels.json"
    "${CMAKE_CURRENT_SOURCE_DIR}/src/vkdml/plan/schema.py")
set_property(DIRECTORY APPEND PROPERTY CMAKE_CONFIGURE_DEPENDS ${schema_files})
execute_process(COMMAND "${Python_EXECUTABLE}" ${schema_files} "${generated_dir}" RESULT_VARIABLE failed)
if(failed)
  message(FATAL_ERROR "shaders/kernels.json could not be read: the reason is above")
endif()

set(spirv_modules)
file(STRINGS "${generated_dir}/modules.txt" kernels)
foreach(kernel IN LISTS kernels)
  string(REPLACE " " ";" fields "${kernel}")
  list(POP_FRONT fields name family)
  set(module "${spirv_dir}/${name}.spv")
  set(source "${shader_dir}/${family}.comp")
  set(check)
  if(SPIRV_VAL)
    set(check COMMAND "${SPIRV_VAL}" --target-env vulkan1.1 "${module}")
  endif()
  add_custom_command(OUTPUT "${module}"
    COMMAND "${GLSLANG}" -V -g0 --quiet --target-env vulkan1.1 "-I${shader_dir}" "-I${generated_dir}/${family}" ${fields}
            --depfile "${module}.d" -o "${module}" "${source}"
    ${check}
    DEPENDS "${source}" DEPFILE "${module}.d" VERBATIM)
  list(APPEND spirv_modules "${module}")
endforeach()
add_custom_target(spirv ALL DEPENDS ${spirv_modules})
install(FILES ${spirv_modules} "${shader_dir}/kernels.json" DESTINATION vkdml/spirv)
