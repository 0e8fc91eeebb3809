// The exceptions of the native module; module.cpp maps each to its Python class.
#pragma once

#include <stdexcept>

namespace vkdml {

// A device, driver or runtime fault; Python's vkdml.DeviceError.
struct DeviceError : std::runtime_error {
    using std::runtime_error::runtime_error;
};

// No loader, no driver or no such device; Python's vkdml.NoDeviceError.
struct NoDeviceError : DeviceError {
    using DeviceError::DeviceError;
};

// The driver gave the device up; only a new device works again. Python's vkdml.DeviceLostError.
struct DeviceLostError : DeviceError {
    using DeviceError::DeviceError;
};

// Memory of any kind ran out; Python's MemoryError.
struct OutOfMemoryError : std::runtime_error {
    using std::runtime_error::runtime_error;
};

} // namespace vkdml
