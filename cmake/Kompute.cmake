# Obtains Kompute 0.9.0's published source release, unmodified, and builds what vkdml uses of it as the library `kompute`.
set(KOMPUTE_SHA256 98e583dc6e9731ff6d7a3e3317817e4d93f7b2945929619e29a56325db279949)
set(KOMPUTE_SDIST "" CACHE FILEPATH "Kompute's source release kp-0.9.0.tar.gz (empty: download it with pip)")

set(kompute_remedy
  "Get it on a machine with a package index by\n"
  "  python3 -m pip download kp==0.9.0 --no-deps --no-binary kp\n"
  "and pass -DKOMPUTE_SDIST=/path/to/kp-0.9.0.tar.gz (with pip install: "
  "-C cmake.define.KOMPUTE_SDIST=/path/to/kp-0.9.0.tar.gz, or the environment variable KOMPUTE_SDIST).")
string(CONCAT kompute_remedy ${kompute_remedy})

if(KOMPUTE_SDIST)
  set(kompute_archive "${KOMPUTE_SDIST}")
  if(NOT EXISTS "${kompute_archive}" OR IS_DIRECTORY "${kompute_archive}")
    message(FATAL_ERROR "KOMPUTE_SDIST names no file: ${kompute_archive}\n${kompute_remedy}")
  endif()
else()
  set(kompute_archive "${CMAKE_BINARY_DIR}/kompute-download/kp-0.9.0.tar.gz")
  if(NOT EXISTS "${kompute_archive}")
    message(STATUS "Downloading Kompute 0.9.0's source release with pip")
    # pip builds the package's metadata while downloading a source release, so its output can be long; show it on failure only.
    execute_process(
      COMMAND "${Python_EXECUTABLE}" -m pip --disable-pip-version-check download kp==0.9.0
              --no-deps --no-binary kp --quiet --dest "${CMAKE_BINARY_DIR}/kompute-download"
      RESULT_VARIABLE pip_status OUTPUT_VARIABLE pip_output ERROR_VARIABLE pip_output)
    if(NOT EXISTS "${kompute_archive}")
      message(FATAL_ERROR "Kompute 0.9.0's sources could not be downloaded (pip: ${pip_status}).\n${pip_output}\n${kompute_remedy}")
    endif()
  endif()
endif()
file(SHA256 "${kompute_archive}" kompute_hash)
if(NOT kompute_hash STREQUAL KOMPUTE_SHA256)
  if(NOT KOMPUTE_SDIST)
    file(REMOVE "${kompute_archive}")
  endif()
  message(FATAL_ERROR "${kompute_archive} is not Kompute 0.9.0's source release: its SHA-256 is\n"
                      "  ${kompute_hash}, expected\n  ${KOMPUTE_SHA256}.\n${kompute_remedy}")
endif()

set(KOMPUTE_SOURCE "${CMAKE_BINARY_DIR}/kompute-source/kp-0.9.0")
if(NOT EXISTS "${KOMPUTE_SOURCE}/src/Tensor.cpp")
  file(ARCHIVE_EXTRACT INPUT "${kompute_archive}" DESTINATION "${CMAKE_BINARY_DIR}/kompute-source"
       PATTERNS "kp-0.9.0/src/*")
endif()

# Headers only: the Vulkan loader is opened at run time.
find_path(VULKAN_HEADERS vulkan/vulkan.hpp)
if(NOT VULKAN_HEADERS)
  message(FATAL_ERROR "Vulkan's C++ headers (vulkan/vulkan.hpp) were not found: install libvulkan-dev, "
                      "or pass -DVULKAN_HEADERS=/path/that/holds/vulkan")
endif()
# Kompute's headers include {fmt}; with logging off, nothing of it is called.
find_path(FMT_HEADERS fmt/core.h)
if(NOT FMT_HEADERS)
  message(FATAL_ERROR "The {fmt} headers (fmt/core.h) were not found: install libfmt-dev, "
                      "or pass -DFMT_HEADERS=/path/that/holds/fmt")
endif()
add_library(kompute STATIC "${KOMPUTE_SOURCE}/src/Core.cpp" "${KOMPUTE_SOURCE}/src/Tensor.cpp")
target_include_directories(kompute SYSTEM PUBLIC
  "${KOMPUTE_SOURCE}/src/include" "${KOMPUTE_SOURCE}/src/include/kompute"
  "${VULKAN_HEADERS}" "${FMT_HEADERS}")
target_compile_definitions(kompute PUBLIC
  KOMPUTE_OPT_LOG_LEVEL_DISABLED=1 KOMPUTE_OPT_ACTIVE_LOG_LEVEL=6 KOMPUTE_DISABLE_VK_DEBUG_LAYERS=1
  VK_NO_PROTOTYPES=1 VULKAN_HPP_DISPATCH_LOADER_DYNAMIC=1)
target_compile_options(kompute PRIVATE -w)
target_compile_features(kompute PUBLIC cxx_std_17)
set_target_properties(kompute PROPERTIES POSITION_INDEPENDENT_CODE ON CXX_VISIBILITY_PRESET hidden)
