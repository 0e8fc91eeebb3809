# CMake toolchain of the wheels: one compiler, with C++ libraries of its own, for any processor and for glibc 2.17.
# In the environment: VKDML_ZIG is the program, VKDML_ZIG_TARGET such as aarch64-linux-gnu.2.17, VKDML_ZIG_HEADERS a folder.
string(REGEX MATCH "^[^-]+" CMAKE_SYSTEM_PROCESSOR "$ENV{VKDML_ZIG_TARGET}")
set(CMAKE_SYSTEM_NAME Linux)
set(CMAKE_CXX_COMPILER "$ENV{VKDML_ZIG}" c++)
set(CMAKE_CXX_COMPILER_TARGET "$ENV{VKDML_ZIG_TARGET}")
# Zig compiles its C++ library for each kind of build that is linked: not for what CMake tries out, which has none.
set(CMAKE_TRY_COMPILE_TARGET_TYPE STATIC_LIBRARY)
set(CMAKE_CXX_ARCHIVE_CREATE "$ENV{VKDML_ZIG} ar qcD <TARGET> <OBJECTS>")
set(CMAKE_CXX_ARCHIVE_APPEND "$ENV{VKDML_ZIG} ar qD <TARGET> <OBJECTS>")
set(CMAKE_CXX_ARCHIVE_FINISH "$ENV{VKDML_ZIG} ranlib -D <TARGET>")

# Python's limited API does not include <stdio.h>, nor do libc++'s other headers; nanobind 3.1 uses stderr.
set(CMAKE_CXX_FLAGS_INIT "-include cstdio")
# Folders differ from build to build; what is built does not.
foreach(folder IN ITEMS "${CMAKE_SOURCE_DIR}" "${CMAKE_BINARY_DIR}" "$ENV{VKDML_ZIG_HEADERS}")
  string(APPEND CMAKE_CXX_FLAGS_INIT " -ffile-prefix-map=${folder}=.")
endforeach()
# Not /usr/include itself: its C library is newer.
set(CMAKE_CXX_STANDARD_INCLUDE_DIRECTORIES "$ENV{VKDML_ZIG_HEADERS}")
# What nanobind would probe for. Old C libraries do not keep vector registers when they allocate such thread-local storage.
set(NB_HAS_MTLS_GNU2 OFF CACHE INTERNAL "")
